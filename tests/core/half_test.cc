// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16: every pattern out and back, and rounding from float32 and float64 against
// MPFR.
#include "sow/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "core/exact_sum_oracle.h"

namespace sow::test {
namespace {

template <class T>
class Half : public testing::Test {};
using HalfTypes = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(Half, HalfTypes);

// The value a pattern stands for, by the formula of the format.
template <class T>
double meaning(uint16_t bits) {
  using Traits = detail::FloatTraits<T>;
  const int biased = (bits & 0x7fff) >> (Traits::kDigits - 1);
  const int fraction = bits & (Traits::kHidden - 1);
  const double sign = (bits & 0x8000) ? -1.0 : 1.0;
  if (biased == 0) return sign * std::ldexp(fraction, Traits::kUnitExponent);
  return sign * std::ldexp(fraction + Traits::kHidden, Traits::kUnitExponent + biased - 1);
}

TYPED_TEST(Half, IsTwoPlainBytes) {
  EXPECT_EQ(sizeof(TypeParam), 2u);
  EXPECT_TRUE(std::is_trivial_v<TypeParam>);
  EXPECT_TRUE(std::is_standard_layout_v<TypeParam>);
}

TYPED_TEST(Half, EveryPatternOutAndBack) {
  using Traits = detail::FloatTraits<TypeParam>;
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const TypeParam half = TypeParam::from_bits(bits);
    const auto as_float = static_cast<float>(half);
    const auto as_double = static_cast<double>(half);
    const uint16_t magnitude = bits & 0x7fff;
    if (magnitude > Traits::kInfinity) {
      ASSERT_TRUE(std::isnan(as_float) && std::isnan(as_double)) << i;
      ASSERT_EQ(TypeParam(as_float).bits, Traits::kQuietNan) << i;
      ASSERT_EQ(TypeParam(as_double).bits, Traits::kQuietNan) << i;
      continue;
    }
    const double expected = magnitude == Traits::kInfinity
                                ? std::copysign(INFINITY, (bits & 0x8000) ? -1 : 1)
                                : meaning<TypeParam>(bits);
    ASSERT_EQ(bits_of(as_double), bits_of(expected)) << i;
    ASSERT_EQ(bits_of(as_float), bits_of(static_cast<float>(expected))) << i;
    ASSERT_EQ(TypeParam(as_float).bits, bits) << i;
    ASSERT_EQ(TypeParam(as_double).bits, bits) << i;
  }
}

// Every midpoint between neighbours, and the values just beside it: where rounding goes wrong if it
// does.
TYPED_TEST(Half, MidpointsGoToEven) {
  using Traits = detail::FloatTraits<TypeParam>;
  for (uint16_t bits = 0; bits < Traits::kInfinity; ++bits) {
    const double low = meaning<TypeParam>(bits);
    const double high =
        meaning<TypeParam>(static_cast<uint16_t>(bits + 1));  // 2^(emax+1) after the largest
    const double middle = low + (high - low) / 2;
    const auto even = static_cast<uint16_t>((bits & 1) ? bits + 1 : bits);
    const auto next = static_cast<uint16_t>(bits + 1);
    ASSERT_EQ(TypeParam(middle).bits, even) << bits;
    ASSERT_EQ(TypeParam(-middle).bits, even | 0x8000) << bits;
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0)).bits, bits);
    ASSERT_EQ(TypeParam(std::nextafter(middle, INFINITY)).bits, next);
    const auto middle_float = static_cast<float>(middle);
    ASSERT_EQ(middle_float, middle);
    ASSERT_EQ(TypeParam(middle_float).bits, even) << bits;
    ASSERT_EQ(TypeParam(std::nextafterf(middle_float, 0.0f)).bits, bits);
    ASSERT_EQ(TypeParam(std::nextafterf(middle_float, INFINITY)).bits, next);
  }
}

TYPED_TEST(Half, RandomValuesAgainstMpfr) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 50000; ++i) {
    const auto wide = random_finite<double>(random, 1023 - 160, 1023 + 140);
    const auto narrow = random_finite<float>(random, 0, kTopBiased<float>);
    ASSERT_EQ(TypeParam(wide).bits, mpfr_sum_bits<TypeParam>(std::vector<double>{wide})) << wide;
    ASSERT_EQ(TypeParam(narrow).bits, mpfr_sum_bits<TypeParam>(std::vector<float>{narrow}))
        << narrow;
  }
}

TYPED_TEST(Half, ExtremeFloat64) {
  using Traits = detail::FloatTraits<TypeParam>;
  EXPECT_EQ(TypeParam(std::numeric_limits<double>::denorm_min()).bits, 0);
  EXPECT_EQ(TypeParam(-std::numeric_limits<double>::denorm_min()).bits, 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<double>::max()).bits, Traits::kInfinity);
  EXPECT_EQ(TypeParam(std::numeric_limits<double>::lowest()).bits, Traits::kInfinity | 0x8000);
  EXPECT_EQ(TypeParam(-0.0).bits, 0x8000);
  EXPECT_EQ(TypeParam(-std::numeric_limits<double>::quiet_NaN()).bits, Traits::kQuietNan);
}

// By way of float32 these would land on a tie and then go to even.
TEST(HalfRounding, OnceFromFloat64) {
  EXPECT_EQ(float16(1.0 + std::ldexp(1, -11) + std::ldexp(1, -40)).bits, 0x3c01);
  EXPECT_EQ(bfloat16(1.0 + std::ldexp(1, -8) + std::ldexp(1, -40)).bits, 0x3f81);
}

}  // namespace
}  // namespace sow::test
