// SPDX-License-Identifier: Apache-2.0
// Section 2 of the contract: broadcasting and corners, empties and 0-d, negative axes, layouts.
#include "ops/expect.h"

namespace sow::test {
namespace {

TEST(Shapes, PutAlongAxisExpandsIndicesAndValues) {
  const Tensor arr = Tensor::zeros({2, 3}, DType::int32);
  const Tensor column = Tensor::of<int64_t>({2, 0}, {2, 1});
  expect_tensor<int32_t>(put_along_axis(arr, column, 5, 1), {2, 3}, {0, 0, 5, 5, 0, 0});
  // Indices [1, 3] expand to [2, 3] along axis 1: off the axis only.
  const Tensor row = Tensor::of<int64_t>({0, 0, 2}, {1, 3});
  expect_tensor<int32_t>(put_along_axis(arr, row, Tensor::of<int32_t>({1, 2, 4}), 1), {2, 3},
                         {3, 0, 4, 3, 0, 4});
  expect_tensor<int32_t>(put_along_axis(arr, row, Tensor::of<int32_t>({1, 2}, {2, 1}), 1), {2, 3},
                         {2, 0, 1, 4, 0, 2});
}

TEST(Shapes, ScatterUsesTheCornerThatTheIndexCovers) {
  const Tensor input = Tensor::zeros({3, 4}, DType::int32);
  const Tensor index = Tensor::of<int64_t>({0, 2}, {1, 2});
  const Tensor src = Tensor::of<int32_t>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4});
  expect_tensor<int32_t>(scatter(input, 0, index, src), {3, 4},
                         {1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0});
  expect_tensor<int32_t>(put_along_axis(input, index, src, 0, "assign", true, false), {3, 4},
                         {1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0});
  // Along the axis an index may be longer than the input.
  const Tensor longer = Tensor::zeros({5, 1}, DType::int64);
  expect_tensor<int32_t>(scatter_add(Tensor::zeros({2, 2}, DType::int32), 0, longer,
                                     Tensor::ones({5, 1}, DType::int32)),
                         {2, 2}, {5, 0, 0, 0});
}

TEST(Shapes, ZeroDimensionsCountAsOneElement) {
  const Tensor x = Tensor::scalar(3, DType::float32);
  const Tensor zero = Tensor::scalar(0, DType::int64);
  expect_tensor<float>(scatter_add(x, 0, zero, Tensor::scalar(4, DType::float32)), {}, {7});
  expect_tensor<float>(scatter_add(x, -1, Tensor::of<int64_t>({0}), Tensor::of<float>({4})), {},
                       {7});
  expect_tensor<float>(gather(x, 0, zero), {}, {3});
  expect_tensor<float>(masked_fill(x, Tensor::scalar(true, DType::bool_), 9), {}, {9});
  expect_tensor<float>(
      masked_scatter(x, Tensor::scalar(false, DType::bool_), Tensor::of<float>({})), {}, {3});
  expect_tensor<float>(masked_select(x, Tensor::scalar(true, DType::bool_)), {1}, {3});
  EXPECT_EQ(nonzero(x).shape().to_vector(), (std::vector<int64_t>{1, 0}));
}

TEST(Shapes, AnEmptyIndexDoesNothingButIsStillChecked) {
  const Tensor x = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  const Tensor none = Tensor::zeros({0, 2}, DType::int64);
  const Tensor src = Tensor::zeros({0, 2}, DType::float32);
  expect_same_bytes(scatter(x, 0, none, src), x);
  expect_same_bytes(scatter_reduce(x, 0, none, src, "mean", false), x);
  expect_same_bytes(index_add(x, 0, Tensor::zeros({0}, DType::int64), src), x);
  EXPECT_THROW(scatter(x, 0, Tensor::zeros({0}, DType::int64), src), Error);
  EXPECT_THROW(scatter(x, 0, Tensor::zeros({0, 2}, DType::float32), src), Error);
  EXPECT_THROW(scatter(x, 0, none, Tensor::zeros({0, 2}, DType::float64)), Error);
  EXPECT_THROW(scatter(x, 2, none, src), Error);
}

