// SPDX-License-Identifier: Apache-2.0
// Gradients whose bits the contract gives: winners, ties, zeros, unused parts, rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "sow/sow.h"

namespace sow {
namespace {

template <class T>
TensorList gradients(const std::function<Tensor(const TensorList&)>& f, const TensorList& inputs,
                     std::initializer_list<T> weight) {
  const Vjp out = vjp(f, inputs);
  return out.pullback(Tensor::of(std::vector<T>(weight), out.result.shape()));
}

using Floats = std::vector<float>;

TEST(Values, under_assign_only_the_winner_has_gradient) {
  const Tensor index = Tensor::of<int64_t>({1, 1, 0, 1});
  const auto found = gradients<float>(
      [&](auto& t) { return scatter(t[0], 0, index, t[1]); },
      {Tensor::of({1.0f, 2.0f, 3.0f}), Tensor::of({4.0f, 5.0f, 6.0f, 7.0f})}, {1, 10, 100});
  EXPECT_EQ(found[0].to_vector<float>(), (Floats{0, 0, 100}));
  EXPECT_EQ(found[1].to_vector<float>(), (Floats{0, 0, 1, 10}));
}

TEST(Values, amax_without_self_gives_halves_not_thirds) {
  const Tensor index = Tensor::of<int64_t>({0, 0, 1});
  const Tensor x = Tensor::of({5.0f, 1.0f}), src = Tensor::of({5.0f, 5.0f, 2.0f});
  const auto run = [&](bool self) {
    return gradients<float>(
        [&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], "amax", self); }, {x, src},
        {6, 1});
  };
  EXPECT_EQ(run(false)[0].to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(run(false)[1].to_vector<float>(), (Floats{3, 3, 1}));
  EXPECT_EQ(run(true)[0].to_vector<float>(), (Floats{2, 0}));
  EXPECT_EQ(run(true)[1].to_vector<float>(), (Floats{2, 2, 1}));
}

TEST(Values, ties_go_by_bits_and_any_nan_matches) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor index = Tensor::of<int64_t>({0, 0, 1, 1, 1});
  const Tensor x = Tensor::of({-0.0f, 1.0f}), src = Tensor::of({0.0f, -0.0f, nan, -nan, 3.0f});
  const auto found = gradients<float>(
      [&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], "amax"); }, {x, src}, {1, 1});
  EXPECT_EQ(found[0].to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(found[1].to_vector<float>(), (Floats{1, 0, 0.5f, 0.5f, 0}));
}

TEST(Values, shares_are_divided_in_float64) {
  const Tensor index = Tensor::of<int64_t>({0, 0, 0});
  const Tensor x = Tensor::of({float16(1.0f)}),
               src = Tensor::of({float16(1.0f), float16(1.0f), float16(1.0f)});
  const Vjp mean_of =
      vjp([&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], "mean", false); }, {x, src});
  const float16 third = mean_of.pullback(Tensor::of({float16(1.0f)}))[1].to_vector<float16>()[0];
  EXPECT_EQ(third.bits, float16(1.0 / 3.0).bits);
}

TEST(Values, products_of_the_others) {
  const Tensor index = Tensor::of<int64_t>({0, 0, 1, 1, 2, 2});
  const Tensor x = Tensor::of({2.0f, 3.0f, 5.0f, 7.0f});
  const Tensor src = Tensor::of({3.0f, 4.0f, 0.0f, 4.0f, 0.0f, -0.0f});
  const auto found = gradients<float>(
      [&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], "mul"); }, {x, src}, {1, 1, 1, 1});
  EXPECT_EQ(found[0].to_vector<float>(), (Floats{12, 0, 0, 1}));
  EXPECT_EQ(found[1].to_vector<float>(), (Floats{8, 6, 12, 0, 0, 0}));
}

TEST(Values, products_keep_what_float32_would_lose) {
  // The product overflows float32 but not the accumulation type.
  const Tensor index = Tensor::of<int64_t>({0, 0});
  const auto found =
      gradients<float>([&](auto& t) { return scatter_reduce(t[0], 0, index, t[1], "mul", false); },
                       {Tensor::of({1.0f}), Tensor::of({1e30f, 1e30f})}, {1});
  EXPECT_EQ(found[1].to_vector<float>(), (Floats{1e30f, 1e30f}));
}

TEST(Values, untouched_destinations_pass_the_gradient_bit_for_bit) {
  const Tensor x = Tensor::of({3.0f, 7.0f, std::numeric_limits<float>::quiet_NaN()});
  const Tensor index = Tensor::of<int64_t>({0});
  for (const char* reduce : {"assign", "add", "mul", "amax", "amin", "mean"}) {
    for (const bool self : {true, false}) {
      const auto found = gradients<float>(
          [&](auto& t) { return put_along_axis(t[0], index, t[1], 0, reduce, self); },
          {x, Tensor::of({2.0f})}, {1, 0.1f, 0.3f});
      EXPECT_EQ(found[0].to_vector<float>()[1], 0.1f) << reduce;
      EXPECT_EQ(found[0].to_vector<float>()[2], 0.3f) << reduce;
    }
  }
}

