// SPDX-License-Identifier: Apache-2.0
// strided_copy against plain loops: widths, strides, transposes, threads.
#include "cpu/move_cases.h"

namespace sow::detail {
namespace {

void check_copy(DType dtype, const Dims& shape, View& dst, View* src, Random& random,
                const std::vector<int>& threads) {
  const auto width = static_cast<int64_t>(size_of(dtype));
  Transfer t;
  t.dtype = dtype;
  t.shape = shape;
  t.dst = dst.operand(size_of(dtype));
  if (src != nullptr) {
    t.src = src->operand(size_of(dtype));
  } else {
    for (std::byte& byte : t.scalar) byte = static_cast<std::byte>(random());
  }
  const std::vector<char> before = dst.bytes;
  for_each_coordinate(shape, [&](const Dims& at) {
    const char* from = reinterpret_cast<const char*>(t.scalar);
    if (src != nullptr) from = t.src.data + place(at, t.src.strides) * width;
    std::memcpy(t.dst.data + place(at, t.dst.strides) * width, from, width);
  });
  const std::vector<char> expected = dst.bytes;
  expect_same(dst, t, k_strided_copy, before, expected, threads);
}

TEST(StridedCopy, AnyStridesAndRanks) {
  Random random(1);
  const Layout layouts[] = {Layout::dense, Layout::strided, Layout::broadcast};
  for (int round = 0; round < 3000; ++round) {
    const DType dtype = kWidths[pick(random, 0, 4)];
    Dims shape;
    const int64_t rank = pick(random, 0, 8);
    for (int64_t d = 0; d < rank; ++d) {
      shape.push_back(pick(random, round % 50 == 0 ? 0 : 1, rank > 3 ? 4 : 21));
    }
    View dst = make_view(random, shape, size_of(dtype), layouts[pick(random, 0, 1)]);
    View src = make_view(random, shape, size_of(dtype), layouts[pick(random, 0, 2)]);
    const bool scalar = pick(random, 0, 5) == 0;
    ASSERT_NO_FATAL_FAILURE(check_copy(dtype, shape, dst, scalar ? nullptr : &src, random, {1, 3}));
  }
}

TEST(StridedCopy, TransposesAroundTheTiles) {
  Random random(2);
  for (const DType dtype : kWidths) {
    for (const Dims& shape : {Dims{4, 4}, Dims{8, 8}, Dims{9, 7}, Dims{32, 33}, Dims{65, 64},
                              Dims{63, 130}, Dims{200, 5}, Dims{3, 70, 66}, Dims{2, 300, 520}}) {
      View dst = make_view(random, shape, size_of(dtype), Layout::dense);
      View src = make_view(random, shape, size_of(dtype), Layout::dense);
      const size_t r = shape.size() - 2;
      src.strides[r] = 1;
      src.strides[r + 1] = shape[r];
      check_copy(dtype, shape, dst, &src, random, {1, 2, 7});
    }
  }
}

TEST(StridedCopy, LargeRunsAndFills) {
  Random random(3);
  for (const Dims& shape : {Dims{3 * 1024 * 1024 + 1}, Dims{1100, 2050}}) {
    for (const bool scalar : {false, true}) {
      Dims padded = shape;
      padded[shape.size() - 1] += 3;  // so that rows of two dimensions stay apart
      View dst = make_view(random, padded, 4, Layout::dense);
      View src = make_view(random, shape, 4, Layout::dense);
      check_copy(DType::float32, shape, dst, scalar ? nullptr : &src, random, {1, 2, 3, 7});
    }
  }
}

TEST(StridedCopy, RefusesPlacesThatMeet) {
  Random random(4);
  View dst = make_view(random, {5}, 4, Layout::dense);
  View src = make_view(random, {3, 5}, 4, Layout::dense);
  Transfer t;
  t.shape = {3, 5};
  t.dst = dst.operand(4);
  t.dst.strides = {0, 1};
  t.src = src.operand(4);
  EXPECT_FALSE(k_strided_copy.supports(t, canonicalize(t)));
}

}  // namespace
}  // namespace sow::detail
