// SPDX-License-Identifier: Apache-2.0
// Section 4 of the contract: which index addresses what, and the four policies for the others.
#include "ops/expect.h"

namespace sow::test {
namespace {

Tensor zeros3x5() { return Tensor::zeros({3, 5}, DType::float32); }

TEST(Bounds, NegativeIndicesCountFromTheEnd) {
  const Tensor x = Tensor::zeros({4}, DType::int32);
  const Tensor index = Tensor::of<int32_t>({-1, -4, 1});
  expect_tensor<int32_t>(scatter(x, 0, index, Tensor::of<int32_t>({7, 8, 9})), {4}, {8, 9, 0, 7});
  expect_tensor<int32_t>(
      scatter(x, -1, Index(index, Bounds::promise), Tensor::of<int32_t>({7, 8, 9})), {4},
      {8, 9, 0, 7});
}

TEST(Bounds, ErrorNamesTheFirstBadIndex) {
  const Tensor arr = zeros3x5();
  const Tensor indices = Tensor::of<int64_t>({4, -5, 0, 1, 7, -6}, {3, 2});
  expect_error_untouched(
      ErrorKind::index,
      "put_along_axis_: index 7 at position [2, 0] is out of range for axis 1 of "
      "size 5 (valid: -5 to 4)",
      arr, [&] { put_along_axis_(arr, indices, 1, 1); });
  expect_error(ErrorKind::index,
               "put_along_axis: index 7 at position [2, 0] is out of range for axis 1 of size 5 "
               "(valid: -5 to 4)",
               [&] { put_along_axis(arr, indices, 1, 1); });
  // The position is the user's, also where the index was given transposed.
  const Tensor turned = indices.transpose(0, 1).contiguous().transpose(0, 1);
  expect_error(ErrorKind::index,
               "take_along_axis: index 7 at position [2, 0] is out of range for axis 1 of size 5 "
               "(valid: -5 to 4)",
               [&] { take_along_axis(arr, turned, -1); });
}

TEST(Bounds, ErrorOfACoordinateNamesItsComponent) {
  const Tensor x = zeros3x5();
  const Tensor indices = Tensor::of<int64_t>({0, 0, 2, -6, 3, 0}, {3, 2});
  expect_error_untouched(
      ErrorKind::index,
      "tensor_scatter_nd_add_: index -6 at position [1, 1] is out of range for "
      "axis 1 of size 5 (valid: -5 to 4)",
      x, [&] { tensor_scatter_nd_add_(x, indices, Tensor::ones({3}, DType::float32)); });
}

TEST(Bounds, ErrorIsFoundAmongMany) {
  constexpr int64_t kCount = 300000;
  std::vector<int32_t> keys(kCount, 1);
  keys[123457] = 2;
  keys[223457] = -3;
  const Tensor x = Tensor::zeros({2}, DType::float32);
  const Tensor source = Tensor::ones({kCount}, DType::float32);
  for (const int threads : {1, 2, 7}) {
    const ThreadCount count(threads);
    expect_error_untouched(ErrorKind::index,
                           "index_add_: index 2 at position [123457] is out of range for axis 0 of "
                           "size 2 (valid: -2 to 1)",
                           x, [&] { index_add_(x, 0, Tensor::of(keys, {kCount}), source); });
  }
}

TEST(Bounds, DropLeavesTheUpdateOut) {
  const Tensor x = Tensor::of<float>({10, 20, 30});
  const Index index(Tensor::of<int64_t>({0, 3, -4, 0, INT64_MAX, INT64_MIN}), Bounds::drop);
  const Tensor src = Tensor::of<float>({1, 100, 200, 2, 300, 400});
  expect_tensor<float>(scatter_add(x, 0, index, src), {3}, {13, 20, 30});
  expect_tensor<float>(scatter(x, 0, index, src), {3}, {2, 20, 30});
  expect_tensor<float>(scatter_reduce(x, 0, index, src, "mean"), {3}, {13.0f / 3, 20, 30});
  expect_tensor<float>(scatter_reduce(x, 0, index, src, "mean", false), {3}, {1.5, 20, 30});
  expect_tensor<float>(index_fill(x, 0, index, 5), {3}, {5, 20, 30});
}

TEST(Bounds, DropGathersZero) {
  const Tensor x = Tensor::of<float>({10, 20, 30});
  const Index index(Tensor::of<int64_t>({2, 3, -1, -4}), Bounds::drop);
  expect_tensor<float>(gather(x, 0, index), {4}, {30, 0, 30, 0});
  expect_tensor<float>(index_select(x, 0, index), {4}, {30, 0, 30, 0});
}

TEST(Bounds, ClipTakesTheNearest) {
  const Tensor x = Tensor::of<float>({10, 20, 30});
  const Index index(Tensor::of<int64_t>({2, 3, -1, -4, INT64_MAX, INT64_MIN}), Bounds::clip);
  expect_tensor<float>(gather(x, 0, index), {6}, {30, 30, 30, 10, 30, 10});
  expect_tensor<float>(scatter_add(x, 0, index, Tensor::ones({6}, DType::float32)), {3},
                       {12, 20, 34});
}

TEST(Bounds, AnEmptyAxisTakesNoIndex) {
  const Tensor x = Tensor::zeros({0}, DType::float32);
  const Tensor index = Tensor::of<int64_t>({0});
  const Tensor src = Tensor::ones({1}, DType::float32);
  const char* message =
      "scatter_add: index 0 at position [0] is out of range for axis 0 of size 0 (valid: none)";
  expect_error(ErrorKind::index, message, [&] { scatter_add(x, 0, index, src); });
  expect_error(ErrorKind::index, message,
               [&] { scatter_add(x, 0, Index(index, Bounds::clip), src); });
  expect_tensor<float>(scatter_add(x, 0, Index(index, Bounds::drop), src), {0}, {});
  const Tensor none = Tensor::zeros({0}, DType::int64);
  expect_tensor<float>(scatter_add(x, 0, none, src), {0}, {});
  expect_tensor<float>(scatter_add(x, 0, Index(none, Bounds::clip), src), {0}, {});
}

TEST(Bounds, TheLastOfSeveralAssignsWins) {
  const Tensor x = Tensor::zeros({2, 3}, DType::int64);
  const Tensor index = Tensor::of<int64_t>({1, 1, 0, 1, 0, 0}, {2, 3});
  const Tensor src = Tensor::of<int64_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_tensor<int64_t>(scatter(x, 1, index, src), {2, 3}, {3, 2, 0, 6, 4, 0});
  // Dropped updates never win.
  const Tensor late = Tensor::of<int64_t>({1, 1, 7}, {1, 3});
  expect_tensor<int64_t>(scatter(x, 1, Index(late, Bounds::drop), src), {2, 3}, {0, 2, 0, 0, 0, 0});
}

}  // namespace
}  // namespace sow::test
