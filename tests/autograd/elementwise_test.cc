// SPDX-License-Identifier: Apache-2.0
// Elementwise operations and sums: values, types, broadcasting and gradients.
#include "gradcheck.h"

namespace sow {
namespace {

using testing::check_gradients;
using testing::random_tensor;

TEST(Elementwise, arithmetic_broadcasts) {
  const Tensor a = Tensor::of({1.0f, 2.0f, 3.0f}, {3, 1});
  const Tensor b = Tensor::of({10.0f, 20.0f}, {2});
  EXPECT_EQ((a + b).to_vector<float>(), (std::vector<float>{11, 21, 12, 22, 13, 23}));
  EXPECT_EQ((a * b).shape(), (Dims{3, 2}));
  EXPECT_EQ((1 - b).to_vector<float>(), (std::vector<float>{-9, -19}));
  EXPECT_EQ((b / 2).to_vector<float>(), (std::vector<float>{5, 10}));
  EXPECT_EQ((2 / Tensor::of({4.0f})).to_vector<float>(), (std::vector<float>{0.5f}));
  EXPECT_EQ((-b).to_vector<float>(), (std::vector<float>{-10, -20}));
  EXPECT_EQ(pow(b, 2).to_vector<float>(), (std::vector<float>{100, 400}));
  EXPECT_EQ(pow(Tensor::of({4.0f}), -0.5).to_vector<float>(), (std::vector<float>{0.5f}));
}

TEST(Elementwise, strided_operands) {
  const Tensor x = Tensor::arange(24, DType::int32).reshape({2, 3, 4});
  const Tensor y = add(x.transpose(0, 2), x.flip(1).transpose(0, 2));
  const std::vector<int32_t> values = y.to_vector<int32_t>();
  size_t at = 0;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(values[at++], (i * 12 + j * 4 + k) + (i * 12 + (2 - j) * 4 + k));
      }
    }
  }
}

TEST(Elementwise, large_operands_use_every_thread) {
  const int64_t n = 300001;
  const Tensor x = Tensor::arange(n, DType::float64);
  const Tensor y = mul(x, 2) + x.flip(0);
  const double* values = y.data<double>();
  for (int64_t i = 0; i < n; i += 1009) {
    ASSERT_EQ(values[i], 2.0 * static_cast<double>(i) + static_cast<double>(n - 1 - i));
  }
}

