// SPDX-License-Identifier: Apache-2.0
// Operations that take a second tensor for its shape alone: what gradient rules are made of, also
// where a program does not know its extents yet.
#pragma once

#include "core/tensor/tensor_impl.h"
#include "ops/op.h"

namespace sow::detail {

Tensor zeros_like(const Tensor& x);
// Whether a rule may write into fresh zeros: not where they are real and what is written is not.
inline bool may_write(const Tensor& zeros, const Tensor& grad) {
  return grad.impl()->symbolic == nullptr || zeros.impl()->symbolic != nullptr;
}
Tensor full_like(const Tensor& x, const Scalar& value, DType dtype);
// x summed over what broadcasting it from like's shape had expanded; x itself if nothing had.
Tensor sum_to(const Tensor& x, const Tensor& like);
// x broadcast to like's shape, after its axes `missing` (of like) came back with extent 1.
Tensor expand_like(const Tensor& x, const Tensor& like, const Dims& missing = {});
Tensor reshape_like(const Tensor& x, const Tensor& like);
// The same by reshape, which files know, unless several extents are unknown.
Tensor shaped_as(const Tensor& x, const Tensor& like);
// x divided, in float64, by how many elements of `like` there are for each of x's.
Tensor share_among(const Tensor& x, const Tensor& like);
// The first elements of x in every dimension, as many as `like` has; and its transpose: x in the
// first corner of zeros of like's shape.
Tensor corner_like(const Tensor& x, const Tensor& like);
Tensor pad_like(const Tensor& x, const Tensor& like);

// x / count, element by element, in float64 and rounded once; count is int64 and broadcasts to x.
Tensor share(const Tensor& x, const Tensor& count);
// Where both have the same bits or are NaN: bool.
Tensor same(const Tensor& a, const Tensor& b);

// Lowers to x / count all over `out`, of x's shape.
void share_into(const Tensor& out, const Tensor& x, int64_t count);
// Lowers to zeros all over `out`.
void fill_zeros(const Call& call, const Tensor& out);

// conj(value) for the scalar factor of a product.
Scalar conjugate(const Scalar& value);

extern const OpDef kFullLike, kSumTo, kExpandLike, kReshapeLike, kShareAmong, kCornerLike, kPadLike,
    kShare, kSame;

}  // namespace sow::detail
