// SPDX-License-Identifier: Apache-2.0
// Row folds, in arrays and in register tiles of every width: what is not flagged equals MPFR, and
// little is flagged.
#include "core/exact/exact_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/exact/exact_tile.h"
#include "core/exact_sum_cases.h"

namespace sow::test {
namespace {

using detail::checked_add_row;
using detail::checked_finish_row;
using detail::FloatTraits;
using detail::FoldTile;

constexpr int kColumns = 32;

template <class T>
using Rows = std::vector<std::vector<T>>;  // [row][column]

template <class T>
struct Folded {
  bool all;
  std::vector<T> out;
  std::vector<uint8_t> flagged;
};

template <class T>
Folded<T> unfinished() {
  return {false, std::vector<T>(kColumns, from_bits<T>(0x1234)), std::vector<uint8_t>(kColumns, 0)};
}

template <class T, int Parts>
Folded<T> fold_arrays(const Rows<T>& rows) {
  std::vector<double> high(kColumns, -0.0);
  std::vector<double> low(kColumns, 0.0);
  std::vector<double> lost(kColumns, 0.0);
  auto folded = unfinished<T>();
  if constexpr (Parts == 1) {
    for (const auto& row : rows) checked_add_row(row.data(), high.data(), lost.data(), kColumns);
    folded.all = checked_finish_row<T>(high.data(), lost.data(), kColumns, folded.out.data(),
                                       folded.flagged.data());
  } else {
    for (const auto& row : rows)
      checked_add_row(row.data(), high.data(), low.data(), lost.data(), kColumns);
    folded.all = checked_finish_row<T>(high.data(), low.data(), lost.data(), kColumns,
                                       folded.out.data(), folded.flagged.data());
  }
  return folded;
}

template <class T, int Parts, int VectorBytes>
Folded<T> fold_tile(const Rows<T>& rows) {
  FoldTile<T, VectorBytes, kColumns, Parts> tile;
  for (const auto& row : rows) tile.add(row.data());
  auto folded = unfinished<T>();
  folded.all = tile.finish(folded.out.data(), folded.flagged.data());
  return folded;
}

template <class T, int Parts>
__attribute__((target("avx2"))) Folded<T> fold_avx2(const Rows<T>& rows) {
  FoldTile<T, 32, kColumns, Parts> tile;
  for (const auto& row : rows) tile.add(row.data());
  auto folded = unfinished<T>();
  folded.all = tile.finish(folded.out.data(), folded.flagged.data());
  return folded;
}

template <class T, int Parts>
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))) Folded<T> fold_avx512(
    const Rows<T>& rows) {
  FoldTile<T, 64, kColumns, Parts> tile;
  for (const auto& row : rows) tile.add(row.data());
  auto folded = unfinished<T>();
  folded.all = tile.finish(folded.out.data(), folded.flagged.data());
  return folded;
}

template <class T>
std::vector<T> column_of(const Rows<T>& rows, int column) {
  std::vector<T> terms;
  for (const auto& row : rows) terms.push_back(row[column]);
  return terms;
}

// Returns how many columns were flagged.
template <class T>
int check(const Rows<T>& rows, const Folded<T>& folded, const char* way) {
  int flagged = 0;
  for (int column = 0; column < kColumns; ++column) {
    const auto terms = column_of(rows, column);
    if (folded.flagged[column]) {
      ++flagged;
      EXPECT_EQ(bits_of(folded.out[column]), 0x1234u) << way;
    } else {
      EXPECT_EQ(bits_of(folded.out[column]), mpfr_sum_bits<T>(terms))
          << way << " column " << column;
    }
  }
  EXPECT_EQ(folded.all, flagged == 0) << way;
  return flagged;
}

template <class T, int Parts>
int check_all_ways(const Rows<T>& rows) {
  const int flagged = check(rows, fold_arrays<T, Parts>(rows), "arrays");
  EXPECT_EQ(check(rows, (fold_tile<T, Parts, 16>(rows)), "16 bytes"), flagged);
  EXPECT_EQ(check(rows, (fold_tile<T, Parts, 32>(rows)), "32 bytes"), flagged);
  EXPECT_EQ(check(rows, (fold_tile<T, Parts, 64>(rows)), "64 bytes"), flagged);
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_EQ(check(rows, (fold_avx2<T, Parts>(rows)), "avx2"), flagged);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    EXPECT_EQ(check(rows, (fold_avx512<T, Parts>(rows)), "avx512"), flagged);
  }
  return flagged;
}

template <class T>
Rows<T> random_rows(std::mt19937_64& random, int count, int least_biased, int most_biased) {
  Rows<T> rows;
  for (int i = 0; i < count; ++i)
    rows.push_back(random_terms<T>(random, kColumns, least_biased, most_biased));
  return rows;
}

