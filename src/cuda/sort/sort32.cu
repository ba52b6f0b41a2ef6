// SPDX-License-Identifier: Apache-2.0
// The radix sort of 32-bit keys and positions.
#include "cuda/sort/sort.cuh"

namespace sow::detail::cuda {

template size_t sort_workspace<uint32_t>(int64_t, int);
template void sort_pairs<uint32_t>(uint32_t* (&)[2], uint32_t* (&)[2], int64_t, int, char*, size_t,
                                   cudaStream_t);

}  // namespace sow::detail::cuda