TEST(Values, unused_parts_get_zeros) {
  const auto scattered = gradients<float>(
      [&](auto& t) {
        return scatter_add(t[0], 0, Tensor::of<int64_t>({1, 0}, {1, 2}), t[1]);
      },
      {Tensor::zeros({2, 2}, DType::float32), Tensor::zeros({3, 4}, DType::float32)}, {1, 2, 3, 4});
  EXPECT_EQ(scattered[1].to_vector<float>(), (Floats{3, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const auto masked = gradients<float>(
      [&](auto& t) {
        return masked_scatter(t[0], Tensor::of<bool>({true, false, true}), t[1]);
      },
      {Tensor::zeros({3}, DType::float32), Tensor::zeros({2, 2}, DType::float32)}, {1, 2, 3});
  EXPECT_EQ(masked[0].to_vector<float>(), (Floats{0, 2, 0}));
  EXPECT_EQ(masked[1].to_vector<float>(), (Floats{1, 3, 0, 0}));
}

TEST(Values, sums_over_broadcast_dimensions_are_exact) {
  const auto found = gradients<float>(
      [&](auto& t) {
        return put_along_axis(t[0], Tensor::of<int64_t>({0, 1, 2, 3}), t[1], 0);
      },
      {Tensor::zeros({4}, DType::float32), Tensor::zeros({1}, DType::float32)},
      {1e30f, 1, -1e30f, 1});
  EXPECT_EQ(found[1].to_vector<float>(), (Floats{2}));
}

TEST(Values, third_order_of_products) {
  const Tensor index = Tensor::of<int64_t>({0, 0, 0});
  const auto third = [&](std::initializer_list<double> factors) {
    const Tensor x = Tensor::of({1.0});
    const Tensor src = Tensor::of(std::vector<double>(factors), {3}).set_requires_grad();
    const Tensor y = sum(scatter_reduce(x, 0, index, src, "mul"));
    const Tensor first = grad({y}, {src}, {}, true)[0].select(0, 0);
    const Tensor second = grad({first}, {src}, {}, true)[0].select(0, 1);
    return grad({second}, {src})[0].to_vector<double>();
  };
  // d3(abc) / da db dc = 1, whichever of them is zero.
  EXPECT_EQ(third({2, 3, 5}), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(third({0, 3, 5}), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(third({2, 0, 5}), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(third({2, 3, 0}), (std::vector<double>{0, 0, 1}));
  try {
    third({0, 0, 5});
    FAIL() << "two zeros at third order";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "mul: a derivative of third or higher order is asked for, and a destination has more "
        "than one zero among its factors; gradients of products go to second order there");
    EXPECT_EQ(error.kind(), ErrorKind::autograd);
  }
}

TEST(Values, second_derivative_of_a_product_with_two_zeros) {
  const Tensor index = Tensor::of<int64_t>({0, 0, 0});
  const Tensor src = Tensor::of({0.0, 3.0, 0.0}).set_requires_grad();
  const Tensor y = scatter_reduce(Tensor::of({2.0}), 0, index, src, "mul");
  const Tensor first = grad({sum(y)}, {src}, {}, true)[0];
  EXPECT_EQ(first.to_vector<double>(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(grad({first.select(0, 0)}, {src})[0].to_vector<double>(),
            (std::vector<double>{0, 0, 6}));
}

TEST(Values, gradients_do_not_depend_on_the_number_of_threads) {
  const int64_t n = 40000;
  const Tensor x = Tensor::full({100, 8}, 0.5, DType::float32);
  Tensor src = Tensor::empty({n, 8}, DType::float32);
  for (int64_t i = 0; i < src.numel(); ++i)
    src.data<float>()[i] = 1.0f + 1e-4f * static_cast<float>(i * 7919 % 13);
  Tensor index = Tensor::empty({n}, DType::int64);
  for (int64_t i = 0; i < n; ++i) index.data<int64_t>()[i] = i * i % 100;
  const int before = get_num_threads();
  for (const char* reduce : {"add", "amax", "mean", "mul"}) {
    std::vector<Floats> results;
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      const Vjp out =
          vjp([&](auto& t) { return index_reduce(t[0], 0, index, t[1], reduce); }, {x, src});
      const TensorList found = out.pullback(out.result);
      results.push_back(found[0].to_vector<float>());
      for (const float value : found[1].to_vector<float>()) results.back().push_back(value);
    }
    const size_t bytes = results[0].size() * sizeof(float);
    EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), bytes), 0) << reduce;
    EXPECT_EQ(std::memcmp(results[0].data(), results[2].data(), bytes), 0) << reduce;
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace sow
