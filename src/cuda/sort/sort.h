// SPDX-License-Identifier: Apache-2.0
// A stable radix sort of (place, position) pairs.
#pragma once

#include <cstdint>

#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

// Bytes of scratch for `count` pairs; U is uint32_t or uint64_t.
template <class U>
size_t sort_workspace(int64_t count, int bits);

// Sorts by the low `bits` of the keys. Both buffers of each pair may be written; afterwards the
// results are in keys[0] and values[0], the pointers swapped as needed.
template <class U>
void sort_pairs(U* (&keys)[2], U* (&values)[2], int64_t count, int bits, char* workspace,
                size_t bytes, cudaStream_t stream);

}  // namespace sow::detail::cuda
