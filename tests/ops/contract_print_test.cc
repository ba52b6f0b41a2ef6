// SPDX-License-Identifier: Apache-2.0
// Printing: the strings are NumPy's own (2.4).
#include <cmath>
#include <sstream>

#include "ops/expect.h"

namespace sow::test {
namespace {

constexpr double kNan = NAN, kInf = INFINITY;

TEST(Print, Integers) {
  EXPECT_EQ(Tensor::arange(12, DType::int32).reshape({3, 4}).to_string(),
            "[[ 0  1  2  3]\n [ 4  5  6  7]\n [ 8  9 10 11]]");
  EXPECT_EQ(Tensor::of<int64_t>({1, -20, 300, 4}, {2, 2}).to_string(), "[[  1 -20]\n [300   4]]");
  EXPECT_EQ(Tensor::of<uint8_t>({255, 0, 7}).to_string(), "[255   0   7]");
  EXPECT_EQ(Tensor::arange(8).reshape({2, 2, 2}).to_string(),
            "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
}

TEST(Print, Bools) {
  EXPECT_EQ(Tensor::of<bool>({true, false, false, true}, {2, 2}).to_string(),
            "[[ True False]\n [False  True]]");
}

TEST(Print, Reals) {
  EXPECT_EQ(Tensor::of<float>({1, 2.5f, -3.25f}).to_string(), "[ 1.    2.5  -3.25]");
  EXPECT_EQ(Tensor::of<float>({1 / 3.0f, 2 / 3.0f, 1}).to_string(),
            "[0.33333334 0.6666667  1.        ]");
  EXPECT_EQ(Tensor::of<double>({1 / 3.0, 2 / 3.0, 1}).to_string(),
            "[0.33333333 0.66666667 1.        ]");
  EXPECT_EQ(Tensor::of<float>({0.95377302f, 0.53523803f, -0.64f, 2}, {2, 2}).to_string(),
            "[[ 0.953773  0.535238]\n [-0.64      2.      ]]");
  EXPECT_EQ(Tensor::of<double>({-0.0, 0.0}).to_string(), "[-0.  0.]");
  EXPECT_EQ(Tensor::of<double>({0.001, 0.0001}).to_string(), "[0.001  0.0001]");
  EXPECT_EQ(Tensor::of<float16>({float16(0.1f), float16(1.5f), float16(3.0f)}).to_string(),
            "[0.1 1.5 3. ]");
}

TEST(Print, LinesEndWithoutSpaces) {
  const Tensor x = Tensor::of<float>({0, 1.0f / 6, 1.0f / 3, 0.5f, 2.0f / 3, 5.0f / 6, 0});
  EXPECT_EQ(x.to_string(),
            "[0.         0.16666667 0.33333334 0.5        0.6666667  0.8333333\n 0.        ]");
}

TEST(Print, SpecialReals) {
  EXPECT_EQ(Tensor::of<double>({kNan, 1.5, kInf, -kInf}).to_string(), "[ nan  1.5  inf -inf]");
  EXPECT_EQ(Tensor::of<double>({kNan, 1, kInf}).to_string(), "[nan  1. inf]");
}

TEST(Print, Exponents) {
  EXPECT_EQ(Tensor::of<double>({1e10, 2e10}).to_string(), "[1.e+10 2.e+10]");
  EXPECT_EQ(Tensor::of<double>({1e-10, 1, 12345.678}).to_string(),
            "[1.0000000e-10 1.0000000e+00 1.2345678e+04]");
  EXPECT_EQ(Tensor::of<double>({5e-324, 1}).to_string(), "[5.e-324 1.e+000]");
  EXPECT_EQ(Tensor::of<float16>({float16(0.1f), float16(65504.0f), float16(1e-7f)}).to_string(),
            "[1.00e-01 6.55e+04 1.19e-07]");
}

TEST(Print, ComplexNumbers) {
  using C = std::complex<double>;
  EXPECT_EQ(Tensor::of<C>({C(1, 2), C(-0.0, -0.5), C(3.25, 0)}).to_string(),
            "[ 1.  +2.j  -0.  -0.5j  3.25+0.j ]");
  using F = std::complex<float>;
  EXPECT_EQ(Tensor::of<F>({F(1, 2), F(0.1f, -1)}, {2, 1}).to_string(), "[[1. +2.j]\n [0.1-1.j]]");
}

TEST(Print, ZeroDimensionsAndNothing) {
  EXPECT_EQ(Tensor::scalar(2.5, DType::float64).to_string(), "2.5");
  EXPECT_EQ(Tensor::scalar(7, DType::int64).to_string(), "7");
  EXPECT_EQ(Tensor::scalar(true, DType::bool_).to_string(), "True");
  EXPECT_EQ(Tensor::scalar(0.1, DType::float32).to_string(), "0.1");
  EXPECT_EQ(Tensor::scalar(1e20, DType::float64).to_string(), "1e+20");
  EXPECT_EQ(Tensor::scalar(kNan, DType::float32).to_string(), "nan");
  EXPECT_EQ(Tensor::scalar(std::complex<double>(1, 2), DType::complex128).to_string(), "(1+2j)");
  EXPECT_EQ(Tensor::scalar(std::complex<double>(0, -2.5), DType::complex64).to_string(), "-2.5j");
  EXPECT_EQ(Tensor::scalar(3, DType::float32).to_string(), "3.0");
  EXPECT_EQ(Tensor::scalar(-0.0, DType::float64).to_string(), "-0.0");
  EXPECT_EQ(Tensor::scalar(1.5e-5, DType::float64).to_string(), "1.5e-05");
  EXPECT_EQ(Tensor::scalar(0.001, DType::float32).to_string(), "0.001");
  EXPECT_EQ(Tensor::scalar(65504, DType::float16).to_string(), "6.55e+04");
  EXPECT_EQ(Tensor::scalar(1e8, DType::float32).to_string(), "1e+08");
  EXPECT_EQ(Tensor::zeros({0}, DType::float32).to_string(), "[]");
  EXPECT_EQ(Tensor::zeros({2, 0}, DType::float32).to_string(), "[]");
}

TEST(Print, LongOnesAreShortenedAndFolded) {
  EXPECT_EQ(Tensor::arange(2000).to_string(), "[   0    1    2 ... 1997 1998 1999]");
  const std::string row = "[0. 0. 0. ... 0. 0. 0.]";
  EXPECT_EQ(
      Tensor::zeros({50, 50}, DType::float64).to_string(),
      "[" + row + "\n " + row + "\n " + row + "\n ...\n " + row + "\n " + row + "\n " + row + "]");
  EXPECT_EQ(Tensor::arange(30).to_string(),
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n"
            " 24 25 26 27 28 29]");
}

TEST(Print, ViewsPrintWhatTheyShow) {
  const Tensor x = Tensor::arange(6, DType::int32).reshape({2, 3});
  EXPECT_EQ(x.transpose(0, 1).flip(0).to_string(), "[[2 5]\n [1 4]\n [0 3]]");
  std::ostringstream out;
  out << x.select(0, 1);
  EXPECT_EQ(out.str(), "[3 4 5]");
}

}  // namespace
}  // namespace sow::test
