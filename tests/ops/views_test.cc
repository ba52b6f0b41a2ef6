// SPDX-License-Identifier: Apache-2.0
// Views against plain loops: they show the right elements, and share the memory.
#include "ops/plain.h"

namespace sow::testing {
namespace {

TEST(Views, show_the_right_elements) {
  Draw draw(19);
  for (int i = 0; i < 300; ++i) {
    const Plain plain = draw.array(draw.shape(3));
    const Tensor x = lay_out(plain, draw.layout());
    const Tensor turned = x.permute({2, -3, 1});
    const Tensor swapped = transpose(x, 0, -1);
    const Tensor flipped = x.flip(1);
    const Tensor part = x.select(1, -1);
    for_each(plain.shape, [&](const Dims& at) {
      ASSERT_EQ((Plain(turned)[{at[2], at[0], at[1]}]), plain[at]);
      ASSERT_EQ((Plain(swapped)[{at[2], at[1], at[0]}]), plain[at]);
      ASSERT_EQ((Plain(flipped)[{at[0], plain.shape[1] - 1 - at[1], at[2]}]), plain[at]);
      if (at[1] != plain.shape[1] - 1) return;
      ASSERT_EQ((Plain(part)[{at[0], at[2]}]), plain[at]);
    });
    for (const Tensor& view : {turned, swapped, flipped, part}) EXPECT_TRUE(view.same_storage(x));
  }
}

TEST(Views, diagonal_has_its_dimension_last) {
  const Tensor x = Tensor::arange(24).reshape({2, 3, 4});
  EXPECT_EQ(x.diagonal(0, 1, 2).to_vector<int64_t>(), (std::vector<int64_t>{0, 5, 10, 12, 17, 22}));
  EXPECT_EQ(x.diagonal(1, -2, -1).shape(), (Dims{2, 3}));
  EXPECT_EQ(x.diagonal(-1, 0, 1).to_vector<int64_t>(), (std::vector<int64_t>{12, 13, 14, 15}));
  EXPECT_EQ(x.diagonal(9).shape(), (Dims{4, 0}));
  EXPECT_EQ(x.diagonal(INT64_MIN).shape(), (Dims{4, 0}));
  EXPECT_EQ(x.diagonal(INT64_MAX).shape(), (Dims{4, 0}));
  EXPECT_TRUE(x.diagonal().same_storage(x));
}

TEST(Views, slices_follow_python) {
  const Tensor x = Tensor::arange(6);
  EXPECT_EQ(x.slice(0, 1, 5, 2).to_vector<int64_t>(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(x.slice(0, -3, kEnd).to_vector<int64_t>(), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(x.slice(-1, INT64_MIN, -5).to_vector<int64_t>(), (std::vector<int64_t>{0}));
  EXPECT_EQ(x.slice(0, 5, 2).numel(), 0);
  EXPECT_EQ(x.slice(0, 0, kEnd, INT64_MAX).to_vector<int64_t>(), (std::vector<int64_t>{0}));
  EXPECT_THROW(x.slice(0, 0, 6, 0), Error);
  EXPECT_THROW(x.slice(1, 0, 6), Error);
}

TEST(Views, broadcast_to_repeats_without_memory) {
  const Tensor x = Tensor::of<int64_t>({1, 2}, {2, 1});
  const Tensor wide = x.broadcast_to({2, 2, 3});
  EXPECT_EQ(wide.to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_TRUE(wide.same_storage(x));
  EXPECT_THROW(x.broadcast_to({3, 3}), Error);
  EXPECT_THROW(x.broadcast_to({2, -1}), Error);
}

// All ways to write a count as up to three extents.
std::vector<Dims> shapes_of(int64_t count) {
  std::vector<Dims> out{{count}};
  for (int64_t a = 1; a <= count; ++a) {
    if (count % a != 0) continue;
    out.push_back({a, count / a});
    for (int64_t b = 1; b <= count / a; ++b) {
      if (count / a % b == 0) out.push_back({a, b, count / a / b});
    }
  }
  return out;
}

TEST(Views, reshape_keeps_row_major_order) {
  Draw draw(20);
  for (int i = 0; i < 150; ++i) {
    const Plain plain = draw.array(draw.shape(static_cast<int>(draw.number(0, 3))));
    const Tensor x = lay_out(plain, draw.layout());
    for (const Dims& shape : shapes_of(x.numel())) {
      const Tensor out = x.reshape(shape);
      ASSERT_EQ(out.shape(), shape);
      ASSERT_EQ(out.to_vector<int64_t>(), plain.values) << to_string(plain.shape);
      ASSERT_TRUE(!x.is_contiguous() || out.same_storage(x));
    }
  }
}

TEST(Views, reshape_copies_only_when_it_must) {
  const Tensor x = Tensor::arange(24).reshape({2, 3, 4});
  EXPECT_TRUE(x.transpose(0, 1).reshape({3, 2, 2, 2}).same_storage(x));  // splits the last
  EXPECT_FALSE(x.transpose(1, 2).reshape({2, 12}).same_storage(x));
  EXPECT_TRUE(
      x.slice(0, 0, 1).transpose(0, 1).flatten().same_storage(x));  // extent 1 never matters
  EXPECT_TRUE(x.flip(0).flatten(1).same_storage(x));
  EXPECT_EQ(x.flatten(1, 2).shape(), (Dims{2, 12}));
  EXPECT_EQ(Tensor::scalar(1, DType::int64).flatten().shape(), (Dims{1}));
  EXPECT_EQ(x.reshape({4, -1}).shape(), (Dims{4, 6}));
  EXPECT_EQ(Tensor::empty({0, 3}, DType::int64).reshape({3, 0, 5}).shape(), (Dims{3, 0, 5}));
  EXPECT_THROW(x.reshape({5, -1}), Error);
  EXPECT_THROW(x.reshape({-1, -1}), Error);
  EXPECT_THROW(x.reshape({23}), Error);
  EXPECT_THROW(Tensor::empty({0}, DType::int64).reshape({0, -1}), Error);
}

TEST(Views, wrong_axes_are_refused) {
  const Tensor x = Tensor::zeros({2, 3}, DType::float32);
  EXPECT_THROW(x.permute({0}), Error);
  EXPECT_THROW(x.permute({0, 0}), Error);
  EXPECT_THROW(x.permute({0, 2}), Error);
  EXPECT_THROW(x.transpose(0, 2), Error);
  EXPECT_THROW(x.diagonal(0, 1, -1), Error);
  EXPECT_THROW(x.flatten(1, 0), Error);
  EXPECT_THROW(Tensor::scalar(1, DType::int64).select(0, 0), Error);
  try {
    x.select(1, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::index);
    EXPECT_STREQ(error.what(),
                 "select: index 3 is out of range for axis 1 of size 3 (valid: -3 to 2)");
  }
}

}  // namespace
}  // namespace sow::testing
