// SPDX-License-Identifier: Apache-2.0
// mask_elements against a plain loop: widths, instruction sets, strides, threads; what both mask
// strategies say no to; and counting.
#include "cpu/mask_cases.h"

namespace sow::detail {
namespace {

TEST(MaskElements, DenseRunsOfEveryLengthAndWidth) {
  Random random(1);
  for (const DType dtype : kWidths) {
    for (const MaskSide side : kSides) {
      for (const int64_t count : {0,  1,  2,  3,  7,  8,   9,   15,  16,  17,  31,
                                  32, 33, 63, 64, 65, 127, 128, 129, 191, 257, 1000}) {
        for (const int percent : {0, 10, 50, 90, 100}) {
          MaskCase c;
          c.dtype = dtype;
          c.shape = {count};
          c.side = side;
          c.percent = percent;
          c.spare = count % 3;
          check(random, c, k_mask_elements, {1});
          c.scalar = side == MaskSide::skip;
          c.with_base = side != MaskSide::destination;
          check(random, c, k_mask_elements, {1});
        }
      }
    }
  }
}

TEST(MaskElements, PiecesAndTheirEdges) {
  Random random(2);
  for (const DType dtype : kWidths) {
    for (const MaskSide side : kSides) {
      for (const int64_t count : {65536, 98305}) {
        MaskCase c;
        c.dtype = dtype;
        c.shape = {count};
        c.side = side;
        check(random, c, k_mask_elements, {2});
        if (side == MaskSide::destination) continue;
        c.with_base = true;
        check(random, c, k_mask_elements, {3});
      }
    }
  }
}

// Past the size from which results are written around the caches, at odd addresses too.
TEST(MaskElements, LargeResults) {
  Random random(3);
  for (const DType dtype : {DType::int8, DType::float32, DType::complex64, DType::complex128}) {
    MaskCase c;
    c.dtype = dtype;
    c.shape = {static_cast<int64_t>((9 << 20) / size_of(dtype)) + 3};
    c.with_base = true;
    check(random, c, k_mask_elements, {1, 3});
  }
  MaskCase c;
  c.shape = {3, 1024 * 1024};
  c.with_base = true;
  MaskProblem p;
  make_problem(random, c, p);
  p.dst.bytes.resize(p.dst.bytes.size() + 64);
  for (const int64_t shift : {1, 2, 3, 4, 20}) {
    p.transfer.dst.data = p.dst.bytes.data() + shift;
    std::fill(p.dst.bytes.begin(), p.dst.bytes.end(), 'x');
    plain_loop(p.transfer);
    const std::vector<char> expected = p.dst.bytes;
    std::fill(p.dst.bytes.begin(), p.dst.bytes.end(), 'x');
    run_strategy(k_mask_elements, p.transfer, 2);
    ASSERT_EQ(p.dst.bytes, expected) << shift;
  }
}

TEST(MaskElements, AnyStridesAndRanks) {
  Random random(4);
  for (int round = 0; round < 1500; ++round) {
    MaskCase c;
    c.dtype = kWidths[pick(random, 0, 4)];
    const int64_t rank = pick(random, 0, 7);
    for (int64_t d = 0; d < rank; ++d)
      c.shape.push_back(pick(random, round % 40 == 0 ? 0 : 1, rank > 3 ? 4 : 9));
    c.side = kSides[pick(random, 0, 2)];
    c.layout = pick(random, 0, 3) == 0 ? Layout::dense : Layout::strided;
    c.with_base = c.side != MaskSide::destination && pick(random, 0, 1) == 0;
    c.scalar = c.side == MaskSide::skip && pick(random, 0, 1) == 0;
    c.percent = static_cast<int>(pick(random, 0, 10)) * 10;
    c.rank_stride = pick(random, 0, 2) == 0 ? pick(random, 1, 3) : 1;
    if (c.rank_stride == 3) c.rank_stride = -2;
    c.spare = c.rank_stride < 0 ? 1 : pick(random, 0, 2);
    ASSERT_NO_FATAL_FAILURE(check(random, c, k_mask_elements, {1, 3}));
  }
}

TEST(MaskElements, StridedPieces) {
  Random random(5);
  for (const MaskSide side : kSides) {
    MaskCase c;
    c.shape = {310, 7, 100};
    c.side = side;
    c.layout = Layout::strided;
    for (int round = 0; round < 4; ++round) {
      c.with_base = side != MaskSide::destination && round % 2 == 1;
      check(random, c, k_mask_elements, {2, 7});
    }
  }
}

TEST(Mask, TooFewValuesLeaveTheDestination) {
  Random random(8);
  for (const int64_t count : {12, 200000}) {
    for (const int row_dims : {0, 1}) {
      MaskCase c;
      c.shape = {count, 2};
      c.row_dims = row_dims;
      MaskProblem p;
      make_problem(random, c, p);
      p.transfer.rank_limit = p.trues - 1;
      const std::vector<char> before = p.dst.bytes;
      const Strategy& strategy = row_dims == 0 ? k_mask_elements : k_mask_rows;
      try {
        run_strategy(strategy, p.transfer, 3);
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::shape);
        EXPECT_EQ(error.what(), "masked_scatter: mask has " + std::to_string(p.trues) +
                                    " true values but value has only " +
                                    std::to_string(p.trues - 1) + " elements");
      }
      EXPECT_EQ(p.dst.bytes, before);
    }
  }
}

TEST(Mask, RefusesWhatItCannotDo) {
  Random random(9);
  MaskCase c;
  c.shape = {4, 3};
  MaskProblem p;
  make_problem(random, c, p);
  const Canonical none{};
  ASSERT_TRUE(k_mask_elements.supports(p.transfer, none));
  EXPECT_FALSE(k_mask_rows.supports(p.transfer, none)) << "a mask of elements";
  Transfer overlapping = p.transfer;
  overlapping.dst.strides = {0, 1};
  EXPECT_FALSE(k_mask_elements.supports(overlapping, none));
  Transfer sum = p.transfer;
  sum.reduce = Reduce::add;
  EXPECT_FALSE(k_mask_elements.supports(sum, none));
}

TEST(MaskScan, CountsAndFinds) {
  Random random(10);
  for (const int threads : {1, 2, 3, 7}) {
    const int before = get_num_threads();
    set_num_threads(threads);
    for (const int64_t count : {0, 1, 7, 8, 63, 64, 65, 5000, 262144, 600001}) {
      for (const int percent : {0, 3, 50, 100}) {
        std::vector<uint8_t> mask(count);
        std::vector<int64_t> expected;
        for (int64_t i = 0; i < count; ++i) {
          if (pick(random, 0, 99) >= percent) continue;
          mask[i] = static_cast<uint8_t>(pick(random, 1, 255));
          expected.push_back(i);
        }
        for (const Isa isa : isa_levels()) {
          const ScopedIsa forced(isa);
          ASSERT_EQ(count_true(mask.data(), count), static_cast<int64_t>(expected.size()));
        }
        std::vector<int64_t> found(expected.size());
        true_positions(mask.data(), count, found.data());
        ASSERT_EQ(found, expected);
      }
    }
    set_num_threads(before);
  }
}

}  // namespace
}  // namespace sow::detail
