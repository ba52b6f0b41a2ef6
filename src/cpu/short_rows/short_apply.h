// SPDX-License-Identifier: Apache-2.0
// Short rows folded straight into the destination, for reductions whose running result is exact in
// the type.
#pragma once

#include "cpu/sum/fixed_point_rows.h"

namespace sow::detail {

// Folds items into their rows, the first of which is at `dst`, `step` bytes apart.
using ApplyShortRows = void (*)(char* dst, int64_t step, const ShortItems&);

// Null where there is none.
ApplyShortRows short_apply(DType dtype, Reduce reduce, int columns);

// src/cpu/short_rows/short_apply_avx512.cc: amax and amin of float32.
ApplyShortRows short_extremes_avx512(Reduce reduce, int columns);

}  // namespace sow::detail