// Every hurtful case in a column of its own; -0, the identity, fills the shorter ones.
template <class T>
Rows<T> hurtful_rows(std::mt19937_64& random) {
  const auto cases = hurtful_cases<T>(random);
  size_t longest = 0;
  for (const auto& sample : cases) longest = std::max(longest, sample.terms.size());
  Rows<T> rows(longest, std::vector<T>(kColumns, from_bits<T>(FloatTraits<T>::kSign)));
  for (size_t column = 0; column < cases.size(); ++column) {
    for (size_t i = 0; i < cases[column].terms.size(); ++i)
      rows[i][column] = cases[column].terms[i];
  }
  return rows;
}

template <class T, int P>
struct Way {
  using Type = T;
  static constexpr int kParts = P;
};
template <class Kind>
class RowSums : public testing::Test {};
using Ways = testing::Types<Way<float16, 1>, Way<bfloat16, 1>, Way<float, 1>, Way<float16, 2>,
                            Way<bfloat16, 2>, Way<float, 2>, Way<double, 2>>;
TYPED_TEST_SUITE(RowSums, Ways);

TYPED_TEST(RowSums, WhatIsWrittenIsRight) {
  using T = typename TypeParam::Type;
  std::mt19937_64 random(1);
  for (int round = 0; round < 100 && !this->HasFailure(); ++round) {
    check_all_ways<T, TypeParam::kParts>(hurtful_rows<T>(random));
    check_all_ways<T, TypeParam::kParts>(random_rows<T>(random, 5, 0, kTopBiased<T>));
    check_all_ways<T, TypeParam::kParts>(random_rows<T>(random, 3, 0, 2));
  }
}

TYPED_TEST(RowSums, OrdinaryRowsAreNotFlagged) {
  using T = typename TypeParam::Type;
  std::mt19937_64 random(2);
  const int middle = kTopBiased<T> / 2;
  for (int round = 0; round < 20 && !this->HasFailure(); ++round) {
    const auto rows = random_rows<T>(random, 12, middle - 10, middle);
    EXPECT_EQ((check_all_ways<T, TypeParam::kParts>(rows)), 0);
  }
}

TYPED_TEST(RowSums, SpecialTermsAreFlaggedAlone) {
  using T = typename TypeParam::Type;
  std::mt19937_64 random(3);
  const int middle = kTopBiased<T> / 2;
  auto rows = random_rows<T>(random, 6, middle - 10, middle);
  int specials = 0;
  for (const auto& sample : special_cases<T>()) {
    if (sample.terms.empty()) continue;
    for (size_t i = 0; i < sample.terms.size(); ++i) rows[i][3 * specials] = sample.terms[i];
    ++specials;
  }
  EXPECT_EQ((check_all_ways<T, TypeParam::kParts>(rows)), specials);
}

// The quick way from float64 to a half, against the one of the public type; it is used for certain
// sums only.
template <class T>
void compare_narrowing() {
  std::mt19937_64 random(4);
  for (int i = 0; i < 300000; ++i) {
    const double wide = random_finite<double>(random, 1023 - 140, 1023 + 130);
    const T half = random_finite<T>(random, 0, kTopBiased<T>);
    const double near =
        static_cast<double>(half) * (1 + std::ldexp(static_cast<int>(random() % 5) - 2, -40));
    const double tie = static_cast<double>(half) *
                       (1 + std::ldexp(static_cast<int>(random() % 3) - 1, -(8 + i % 5)));
    for (const double value : {wide, near, tie}) {
      T quick;
      detail::narrow(value, quick);
      ASSERT_EQ(quick.bits, T(value).bits) << value;
    }
  }
}
TEST(Narrowing, EqualsThePublicTypes) {
  compare_narrowing<float16>();
  compare_narrowing<bfloat16>();
}

TEST(Widening, EqualsThePublicTypes) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = float16::from_bits(static_cast<uint16_t>(bits));
    const auto brain = bfloat16::from_bits(static_cast<uint16_t>(bits));
    const double wide_half = detail::widen(half);
    const double wide_brain = detail::widen(brain);
    ASSERT_EQ(std::isnan(wide_half), (bits & 0x7fff) > 0x7c00) << bits;
    ASSERT_EQ(std::isnan(wide_brain), (bits & 0x7fff) > 0x7f80) << bits;
    if (!std::isnan(wide_half)) {
      ASSERT_EQ(bits_of(wide_half), bits_of(static_cast<double>(half))) << bits;
    }
    if (!std::isnan(wide_brain)) {
      ASSERT_EQ(bits_of(wide_brain), bits_of(static_cast<double>(brain))) << bits;
    }
  }
}

}  // namespace
}  // namespace sow::test
