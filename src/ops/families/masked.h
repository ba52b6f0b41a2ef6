// Masks as coordinates and counts, for the operations that need them on the host.
#pragma once

#include "ops/op.h"

namespace sow::detail {

// How many trues `mask` (bool, any strides) has; waits for the answer.
int64_t count_true(const Tensor& mask);
// The coordinates of the trues in row-major order: [count, rank], int64.
Tensor coordinates_of(const Tensor& mask, int64_t count, const char* op);
// A bool tensor that says where x is not zero: NaN is not, -0.0 is. A bool x is its own.
Tensor nonzero_mask(const Tensor& x);

}  // namespace sow::detail
