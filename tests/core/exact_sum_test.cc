// SPDX-License-Identifier: Apache-2.0
// Checked sums and limbs against MPFR: whatever they tell must be right, and on ordinary data they
// must tell.
#include "core/exact/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/exact_sum_cases.h"
#include "core/limbs.h"

namespace sow::test {
namespace {

using detail::CheckedSum;
using detail::FloatTraits;
using detail::Limbs;
using detail::LongAccumulator;

template <class T, int P>
struct Checked {
  using Type = T;
  static constexpr int kParts = P;
};

template <class Kind>
class CheckedSums : public testing::Test {};
using CheckedKinds = testing::Types<Checked<float16, 1>, Checked<bfloat16, 1>, Checked<float, 1>,
                                    Checked<double, 1>, Checked<float16, 2>, Checked<bfloat16, 2>,
                                    Checked<float, 2>, Checked<double, 2>>;
TYPED_TEST_SUITE(CheckedSums, CheckedKinds);

template <class Sum, class T>
Sum sum_of(const std::vector<T>& terms) {
  Sum sum;
  for (T term : terms) sum.add(term);
  return sum;
}

// How many of the two answers were given; those given must be right.
template <class Sum, class T>
int answers(const Sum& sum, const SumCase<T>& sample) {
  int given = 0;
  T rounded;
  if (sum.round_to(rounded)) {
    EXPECT_EQ(bits_of(rounded), mpfr_sum_bits<T>(sample.terms)) << sample.name;
    ++given;
  }
  double wide;
  if (sum.to_double(wide)) {
    EXPECT_EQ(bits_of(wide), mpfr_sum_bits<double>(sample.terms)) << sample.name;
    ++given;
  }
  return given;
}

TYPED_TEST(CheckedSums, WhatTheyTellIsRight) {
  using T = typename TypeParam::Type;
  std::mt19937_64 random(1);
  for (int round = 0; round < 400 && !this->HasFailure(); ++round) {
    for (const auto& sample : hurtful_cases<T>(random)) {
      answers(sum_of<CheckedSum<T, TypeParam::kParts>>(sample.terms), sample);
    }
  }
}

TYPED_TEST(CheckedSums, MergedInAnyOrderTheyAreStillRight) {
  using T = typename TypeParam::Type;
  std::mt19937_64 random(2);
  for (int round = 0; round < 200 && !this->HasFailure(); ++round) {
    for (auto& sample : hurtful_cases<T>(random)) {
      std::shuffle(sample.terms.begin(), sample.terms.end(), random);
      std::vector<CheckedSum<T, TypeParam::kParts>> parts(1 + random() % 4);
      for (T term : sample.terms) parts[random() % parts.size()].add(term);
      CheckedSum<T, TypeParam::kParts> merged;
      for (const auto& part : parts) merged.merge(part);
      answers(merged, sample);
    }
  }
}

TYPED_TEST(CheckedSums, SpecialTermsAreNeverTold) {
  using T = typename TypeParam::Type;
  for (const auto& sample : special_cases<T>()) {
    if (sample.terms.empty()) continue;
    const auto sum = sum_of<CheckedSum<T, TypeParam::kParts>>(sample.terms);
    T rounded;
    double wide;
    EXPECT_FALSE(sum.round_to(rounded)) << sample.name;
    EXPECT_FALSE(sum.to_double(wide)) << sample.name;
    EXPECT_FALSE(sum.exact()) << sample.name;
  }
}

TYPED_TEST(CheckedSums, NothingIsMinusZero) {
  using T = typename TypeParam::Type;
  const CheckedSum<T, TypeParam::kParts> sum;
  T rounded;
  ASSERT_TRUE(sum.exact() && sum.round_to(rounded));
  EXPECT_EQ(bits_of(rounded), FloatTraits<T>::kSign);
}

// A sum that always refused would pass everything above.
template <class T, int Parts>
double share_told(int least_biased, int most_biased, int count) {
  std::mt19937_64 random(3);
  const int rounds = 2000;
  int told = 0;
  for (int round = 0; round < rounds; ++round) {
    const SumCase<T> sample{"share", random_terms<T>(random, count, least_biased, most_biased)};
    T rounded;
    const auto sum = sum_of<CheckedSum<T, Parts>>(sample.terms);
    told += sum.round_to(rounded);
    answers(sum, sample);
  }
  return static_cast<double>(told) / rounds;
}

TEST(CheckedSumsTell, OrdinaryDataAlways) {
  EXPECT_EQ((share_told<float16, 1>(0, kTopBiased<float16>, 50)), 1.0);
  EXPECT_EQ((share_told<bfloat16, 1>(100, 127, 50)), 1.0);
  EXPECT_EQ((share_told<float, 1>(110, 127, 50)), 1.0);
  EXPECT_EQ((share_told<float, 2>(80, 160, 50)), 1.0);
  EXPECT_EQ((share_told<double, 2>(980, 1023, 50)), 1.0);
}

TEST(CheckedSumsTell, WideExponentsNearlyAlways) {
  EXPECT_GT((share_told<bfloat16, 1>(0, kTopBiased<bfloat16>, 20)), 0.95);
  EXPECT_GT((share_told<float, 1>(0, kTopBiased<float>, 20)), 0.95);
  EXPECT_GT((share_told<double, 2>(0, kTopBiased<double>, 20)), 0.95);
}

TEST(CheckedSumsTell, PartsMakeALongSum) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 500; ++round) {
    const auto terms = random_terms<float>(random, 40, 80, 160);
    const auto sum = sum_of<CheckedSum<float, 2>>(terms);
    ASSERT_TRUE(sum.exact());
    LongAccumulator<float> total;
    total.add_part(sum.high());
    total.add_part(sum.low());
    ASSERT_EQ(bits_of(total.round()), mpfr_sum_bits<float>(terms));
  }
}

