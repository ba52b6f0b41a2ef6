// SPDX-License-Identifier: Apache-2.0
// Masks as coordinates and counts, for the operations that need them on the host.
#pragma once

#include "ops/op.h"

namespace sow::detail {

// A mask whose trues were counted, and what the device keeps of the count for who reads it next.
struct CountedMask {
  Tensor bytes;       // row-major, dimensions that share a byte (of an expanded mask) once
  Tensor ranks;       // may be undefined
  int64_t count = 0;  // of trues, copies included

  // The mask of a Transfer over `shape`, in which it was expanded.
  void set(Transfer& transfer, const Dims& shape) const;
};

// Counts the trues of `mask` (bool, any strides); waits for the answer. `keeps`: the mask is read
// again right after.
CountedMask count_mask(const Tensor& mask, bool keeps);
inline int64_t count_true(const Tensor& mask) { return count_mask(mask, false).count; }
// The coordinates of the trues in row-major order: [count, rank], int64.
Tensor coordinates_of(const Tensor& mask, int64_t& count);
// A bool tensor that says where x is not zero: NaN is not, -0.0 is. A bool x is its own.
Tensor nonzero_mask(const Tensor& x);

}  // namespace sow::detail
