// SPDX-License-Identifier: Apache-2.0
// Small operations that only gradient rules use.
#pragma once

#include "ops/op.h"

namespace sow::detail {

// Row-major positions over the dimensions [first, last) of `like`, with extent 1 elsewhere: int64.
Tensor positions_like(const Tensor& like, int64_t first, int64_t last);

// The elements of x under the mask, in order, in like's shape; zeros for the rest of it.
Tensor masked_compress(const Tensor& x, const Tensor& mask, const Tensor& like);

// A value of zero that passes gradients on to x as if it were x: for terms that vanish but whose
// derivative does not.
Tensor vanish(const Tensor& x);

// x itself, for the factors of products: first and second derivatives pass, but a third one is an
// error where `zeros`, the count of zero factors a destination has, exceeds one anywhere.
Tensor product_gate(const Tensor& x, const Tensor& zeros);

extern const OpDef kPositionsLike, kMaskedCompress, kVanish, kProductGate, kProductLimit,
    kProductChecked;

}  // namespace sow::detail
