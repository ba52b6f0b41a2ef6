// SPDX-License-Identifier: Apache-2.0
// Gradients of masks, regular places, views and copies against finite differences.
#include "gradcheck.h"

namespace sow {
namespace {

using testing::check_gradients;
using testing::random_tensor;

Tensor square(const Tensor& x) { return mul(x, x); }

TEST(RegularGradient, masked_scatter) {
  const Tensor mask = Tensor::of<bool>({true, false, true, true, false, false}, {2, 3});
  const Tensor x = random_tensor({2, 3}), value = random_tensor({2, 4}, DType::float64, 2);
  const auto scatter = [](const TensorList& t) { return masked_scatter(t[0], t[2], t[1]); };
  check_gradients(scatter, {x, value, mask}, "value larger than the count");
  check_gradients(scatter, {x, value.transpose(0, 1), mask}, "strided value");
  check_gradients(scatter, {x, value.flatten().flip(0).slice(0, 0, 8, 2), mask}, "backwards value");
  check_gradients(scatter, {random_tensor({3}), value, mask}, "x expands to mask");
  check_gradients(scatter, {random_tensor({2, 2, 3}), random_tensor({8}), mask},
                  "mask expands to x");
  check_gradients(scatter, {x, value, Tensor::of<bool>({false, true}, {2, 1})}, "mask by rows");
  check_gradients(scatter, {x, Tensor::empty({0}, DType::float64), Tensor::of<bool>({false})},
                  "no trues");
  check_gradients(scatter, {Tensor::empty({0, 3}, DType::float64), value, Tensor::of<bool>({true})},
                  "empty");
}

TEST(RegularGradient, masked_fill_and_select) {
  const Tensor mask = Tensor::of<bool>({true, false, true, true, false, false}, {2, 3});
  const Tensor x = random_tensor({2, 3});
  check_gradients([](auto& t) { return masked_fill(t[0], t[1], 3.0); }, {x, mask}, "fill");
  check_gradients([](auto& t) { return masked_fill(t[0], t[1], t[2]); },
                  {x, mask, random_tensor({})}, "fill with a tensor");
  check_gradients([](auto& t) { return masked_fill(t[0], t[1], t[2]); },
                  {random_tensor({3}), mask, random_tensor({})}, "x expands");
  check_gradients([](auto& t) { return square(masked_select(t[0], t[1])); }, {x, mask}, "select");
  check_gradients([](auto& t) { return square(masked_select(t[0], t[1])); },
                  {random_tensor({3}), mask}, "select, x expands");
}

TEST(RegularGradient, regular_places) {
  const Tensor x = random_tensor({3, 4, 2});
  check_gradients([](auto& t) { return square(diagonal_scatter(t[0], t[1], 1)); },
                  {x, random_tensor({2, 3}, DType::float64, 2)}, "diagonal");
  check_gradients([](auto& t) { return diagonal_scatter(t[0], t[1], -2, 1, 0); },
                  {x.transpose(0, 1), random_tensor({2, 1}, DType::float64, 2)},
                  "diagonal of a transposed");
  check_gradients([](auto& t) { return diagonal_scatter(t[0], t[1], 9); },
                  {x, Tensor::empty({2, 0}, DType::float64)}, "past the edge");
  check_gradients([](auto& t) { return square(select_scatter(t[0], t[1], 1, -2)); },
                  {x, random_tensor({3, 2}, DType::float64, 2)}, "select");
  check_gradients([](auto& t) { return square(slice_scatter(t[0], t[1], 1, 0, 4, 3)); },
                  {x, random_tensor({3, 2, 2}, DType::float64, 2)}, "slice");
  for (const bool wrap : {false, true}) {
    check_gradients([&](auto& t) { return square(fill_diagonal(t[0], t[1], wrap)); },
                    {random_tensor({7, 3}), random_tensor({})}, "fill_diagonal");
    check_gradients([&](auto& t) { return square(fill_diagonal(t[0], 2.0, wrap)); },
                    {random_tensor({7, 3})}, "fill_diagonal with a scalar");
  }
}

TEST(RegularGradient, views) {
  const Tensor x = random_tensor({3, 4, 2});
  check_gradients([](auto& t) { return square(t[0].select(1, -1)); }, {x}, "select");
  check_gradients([](auto& t) { return square(t[0].slice(1, 1, 4, 2)); }, {x}, "slice");
  check_gradients([](auto& t) { return square(t[0].diagonal(1, 1, 0)); }, {x}, "diagonal");
  check_gradients(
      [](auto& t) {
        return square(t[0].broadcast_to({2, 3, 4, 2}));
      },
      {x}, "broadcast_to");
  check_gradients(
      [](auto& t) {
        return square(t[0].broadcast_to({3, 5, 2}));
      },
      {random_tensor({3, 1, 1})}, "broadcast_to within");
  check_gradients([](auto& t) { return square(t[0].reshape({4, -1})); }, {x}, "reshape");
  check_gradients(
      [](auto& t) {
        return square(t[0].reshape({4, -1}));
      },
      {x.transpose(0, 2)}, "reshape copies");
  check_gradients([](auto& t) { return square(t[0].flatten(1)); }, {x}, "flatten");
  check_gradients([](auto& t) { return square(t[0].transpose(0, -1)); }, {x}, "transpose");
  check_gradients([](auto& t) { return square(t[0].permute({1, -1, 0})); }, {x}, "permute");
  check_gradients([](auto& t) { return square(t[0].flip(1)); }, {x}, "flip");
}

TEST(RegularGradient, copies_and_in_place_forms) {
  const Tensor x = random_tensor({2, 3}), y = random_tensor({3}, DType::float64, 2);
  check_gradients([](auto& t) { return square(t[0].clone()); }, {x}, "clone");
  check_gradients([](auto& t) { return square(mul(t[0], 2).copy_(t[1])); }, {x, y}, "copy_");
  check_gradients([](auto& t) { return add(mul(t[0], t[0]).fill_(2.0), t[0]); }, {x}, "fill_");
  const Tensor mask = Tensor::of<bool>({true, false, true}, {3});
  check_gradients([&](auto& t) { return square(mul(t[0], 2).masked_scatter_(mask, t[1])); },
                  {x, random_tensor({5})}, "masked_scatter_");
  const Tensor index = Tensor::of<int64_t>({0, 0, 1, 1, 0, 1}, {2, 3});
  for (const char* reduce : {"assign", "add", "mul", "amax", "amin", "mean"}) {
    check_gradients(
        [&](auto& t) { return square(put_along_axis_(mul(t[0], 2), index, t[1], 0, reduce)); },
        {x, y}, std::string("put_along_axis_ ") + reduce);
    check_gradients(
        [&](auto& t) {
          return put_along_axis_(Tensor::zeros({2, 3}, DType::float64), index, t[0], 0, reduce);
        },
        {y}, std::string("put_along_axis_ into a constant ") + reduce);
  }
}

}  // namespace
}  // namespace sow