TEST(Elementwise, integers_wrap_and_bool_is_logic) {
  EXPECT_EQ(add(Tensor::of<uint8_t>({250, 3}), 10).to_vector<uint8_t>(),
            (std::vector<uint8_t>{4, 13}));
  EXPECT_EQ(mul(Tensor::of<int64_t>({INT64_MAX}), 2).to_vector<int64_t>(),
            (std::vector<int64_t>{-2}));
  const Tensor a = Tensor::of<bool>({true, true, false}),
               b = Tensor::of<bool>({true, false, false});
  EXPECT_EQ(add(a, b).to_vector<bool>(), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(mul(a, b).to_vector<bool>(), (std::vector<bool>{true, false, false}));
}

TEST(Elementwise, halves_round_once) {
  const Tensor a = Tensor::of({float16(2048.0f)}), b = Tensor::of({float16(3.0f)});
  EXPECT_EQ(static_cast<float>(add(a, b).to_vector<float16>()[0]), 2052.0f);  // ties to even
  const Tensor c = Tensor::of({bfloat16(1.0f)});
  EXPECT_EQ(static_cast<float>(div(c, 3).to_vector<bfloat16>()[0]),
            static_cast<float>(bfloat16(1.0f / 3)));
}

TEST(Elementwise, comparisons_and_where) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor a = Tensor::of({1.0, nan, 3.0}), b = Tensor::of({1.0, 2.0, 2.0});
  EXPECT_EQ(eq(a, b).to_vector<bool>(), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(ne(a, b).to_vector<bool>(), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(lt(b, a).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(ge(a, 1).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(le(2, b).to_vector<bool>(), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(gt(a, b).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(where(gt(b, 1), b, -1).to_vector<double>(), (std::vector<double>{-1, 2, 2}));
  EXPECT_EQ(where(gt(b, 1), 0, b).to_vector<double>(), (std::vector<double>{1, 0, 0}));
}

TEST(Elementwise, where_moves_bytes) {
  const Tensor payload = Tensor::of({float16::from_bits(0xfd23), float16::from_bits(0x0001)});
  const Tensor out = where(Tensor::of<bool>({true, true}), payload, 0);
  EXPECT_EQ(out.to_vector<float16>()[0].bits, 0xfd23);
  EXPECT_EQ(out.to_vector<float16>()[1].bits, 0x0001);
}

TEST(Elementwise, casts_round_once) {
  EXPECT_EQ(to(Tensor::of<int64_t>({300, -1}), DType::uint8).to_vector<uint8_t>(),
            (std::vector<uint8_t>{44, 255}));
  // 2^60 + 2^52 + 1 is just above the middle of two bfloat16; by way of float64 it would be the
  // middle.
  const int64_t above = (int64_t{1} << 60) + (int64_t{1} << 52) + 1;
  const bfloat16 rounded =
      to(Tensor::of<int64_t>({above}), DType::bfloat16).to_vector<bfloat16>()[0];
  EXPECT_EQ(static_cast<double>(rounded), 0x1p60 + 0x1p53);
  const bfloat16 below =
      to(Tensor::of<int64_t>({-above + 2}), DType::bfloat16).to_vector<bfloat16>()[0];
  EXPECT_EQ(static_cast<double>(below), -0x1p60);
  EXPECT_THROW(to(Tensor::of({1.0}), DType::int32), Error);
}

TEST(Elementwise, sums_are_exact) {
  const Tensor x = Tensor::of({1e30f, 1.0f, -1e30f, 5.0f, -0.0f, -0.0f}, {2, 3});
  EXPECT_EQ(sum(x, {1}).to_vector<float>(), (std::vector<float>{1, 5}));
  EXPECT_EQ(sum(x).item<float>(), 6.0f);
  EXPECT_EQ(sum(x, {-2}, true).shape(), (Dims{1, 3}));
  EXPECT_EQ(mean(Tensor::of({1.0f, 2.0f, 4.0f, 5.0f}, {2, 2}), {0}).to_vector<float>(),
            (std::vector<float>{2.5f, 3.5f}));
  EXPECT_EQ(mean(Tensor::of<int32_t>({-1, -2})).item<int32_t>(), -2);
  const Tensor empty = Tensor::empty({0, 2}, DType::float32);
  EXPECT_FALSE(std::signbit(sum(empty).item<float>()));
  EXPECT_EQ(sum(empty, {0}).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_TRUE(std::isnan(mean(empty).item<float>()));
  EXPECT_EQ(sum(empty, {1}).numel(), 0);
}

TEST(Elementwise, errors_name_the_operation) {
  const auto message = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Tensor f = Tensor::of({1.0f, 2.0f}), i = Tensor::of<int32_t>({1, 2});
  EXPECT_EQ(message([&] {
              add(f, Tensor::of({1.0f, 2.0f, 3.0f}));
            }),
            "add: shapes [2] and [3] do not broadcast together");
  EXPECT_EQ(
      message([&] { mul(f, i); }),
      "mul: the first operand is float32 but the second is int32; they must have the same type");
  EXPECT_EQ(message([&] { div(i, i); }),
            "div: int32 has no division; take a floating or complex type");
  EXPECT_EQ(message([&] { add(1, 2); }), "add: both operands are scalars; one must be a tensor");
  EXPECT_EQ(message([&] { sum(f, {0, -1}); }), "sum: axis 0 is named twice");
  EXPECT_EQ(message([&] { mean(Tensor::empty({0}, DType::int32)); }),
            "mean: x [0] has no elements to take the mean of");
}

TEST(ElementwiseGradient, agrees_with_differences) {
  const Tensor a = random_tensor({2, 3}), b = random_tensor({3}, DType::float64, 2);
  const Tensor mask = Tensor::of<bool>({true, false, true});
  check_gradients([](auto& t) { return add(t[0], t[1]); }, {a, b}, "add");
  check_gradients([](auto& t) { return sub(t[0], t[1]); }, {b, a}, "sub");
  check_gradients([](auto& t) { return sub(3, t[0]); }, {b}, "scalar - x");
  check_gradients([](auto& t) { return mul(t[0], t[1]); }, {a, b}, "mul");
  check_gradients([](auto& t) { return mul(t[0], t[0]); }, {a}, "square");
  check_gradients([](auto& t) { return div(t[0], t[1]); }, {a, b}, "div");
  check_gradients([](auto& t) { return div(t[0], 3); }, {a}, "x / scalar");
  check_gradients([](auto& t) { return div(3, t[0]); }, {a}, "scalar / x");
  check_gradients([](auto& t) { return neg(t[0]); }, {a}, "neg");
  check_gradients([](auto& t) { return pow(t[0], 3); }, {a}, "cube");
  check_gradients([](auto& t) { return pow(mul(t[0], t[0]), -0.5); }, {a}, "root");
  check_gradients([](auto& t) { return where(t[2], t[0], t[1]); }, {a, b, mask}, "where");
  check_gradients([](auto& t) { return where(t[1], 2, t[0]); }, {a, mask}, "where scalar");
  check_gradients([](auto& t) { return sum(t[0], {1}); }, {a}, "sum");
  check_gradients([](auto& t) { return mul(sum(t[0]), t[0]); }, {a}, "sum over all");
  check_gradients([](auto& t) { return mean(mul(t[0], t[0]), {0}, true); }, {a}, "mean");
  check_gradients([](auto& t) { return mul(mean(t[0]), t[0]); }, {a}, "mean over all");
}

TEST(ElementwiseGradient, complex_follows_the_conjugate_convention) {
  const DType c = DType::complex128;
  const Tensor a = random_tensor({2, 2}, c), b = random_tensor({2}, c, 2);
  check_gradients([](auto& t) { return mul(t[0], t[1]); }, {a, b}, "mul");
  check_gradients([](auto& t) { return div(t[0], t[1]); }, {a, b}, "div");
  check_gradients([](auto& t) { return mul(t[0], conj(t[0])); }, {a}, "conj");
  check_gradients([](auto& t) { return pow(t[0], 3); }, {a}, "pow");
  check_gradients([](auto& t) { return mul(t[0], std::complex<double>(1, 2)); }, {a}, "scalar");
  check_gradients([](auto& t) { return mean(mul(t[0], t[0])); }, {a}, "mean");
}

}  // namespace
}  // namespace sow