template <class T>
class LimbSums : public testing::Test {};
using LimbTypes = testing::Types<float16, bfloat16, float>;
TYPED_TEST_SUITE(LimbSums, LimbTypes);

TYPED_TEST(LimbSums, EqualMpfr) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    for (const auto& sample : hurtful_cases<TypeParam>(random)) {
      const auto sum = sum_of<Limbs<TypeParam>>(sample.terms);
      ASSERT_EQ(bits_of(sum.round()), mpfr_sum_bits<TypeParam>(sample.terms)) << sample.name;
      ASSERT_EQ(bits_of(sum.to_double()), mpfr_sum_bits<double>(sample.terms)) << sample.name;
      Limbs<TypeParam> opposite;
      for (TypeParam term : sample.terms) opposite.sub(negated(term));
      ASSERT_EQ(bits_of(opposite.round()), bits_of(sum.round())) << sample.name;
    }
  }
}

TYPED_TEST(LimbSums, SpecialTermsGiveTheContractsBits) {
  for (const auto& sample : special_cases<TypeParam>()) {
    const auto sum = sum_of<Limbs<TypeParam>>(sample.terms);
    EXPECT_EQ(bits_of(sum.round()), sample.expected) << sample.name;
    EXPECT_EQ(bits_of(sum.to_double()), sample.expected_double) << sample.name;
  }
}

TYPED_TEST(LimbSums, MergeAndCarryChangeNothing) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 100; ++round) {
    for (auto& sample : hurtful_cases<TypeParam>(random)) {
      std::shuffle(sample.terms.begin(), sample.terms.end(), random);
      std::vector<Limbs<TypeParam>> parts(1 + random() % 4);
      for (TypeParam term : sample.terms) {
        auto& part = parts[random() % parts.size()];
        part.add(term);
        if (random() % 4 == 0) part.carry();
      }
      Limbs<TypeParam> merged;
      for (const auto& part : parts) merged.merge(part);
      ASSERT_EQ(bits_of(merged.round()), mpfr_sum_bits<TypeParam>(sample.terms)) << sample.name;
    }
  }
}

// As many of the worst terms as are allowed before a carry, then as many again.
TYPED_TEST(LimbSums, HoldWhatTheyPromiseBetweenCarries) {
  using Traits = FloatTraits<TypeParam>;
  using Format = typename Limbs<TypeParam>::Format;
  const int worst_shift = std::min(Format::kBinades - 1, Format::kMaxShift);
  const auto worst =
      from_bits<TypeParam>((static_cast<uint64_t>(worst_shift + 2) << (Traits::kDigits - 1)) - 1);
  for (const bool negate : {false, true}) {
    Limbs<TypeParam> sum;
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (int64_t i = 0; i < Format::kAdditionsBeforeCarry; ++i) sum.add(worst, negate);
      sum.carry();
    }
    LongAccumulator<TypeParam> expected;
    expected.add(worst, negate);
    for (int64_t n = 1; n < 2 * Format::kAdditionsBeforeCarry; n *= 2) {
      expected.merge(LongAccumulator<TypeParam>(expected));
    }
    EXPECT_EQ(bits_of(sum.to_double()), bits_of(expected.to_double()));
    EXPECT_EQ(bits_of(sum.round()), bits_of(expected.round()));
  }
}

TYPED_TEST(LimbSums, AMillionTerms) {
  std::mt19937_64 random(7);
  const auto terms = random_terms<TypeParam>(random, 1000000, 0, kTopBiased<TypeParam>);
  const auto sum = sum_of<Limbs<TypeParam>>(terms);
  EXPECT_EQ(bits_of(sum.round()), mpfr_sum_bits<TypeParam>(terms));
  EXPECT_EQ(bits_of(sum.to_double()), mpfr_sum_bits<double>(terms));
}

}  // namespace
}  // namespace sow::test
