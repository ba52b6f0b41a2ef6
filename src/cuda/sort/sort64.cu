// SPDX-License-Identifier: Apache-2.0
// The radix sort of 64-bit keys and positions.
#include "cuda/sort/sort.cuh"

namespace sow::detail::cuda {

template size_t sort_workspace<uint64_t>(int64_t, int);
template void sort_pairs<uint64_t>(uint64_t* (&)[2], uint64_t* (&)[2], int64_t, int, char*, size_t,
                                   cudaStream_t);

}  // namespace sow::detail::cuda
