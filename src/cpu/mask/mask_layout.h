// SPDX-License-Identifier: Apache-2.0
// The dimensions of a Transfer under a mask, merged where every operand allows it.
#pragma once

#include "transfer/nested_dims.h"
#include "transfer/transfer.h"

namespace sow::detail {

// Whether the strategies for masks take it: a move, and no two positions write one place.
bool is_masked_move(const Transfer& transfer);

int64_t mask_positions(const Transfer& transfer);
// The size of the trailing dimensions along which the mask is broadcast.
int64_t mask_row(const Transfer& transfer);

// Operands of the nests below, by position. What is addressed by rank, and what is absent, has
// stride 0 and is in nobody's way.
enum { kDst, kMask, kSrc, kBase };

struct ElementLayout {
  Nest<4> all;
  Nest<1> mask;
  int64_t count = 1;

  // Along the innermost run; 1 where there is a single element.
  int64_t step(int operand) const { return all.rank() == 0 ? 1 : all.stride[operand].back(); }
};
ElementLayout element_layout(const Transfer& transfer);

// One mask byte decides about a row: outer walks the bytes, move and keep walk a row.
struct RowLayout {
  Nest<4> outer;
  Nest<1> mask;
  Nest<2> move;  // dst and src of a true row
  Nest<2> keep;  // dst and base of a false one
  int64_t rows = 1;
  int64_t row = 1;
};
RowLayout row_layout(const Transfer& transfer);

}  // namespace sow::detail