TEST(Shapes, EmptyTensorsGoThroughEverything) {
  const Tensor x = Tensor::zeros({3, 0, 2}, DType::float32);
  const Tensor index = Tensor::zeros({3, 0, 2}, DType::int64);
  expect_same_bytes(scatter_add(x, 0, index, x), x);
  expect_same_bytes(
      masked_scatter(x, Tensor::ones({2}, DType::bool_), Tensor::zeros({0}, DType::float32)), x);
  expect_same_bytes(gather(x, 0, index), x);
  EXPECT_EQ(nonzero(x).shape().to_vector(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(masked_select(x, Tensor::ones({}, DType::bool_)).numel(), 0);
  expect_same_bytes(diagonal_scatter(x, Tensor::zeros({2, 0}, DType::float32)), x);
  expect_same_bytes(fill_diagonal(Tensor::zeros({0, 0}, DType::float32), 1),
                    Tensor::zeros({0, 0}, DType::float32));
}

TEST(Shapes, ADiagonalPastTheEdgeIsEmpty) {
  const Tensor x = Tensor::of<int32_t>({1, 2, 3, 4}, {2, 2});
  const Tensor none = Tensor::zeros({0}, DType::int32);
  expect_same_bytes(diagonal_scatter(x, none, 5), x);
  expect_same_bytes(diagonal_scatter(x, none, -2), x);
  EXPECT_THROW(diagonal_scatter(x, Tensor::zeros({1}, DType::int32), 5), Error);
}

TEST(Shapes, NegativeAxesCountFromTheEnd) {
  const Tensor x = Tensor::arange(24, DType::int32).reshape({2, 3, 4});
  const Tensor index = Tensor::of<int64_t>({1, 0});
  expect_same_bytes(index_select(x, -2, index), index_select(x, 1, index));
  expect_same_bytes(diagonal(x, 1, -1, -2), diagonal(x, 1, 2, 1));
  expect_same_bytes(select_scatter(x, Tensor::zeros({2, 3}, DType::int32), -1, -1),
                    select_scatter(x, Tensor::zeros({2, 3}, DType::int32), 2, 3));
  const Tensor nine = Tensor::full({2, 1, 4}, 9, DType::int32);
  expect_same_bytes(slice_scatter(x, nine, -2, -1), slice_scatter(x, nine, 1, 2, 3));
}

TEST(Shapes, SliceScatterKeepsTheDimensionOrder) {
  const Tensor turned = Tensor::arange(6, DType::float32).reshape({3, 2}).transpose(0, 1);
  EXPECT_EQ(turned.strides().to_vector(), (std::vector<int64_t>{1, 2}));
  const Tensor src = Tensor::of<float>({7, 8}, {2, 1});
  EXPECT_EQ(slice_scatter(turned, src, 1, 1, 2).strides().to_vector(),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(select_scatter(turned, src.select(1, 0), 1, 0).strides().to_vector(),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(diagonal_scatter(turned, Tensor::of<float>({7, 8})).strides().to_vector(),
            (std::vector<int64_t>{1, 2}));
  expect_tensor<float>(slice_scatter(turned, src, 1, 1, 2), {2, 3}, {0, 7, 4, 1, 8, 5});
  // One that overlaps itself gives a row-major result, and so does every other operation.
  const Tensor wide = Tensor::of<float>({1, 2}, {2, 1}).broadcast_to({2, 3});
  EXPECT_TRUE(slice_scatter(wide, src, 1, 1, 2).is_contiguous());
  EXPECT_TRUE(masked_fill(turned, Tensor::ones({3}, DType::bool_), 1).is_contiguous());
  EXPECT_TRUE(scatter(turned, 0, Tensor::of<int64_t>({0}, {1, 1}), 1).is_contiguous());
}

TEST(Shapes, GapsOfTheInputAreNotKept) {
  const Tensor every_other = Tensor::arange(8, DType::float32).slice(0, 0, 8, 2);
  EXPECT_TRUE(slice_scatter(every_other, Tensor::of<float>({9}), 0, 0, 1).is_contiguous());
}

TEST(Shapes, StridedOperandsAreReadWhereTheyLie) {
  const Tensor x = Tensor::zeros({2, 3}, DType::int32);
  const Tensor index = Tensor::of<int64_t>({0, 9, 1, 9, 2, 9}).slice(0, 0, 6, 2);
  const Tensor source = Tensor::of<int32_t>({1, 2, 3, 4, 5, 6}, {3, 2}).transpose(0, 1).flip(1);
  expect_tensor<int32_t>(index_copy(x, 1, index, source), {2, 3}, {5, 3, 1, 6, 4, 2});
  const Tensor one = Tensor::ones({1, 1}, DType::int32).broadcast_to({2, 3});
  expect_tensor<int32_t>(index_add(x, 1, Tensor::of<int64_t>({2, 2, 0}), one), {2, 3},
                         {1, 0, 2, 1, 0, 2});
  // A destination that is a view: only its own places change.
  const Tensor whole = Tensor::zeros({3, 4}, DType::int32);
  index_fill_(whole.slice(0, 0, 3, 2).slice(1, 1, 3).flip(1), 1, Tensor::of<int64_t>({0}), 7);
  expect_tensor<int32_t>(whole, {3, 4}, {0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 7, 0});
}

TEST(Shapes, AnyRankGoes) {
  const Dims ones(9, 1);
  const Tensor x = Tensor::zeros(ones, DType::float32);
  const Tensor out =
      scatter_add(x, 8, Tensor::zeros(ones, DType::int32), Tensor::ones(ones, DType::float32));
  EXPECT_EQ(out.dim(), 9);
  EXPECT_EQ(out.item<float>(), 1);
}

}  // namespace
}  // namespace sow::test
