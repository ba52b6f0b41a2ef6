// SPDX-License-Identifier: Apache-2.0
// The long accumulator against MPFR, on data made to hurt, and under foreign floating-point states.
#include "core/exact/exact_long.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cfenv>
#include <random>
#include <vector>

#include "core/exact_sum_cases.h"

namespace sow::test {
namespace {

using detail::FloatTraits;
using detail::LongAccumulator;

template <class T>
class LongSum : public testing::Test {};
using FloatTypes = testing::Types<float16, bfloat16, float, double>;
TYPED_TEST_SUITE(LongSum, FloatTypes);

template <class T>
LongAccumulator<T> sum_of(const std::vector<T>& terms) {
  LongAccumulator<T> sum;
  for (T term : terms) sum.add(term);
  return sum;
}

TYPED_TEST(LongSum, EqualsMpfr) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    for (const auto& sample : hurtful_cases<TypeParam>(random)) {
      const auto sum = sum_of(sample.terms);
      ASSERT_EQ(bits_of(sum.round()), mpfr_sum_bits<TypeParam>(sample.terms)) << sample.name;
      ASSERT_EQ(bits_of(sum.to_double()), mpfr_sum_bits<double>(sample.terms)) << sample.name;
    }
  }
}

TYPED_TEST(LongSum, SpecialTermsGiveTheContractsBits) {
  for (const auto& sample : special_cases<TypeParam>()) {
    const auto sum = sum_of(sample.terms);
    EXPECT_EQ(bits_of(sum.round()), sample.expected) << sample.name;
    EXPECT_EQ(bits_of(sum.to_double()), sample.expected_double) << sample.name;
  }
}

TYPED_TEST(LongSum, SubtractionIsAdditionOfTheNegated) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    for (const auto& sample : hurtful_cases<TypeParam>(random)) {
      LongAccumulator<TypeParam> added;
      LongAccumulator<TypeParam> subtracted;
      for (TypeParam term : sample.terms) {
        added.add(negated(term));
        subtracted.sub(term);
      }
      ASSERT_EQ(bits_of(added.round()), bits_of(subtracted.round())) << sample.name;
    }
  }
}

TYPED_TEST(LongSum, MergesInAnyOrder) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    for (auto& sample : hurtful_cases<TypeParam>(random)) {
      const auto whole = sum_of(sample.terms);
      std::shuffle(sample.terms.begin(), sample.terms.end(), random);
      std::vector<LongAccumulator<TypeParam>> parts(1 + random() % 5);
      for (TypeParam term : sample.terms) parts[random() % parts.size()].add(term);
      LongAccumulator<TypeParam> merged;
      for (const auto& part : parts) merged.merge(part);
      ASSERT_EQ(bits_of(merged.round()), bits_of(whole.round())) << sample.name;
      ASSERT_EQ(bits_of(merged.to_double()), bits_of(whole.to_double())) << sample.name;
    }
  }
}

// Doubling by merging reaches 2^63 largest terms, which no loop could.
TYPED_TEST(LongSum, HoldsTheLargestTermsManyTimesOver) {
  const auto largest = from_bits<TypeParam>(FloatTraits<TypeParam>::kInfinity - 1);
  for (const bool negative : {false, true}) {
    LongAccumulator<TypeParam> sum;
    sum.add(largest, negative);
    for (int i = 0; i < 63; ++i) sum.merge(LongAccumulator<TypeParam>(sum));
    const auto sign = negative ? FloatTraits<TypeParam>::kSign : 0;
    EXPECT_EQ(bits_of(sum.round()), FloatTraits<TypeParam>::kInfinity | sign);
    LongAccumulator<TypeParam> back;
    back.add(largest, !negative);
    for (int i = 0; i < 63; ++i) back.merge(LongAccumulator<TypeParam>(back));
    back.add(from_bits<TypeParam>(1));
    sum.merge(back);
    EXPECT_EQ(bits_of(sum.round()), 1u);
  }
}

TYPED_TEST(LongSum, AMillionTerms) {
  std::mt19937_64 random(4);
  std::vector<TypeParam> terms;
  for (int i = 0; i < 1000000; ++i)
    terms.push_back(random_finite<TypeParam>(random, 0, kTopBiased<TypeParam>));
  const auto sum = sum_of(terms);
  EXPECT_EQ(bits_of(sum.round()), mpfr_sum_bits<TypeParam>(terms));
  EXPECT_EQ(bits_of(sum.to_double()), mpfr_sum_bits<double>(terms));
}

TYPED_TEST(LongSum, TakesTheFloat64PartsOfASum) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    for (const auto& sample : hurtful_cases<TypeParam>(random)) {
      LongAccumulator<TypeParam> sum;
      bool only_zeros = true;
      for (TypeParam term : sample.terms) {
        sum.add_part(widen(term));
        only_zeros = only_zeros && widen(term) == 0;
      }
      if (only_zeros) continue;
      ASSERT_EQ(bits_of(sum.round()), mpfr_sum_bits<TypeParam>(sample.terms)) << sample.name;
    }
  }
}

// Other libraries leave rounding modes and flush-to-zero behind; integers must not notice.
TYPED_TEST(LongSum, IgnoresTheFloatingPointState) {
  std::mt19937_64 random(6);
  const unsigned control = _mm_getcsr();
  for (int round = 0; round < 50; ++round) {
    for (const auto& sample : hurtful_cases<TypeParam>(random)) {
      const auto expected = sum_of(sample.terms);
      for (const int mode : {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
        std::fesetround(mode);
        _mm_setcsr(_mm_getcsr() | 0x8040);  // flush to zero, denormals are zero
        const auto sum = sum_of(sample.terms);
        const auto bits = bits_of(sum.round());
        const auto double_bits = bits_of(sum.to_double());
        _mm_setcsr(control);
        std::fesetround(FE_TONEAREST);
        ASSERT_EQ(bits, bits_of(expected.round())) << sample.name;
        ASSERT_EQ(double_bits, bits_of(expected.to_double())) << sample.name;
      }
    }
  }
}

}  // namespace
}  // namespace sow::test
