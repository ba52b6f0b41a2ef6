// SPDX-License-Identifier: Apache-2.0
// Expansions against MPFR: few values of the type whose real sum is that of all.
#include "core/exact/exact_expansion.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/exact_sum_cases.h"

namespace sow::test {
namespace {

using detail::Expansion;
using detail::LongAccumulator;

template <class T>
class Expansions : public testing::Test {};
using FloatTypes = testing::Types<float16, bfloat16, float, double>;
TYPED_TEST_SUITE(Expansions, FloatTypes);

template <class T>
std::vector<T> expand(const std::vector<T>& terms, int64_t most, int64_t* count) {
  std::vector<T> parts;
  const auto each = [&](auto&& f) {
    for (T term : terms) f(term);
  };
  *count = Expansion<T>::of(each, most, [&](T part) { parts.push_back(part); });
  return parts;
}

// Nothing is left when the parts are taken from the sum, and their own sum has its bits.
TYPED_TEST(Expansions, HaveTheRealSumOfTheTerms) {
  std::mt19937_64 random(11);
  int shorter = 0;
  for (int round = 0; round < 200; ++round) {
    for (const auto& sample : hurtful_cases<TypeParam>(random)) {
      if (sample.terms.empty()) continue;
      int64_t count = 0;
      const auto parts = expand(sample.terms, int64_t{1} << 40, &count);
      ASSERT_EQ(count, static_cast<int64_t>(parts.size()));
      ASSERT_EQ(mpfr_sum_bits<TypeParam>(parts), mpfr_sum_bits<TypeParam>(sample.terms))
          << sample.name;
      LongAccumulator<TypeParam> left;
      for (TypeParam term : sample.terms) left.add(term);
      for (TypeParam part : parts) left.sub(part);
      ASSERT_EQ(static_cast<double>(left.round()), 0) << sample.name;
      shorter += parts.size() < sample.terms.size();
    }
  }
  EXPECT_GT(shorter, 100);
}

TYPED_TEST(Expansions, OfSpecialTermsAreTheContractsBits) {
  for (const auto& sample : special_cases<TypeParam>()) {
    if (sample.terms.empty()) continue;
    int64_t count = 0;
    const auto parts = expand(sample.terms, 64, &count);
    LongAccumulator<TypeParam> sum;
    for (TypeParam part : parts) sum.add(part);
    EXPECT_EQ(bits_of(sum.round()), sample.expected) << sample.name;
    EXPECT_EQ(bits_of(sum.to_double()), sample.expected_double) << sample.name;
  }
}

TYPED_TEST(Expansions, BeyondTheRangeAreLargestValues) {
  using Traits = detail::FloatTraits<TypeParam>;
  const auto largest =
      detail::bit_cast<TypeParam>(static_cast<typename Traits::Bits>(Traits::kInfinity - 1));
  int64_t count = 0;
  const auto parts = expand(std::vector<TypeParam>(5, largest), 64, &count);
  EXPECT_EQ(count, 5);
  for (TypeParam part : parts) EXPECT_EQ(bits_of(part), bits_of(largest));
}

TYPED_TEST(Expansions, StopWhereThereIsNoRoom) {
  const std::vector<TypeParam> terms{TypeParam(1.0f), TypeParam(0.0009765625f),
                                     TypeParam(-0.000030517578125f)};
  int64_t count = 0;
  EXPECT_EQ(expand(terms, 1, &count).size(), 1u);
  if (sizeof(TypeParam) == 2) {
    EXPECT_EQ(count, 2);
  } else {
    EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace sow::test
