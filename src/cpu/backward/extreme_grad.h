// SPDX-License-Identifier: Apache-2.0
// The gradient of an extreme in vector registers: 64 columns of one destination row in one walk.
#pragma once

#include "cpu/rows/row_tile.h"

namespace sow::detail {

// The rows are the updates' values; their dst is not used. Everything else is of the destination.
struct ExtremeGrad {
  RowTile rows;
  const char* result = nullptr;
  const char* x = nullptr;  // null: takes no part
  const char* grad = nullptr;
  char* x_grad = nullptr;       // null: not wanted
  char* source_grad = nullptr;  // of source row 0; rows lie as those of the sources do
  bool streams = false;         // source_grad's rows are whole cache lines, written past the caches
};

// True if no two values tie; else what was written is wrong, and to be written again.
using ExtremeGradKernel = bool (*)(const ExtremeGrad&);

// For kTileColumns columns, or null where the current instruction set has none.
ExtremeGradKernel extreme_grad_kernel(DType dtype, int shift);

}  // namespace sow::detail
