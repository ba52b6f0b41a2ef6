// SPDX-License-Identifier: Apache-2.0
// Shapes and strides as arithmetic: sizes with overflow checks, broadcasting, overlap.
#pragma once

#include <cstdint>

#include "sow/tensor.h"

namespace sow::detail {

// Product of the extents; an error if it, or the bytes, exceed 63 bits.
int64_t checked_numel(const Dims& shape, size_t item_size, const char* op);

Dims row_major_strides(const Dims& shape);
// Dense strides in the dimension order of `like` (a transposed input gives a transposed result).
Dims dense_strides_like(const Dims& shape, const Dims& like);
bool is_row_major(const Dims& shape, const Dims& strides);

// axis + rank if negative; an error that names op, axis and rank if out of range. A 0-d tensor
// counts as rank 1.
int64_t wrap_axis(const char* op, int64_t axis, int rank);

// Whether `from` broadcasts to `to` (NumPy's rule), and the strides it then has.
// Unknown extents (-1) are taken to fit.
bool broadcasts_to(const Dims& from, const Dims& to);
Dims broadcast_strides(const Dims& from, const Dims& strides, const Dims& to);
// The common shape of both, or false.
bool broadcast_shapes(const Dims& a, const Dims& b, Dims& out);

// The bytes a view touches: [first, last) relative to its data pointer.
struct ByteRange {
  int64_t first = 0, last = 0;
};
ByteRange byte_range(const Dims& shape, const Dims& strides, size_t item_size);

// Whether two different places of the view share memory. Sorted strides decide, then a bounded
// exact search; `undecided` counts as overlapping for a destination.
enum class SelfOverlap { no, yes, undecided };
SelfOverlap self_overlap(const Dims& shape, const Dims& strides);

// Whether the two tensors' byte ranges intersect (conservative: interleaved views count).
bool may_share_bytes(const Tensor& a, const Tensor& b);

}  // namespace sow::detail
