// SPDX-License-Identifier: Apache-2.0
// The programs this library grew from, with the numbers and the errors they print.
#include "ops/expect.h"

namespace sow::test {
namespace {

Tensor seed_mask() { return Tensor::of<bool>({true, false, true, false}); }

Tensor seed_x() {
  return Tensor::of<float>({0.95377302f, 0.53523803f, -0.64002633f, 0.58861065f,  //
                            0.14633510f, 0.24224952f, 0.84816700f, -0.35548905f,  //
                            0.64852357f, -0.36515144f, -1.08389294f, 0.64138633f},
                           {3, 4});
}

const std::vector<float> kMerged = {1, 0.53523803f,  2, 0.58861065f,   //
                                    3, 0.24224952f,  4, -0.35548905f,  //
                                    5, -0.36515144f, 6, 0.64138633f};

TEST(MaskedScatter, SpreadsSevenValuesOverSixTrues) {
  const Tensor x = seed_x();
  const Tensor value = Tensor::of<float>({1, 2, 3, 4, 5, 6, 7});
  expect_tensor<float>(masked_scatter(x, seed_mask(), value), {3, 4}, kMerged);
  expect_same_bytes(x, seed_x());
  const Tensor returned = x.masked_scatter_(seed_mask(), value);
  EXPECT_TRUE(returned.same_object(x));
  expect_tensor<float>(x, {3, 4}, kMerged);
}

TEST(MaskedScatter, RefusesSixTruesAndFiveValues) {
  const Tensor x = seed_x();
  const Tensor value = Tensor::of<float>({1, 2, 3, 4, 5});
  expect_error_untouched(ErrorKind::shape,
                         "masked_scatter_: mask has 6 true values but value has only 5 elements", x,
                         [&] { masked_scatter_(x, seed_mask(), value); });
  expect_error_untouched(ErrorKind::shape,
                         "masked_scatter: mask has 6 true values but value has only 5 elements", x,
                         [&] { masked_scatter(x, seed_mask(), value); });
}

TEST(MaskedScatter, RefusesTypesThatDiffer) {
  const Tensor x = seed_x();
  expect_error_untouched(
      ErrorKind::type,
      "masked_scatter_: x is float32 but value is int32; they must have the same type", x,
      [&] { masked_scatter_(x, seed_mask(), Tensor::zeros({7}, DType::int32)); });
}

TEST(MaskedScatter, RefusesAMaskThatDoesNotBroadcast) {
  const Tensor x = seed_x();
  const Tensor mask = Tensor::ones({5}, DType::bool_);
  const Tensor value = Tensor::zeros({20}, DType::float32);
  expect_error_untouched(ErrorKind::shape,
                         "masked_scatter: x [3, 4] and mask [5] do not broadcast together", x,
                         [&] { masked_scatter(x, mask, value); });
  expect_error_untouched(
      ErrorKind::shape,
      "masked_scatter_: mask [5] does not broadcast to x [3, 4]; in place x keeps its shape", x,
      [&] { masked_scatter_(x, mask, value); });
}

TEST(MaskedScatter, TakesTheStaticGraphsRowMask) {
  const Tensor hidden = Tensor::of<float>({0.47807267f, 0.39527717f, 9, 9, 9,  //
                                           1.4488099f, 0.22996539f, 9, 9, 9,   //
                                           0.96345973f, 0.20303118f, 9, 9, 9},
                                          {3, 5});
  const Tensor mask = Tensor::of<bool>({false, false, true, true, true}, {1, 5});
  const Tensor ones = Tensor::ones({3, 5}, DType::float32);
  expect_tensor<float>(masked_scatter(hidden, mask, ones), {3, 5},
                       {0.47807267f, 0.39527717f, 1, 1, 1,  //
                        1.4488099f, 0.22996539f, 1, 1, 1,   //
                        0.96345973f, 0.20303118f, 1, 1, 1});
}

TEST(MaskedScatter, ExpandsXOutOfPlace) {
  const Tensor x = Tensor::of<int32_t>({1, 2, 3});
  const Tensor mask = Tensor::of<bool>({true, false, false, false, true, true}, {2, 3});
  expect_tensor<int32_t>(masked_scatter(x, mask, Tensor::of<int32_t>({7, 8, 9})), {2, 3},
                         {7, 2, 3, 1, 8, 9});
  expect_error_untouched(
      ErrorKind::shape,
      "masked_scatter_: mask [2, 3] does not broadcast to x [3]; in place x keeps its shape", x,
      [&] {
        masked_scatter_(x, mask, Tensor::of<int32_t>({7, 8, 9}));
      });
}

// The 3x5 example.
TEST(Scatter, WritesAScalarWhereTheIndexSays) {
  const Tensor x = Tensor::zeros({3, 5}, DType::float32);
  const Tensor index = Tensor::of<int64_t>({1, 2, 0, 1}, {2, 2});
  const Tensor out = scatter_(x, 0, index, 2.0);
  EXPECT_TRUE(out.same_object(x));
  expect_tensor<float>(x, {3, 5},
                       {2, 0, 0, 0, 0,  //
                        2, 2, 0, 0, 0,  //
                        0, 2, 0, 0, 0});
}

TEST(Scatter, FollowsTheFormulaAlongEveryDimension) {
  const Tensor index = Tensor::of<int32_t>({1, 0, 0, 1, 1, 1, 0, 0}, {2, 2, 2});
  const Tensor src = Tensor::of<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  const auto keys = index.to_vector<int32_t>();
  const auto values = src.to_vector<float>();
  for (int64_t dim = -3; dim < 3; ++dim) {
    std::vector<float> expected(8, 0);
    for (int64_t i = 0; i < 8; ++i) {
      int64_t at[3] = {i / 4, i / 2 % 2, i % 2};
      at[dim < 0 ? dim + 3 : dim] = keys[i];
      expected[at[0] * 4 + at[1] * 2 + at[2]] = values[i];
    }
    const Tensor input = Tensor::zeros({2, 2, 2}, DType::float32);
    expect_tensor<float>(scatter(input, dim, index, src), {2, 2, 2}, expected);
  }
}

TEST(Scatter, AddsAndMultipliesByName) {
  const Tensor input = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  const Tensor index = Tensor::of<int64_t>({0, 0, 0, 1}, {2, 2});
  const Tensor src = Tensor::of<float>({5, 6, 7, 8}, {2, 2});
  expect_tensor<float>(scatter(input, 0, index, src, "add"), {2, 2}, {13, 8, 3, 12});
  expect_tensor<float>(scatter(input, 0, index, src, "multiply"), {2, 2}, {35, 12, 3, 32});
  expect_tensor<float>(scatter(input, 0, index, 10, "multiply"), {2, 2}, {100, 20, 3, 40});
}

struct ReductionCase {
  const char* reduce;
  bool include_self;
  std::vector<float> expected;
};

// arr [1 2 3], values 10 and 20 to place 0, 6 to place 2.
TEST(PutAlongAxis, ReducesInEveryWay) {
  const std::vector<ReductionCase> cases = {
      {"assign", true, {20, 2, 6}},
      {"add", true, {31, 2, 9}},
      {"add", false, {30, 2, 6}},
      {"mul", true, {200, 2, 18}},
      {"mul", false, {200, 2, 6}},
      {"amax", true, {20, 2, 6}},
      {"amin", true, {1, 2, 3}},
      {"amin", false, {10, 2, 6}},
      {"mean", false, {15, 2, 6}},
      {"sum", true, {31, 2, 9}},
      {"prod", false, {200, 2, 6}},
      {"multiply", true, {200, 2, 18}},
      {"max", false, {20, 2, 6}},
      {"min", true, {1, 2, 3}},
      {"mean", true, {31.0f / 3, 2, 4.5f}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.reduce) + (c.include_self ? "" : " without self"));
    const Tensor arr = Tensor::of<float>({1, 2, 3});
    const Tensor indices = Tensor::of<int64_t>({0, 0, 2});
    const Tensor values = Tensor::of<float>({10, 20, 6});
    expect_tensor<float>(put_along_axis(arr, indices, values, 0, c.reduce, c.include_self), {3},
                         c.expected);
    EXPECT_TRUE(
        put_along_axis_(arr, indices, values, 0, c.reduce, c.include_self).same_object(arr));
    expect_tensor<float>(arr, {3}, c.expected);
  }
}

TEST(PutAlongAxis, AddsUnlessToldOtherwise) {
  const Tensor arr = Tensor::of<int64_t>({10, 30, 20, 60, 40, 50}, {2, 3});
  const Tensor indices = Tensor::of<int64_t>({0}, {1, 1});
  expect_tensor<int64_t>(arr.put_along_axis(indices, 99, 0), {2, 3}, {109, 129, 119, 60, 40, 50});
  expect_tensor<int64_t>(arr.put_along_axis(indices, 99, 0, "assign"), {2, 3},
                         {99, 99, 99, 60, 40, 50});
}

TEST(DiagonalScatter, EmbedsTheSourceAlongTheDiagonal) {
  const Tensor input = Tensor::zeros({3, 3}, DType::float32);
  expect_tensor<float>(diagonal_scatter(input, Tensor::ones({3}, DType::float32)), {3, 3},
                       {1, 0, 0, 0, 1, 0, 0, 0, 1});
  expect_tensor<float>(diagonal_scatter(input, Tensor::ones({2}, DType::float32), 1), {3, 3},
                       {0, 1, 0, 0, 0, 1, 0, 0, 0});
  expect_tensor<float>(diagonal_scatter(input, Tensor::ones({2}, DType::float32), -1), {3, 3},
                       {0, 0, 0, 1, 0, 0, 0, 1, 0});
}

TEST(DiagonalScatter, PutsTheDiagonalsDimensionLast) {
  const Tensor input = Tensor::zeros({2, 3, 2}, DType::int32);
  const Tensor src = Tensor::of<int32_t>({1, 2, 3, 4, 5, 6}, {3, 2});
  expect_tensor<int32_t>(diagonal_scatter(input, src, 0, 0, 2), {2, 3, 2},
                         {1, 0, 3, 0, 5, 0, 0, 2, 0, 4, 0, 6});
}

TEST(DiagonalScatter, RefusesASliceOfTheWrongShape) {
  const Tensor input = Tensor::zeros({3, 3}, DType::float32);
  expect_error_untouched(ErrorKind::shape,
                         "diagonal_scatter_: src has shape [2], but the diagonal of input [3, 3] "
                         "with offset 0 has shape [3]",
                         input,
                         [&] { diagonal_scatter_(input, Tensor::ones({2}, DType::float32)); });
}

}  // namespace
}  // namespace sow::test
