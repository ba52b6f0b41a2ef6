// SPDX-License-Identifier: Apache-2.0
// mask_rows against a plain loop: widths, instruction sets, strides, threads.
#include "cpu/mask_cases.h"

namespace sow::detail {
namespace {

TEST(MaskRows, RowsOfEveryKind) {
  Random random(6);
  for (int round = 0; round < 1200; ++round) {
    MaskCase c;
    c.dtype = kWidths[pick(random, 0, 4)];
    const int64_t rank = pick(random, 1, 5);
    for (int64_t d = 0; d < rank; ++d) c.shape.push_back(pick(random, 1, 7));
    c.shape[c.shape.size() - 1] = pick(random, 2, 40);
    c.side = kSides[pick(random, 0, 2)];
    c.layout = pick(random, 0, 1) == 0 ? Layout::dense : Layout::strided;
    c.with_base = c.side != MaskSide::destination && pick(random, 0, 1) == 0;
    c.scalar = c.side == MaskSide::skip && pick(random, 0, 1) == 0;
    c.row_dims = static_cast<int>(pick(random, 1, rank));
    c.percent = static_cast<int>(pick(random, 0, 4)) * 25;
    c.rank_stride = pick(random, 0, 3) == 0 ? 2 : 1;
    ASSERT_NO_FATAL_FAILURE(check(random, c, k_mask_rows, {1, 3}));
    ASSERT_NO_FATAL_FAILURE(check(random, c, k_mask_elements, {2}));
  }
}

TEST(MaskRows, PiecesPartsAndLargeRows) {
  Random random(7);
  const Dims shapes[] = {{1500, 300}, {2, 300000}, {1, 3, 100, 1000}, {9000, 260}, {3, 1000000}};
  for (const Dims& shape : shapes) {
    for (const MaskSide side : kSides) {
      for (const bool with_base : {false, true}) {
        if (with_base && side == MaskSide::destination) continue;
        MaskCase c;
        c.shape = shape;
        c.side = side;
        c.with_base = with_base;
        c.row_dims = shape.rank() == 4 ? 2 : 1;
        check(random, c, k_mask_rows, {2, 7});
      }
    }
  }
}

}  // namespace
}  // namespace sow::detail
