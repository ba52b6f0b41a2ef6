// SPDX-License-Identifier: Apache-2.0
// The data that exact sums are tested on: each case breaks some plausible way of adding floats.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "core/exact_sum_oracle.h"

namespace sow::test {

template <class T>
struct SumCase {
  std::string name;
  std::vector<T> terms;
};

template <class T>
std::vector<T> random_terms(std::mt19937_64& random, int count, int least_biased, int most_biased) {
  std::vector<T> terms;
  for (int i = 0; i < count; ++i)
    terms.push_back(random_finite<T>(random, least_biased, most_biased));
  return terms;
}

// Everything and its negation in another order, and one survivor.
template <class T>
std::vector<T> cancelling_terms(std::mt19937_64& random, int count, bool survivor) {
  auto terms = random_terms<T>(random, count, 0, kTopBiased<T>);
  for (int i = 0; i < count; ++i) terms.push_back(negated(terms[i]));
  if (survivor) terms.push_back(random_finite<T>(random, 0, 3));
  for (size_t i = terms.size() - 1; i > 0; --i) std::swap(terms[i], terms[random() % (i + 1)]);
  return terms;
}

// A value, half a unit in its last place, and perhaps a speck that decides the tie.
template <class T>
std::vector<T> tie_terms(std::mt19937_64& random, int speck) {
  using Traits = detail::FloatTraits<T>;
  std::uniform_int_distribution<int> exponents(Traits::kDigits + 2, kTopBiased<T>);
  const int biased = exponents(random);
  const uint64_t exponent = static_cast<uint64_t>(biased) << (Traits::kDigits - 1);
  const uint64_t half = static_cast<uint64_t>(biased - Traits::kDigits) << (Traits::kDigits - 1);
  const uint64_t sign = (random() & 1) ? static_cast<uint64_t>(Traits::kSign) : 0;
  std::vector<T> terms{from_bits<T>(sign | exponent | (random() & (Traits::kHidden - 1))),
                       from_bits<T>(sign | half)};
  if (speck != 0) terms.push_back(from_bits<T>(1 | (speck > 0 ? sign : sign ^ Traits::kSign)));
  return terms;
}

// Reaches (or just misses) the midpoint beyond the largest finite value.
template <class T>
std::vector<T> edge_terms(int beyond) {
  using Traits = detail::FloatTraits<T>;
  const uint64_t half = static_cast<uint64_t>(kTopBiased<T> - Traits::kDigits)
                        << (Traits::kDigits - 1);
  std::vector<T> terms{from_bits<T>(Traits::kInfinity - 1), from_bits<T>(half)};
  if (beyond < 0) terms.push_back(from_bits<T>(Traits::kSign | 1));
  return terms;
}

template <class T>
std::vector<SumCase<T>> hurtful_cases(std::mt19937_64& random) {
  using Traits = detail::FloatTraits<T>;
  const T largest = from_bits<T>(Traits::kInfinity - 1);
  const T smallest = from_bits<T>(1);
  const T plus_zero = from_bits<T>(0);
  const T minus_zero = from_bits<T>(Traits::kSign);
  const int top = kTopBiased<T>;
  const int count = 1 + static_cast<int>(random() % 40);
  const int middle = top / 2;
  auto outlier = random_terms<T>(random, count, middle - 2, middle);
  outlier.insert(outlier.begin() + random() % outlier.size(), random_finite<T>(random, top, top));
  return {
      {"one term", random_terms<T>(random, 1, 0, top)},
      {"every exponent", random_terms<T>(random, count, 0, top)},
      {"near one", random_terms<T>(random, count, middle - 3, middle)},
      {"subnormals", random_terms<T>(random, count, 0, 0)},
      {"about the smallest normal", random_terms<T>(random, count, 0, 2)},
      {"about the largest", random_terms<T>(random, count, top - 1, top)},
      {"one outlier", outlier},
      {"cancels to nothing", cancelling_terms<T>(random, count, false)},
      {"cancels to one term", cancelling_terms<T>(random, count, true)},
      {"tie", tie_terms<T>(random, 0)},
      {"tie and a speck outward", tie_terms<T>(random, 1)},
      {"tie and a speck inward", tie_terms<T>(random, -1)},
      {"overflows on the way",
       {largest, largest, negated(largest), smallest, negated(largest), largest}},
      {"rounds to infinity", edge_terms<T>(0)},
      {"just stays finite", edge_terms<T>(-1)},
      {"far beyond", {largest, largest, largest, smallest}},
      {"far below", {negated(largest), negated(largest), smallest}},
      {"smallest twice", {smallest, smallest}},
      {"largest, smallest, largest gone", {largest, smallest, negated(largest)}},
      {"all -0", {minus_zero, minus_zero, minus_zero}},
      {"-0 and +0", {minus_zero, plus_zero, minus_zero}},
      {"+0", {plus_zero}},
      {"-0 and a pair", {minus_zero, smallest, negated(smallest)}},
      {"-0 and a term", {minus_zero, negated(smallest)}},
      {"nothing but the identity", {minus_zero}},
  };
}

template <class T>
struct SpecialCase {
  std::string name;
  std::vector<T> terms;
  uint64_t expected;
  uint64_t expected_double;
};

template <class T>
std::vector<SpecialCase<T>> special_cases() {
  using Traits = detail::FloatTraits<T>;
  const T plus = from_bits<T>(Traits::kInfinity);
  const T minus = negated(plus);
  const T quiet = from_bits<T>(Traits::kQuietNan);
  const T signalling = from_bits<T>(Traits::kSign | Traits::kInfinity | 1);
  const T one = from_bits<T>(static_cast<uint64_t>(kTopBiased<T> / 2) << (Traits::kDigits - 1));
  const uint64_t infinity = Traits::kInfinity;
  const uint64_t sign = Traits::kSign;
  const uint64_t nan = Traits::kQuietNan;
  const uint64_t double_infinity = 0x7ff0000000000000u;
  const uint64_t double_sign = uint64_t{1} << 63;
  const uint64_t double_nan = 0x7ff8000000000000u;
  return {
      {"nothing", {}, sign, double_sign},
      {"infinity", {one, plus, one}, infinity, double_infinity},
      {"two infinities", {plus, plus}, infinity, double_infinity},
      {"minus infinity", {minus, one}, sign | infinity, double_sign | double_infinity},
      {"both infinities", {plus, one, minus}, nan, double_nan},
      {"a NaN alone", {signalling}, nan, double_nan},
      {"a NaN first", {quiet, one}, nan, double_nan},
      {"a NaN last", {one, one, signalling}, nan, double_nan},
      {"a NaN and an infinity", {minus, quiet}, nan, double_nan},
      {"a negative NaN", {negated(quiet), plus}, nan, double_nan},
  };
}

}  // namespace sow::test
