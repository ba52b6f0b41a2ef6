// SPDX-License-Identifier: Apache-2.0
// Tests of numbers written as digits: placement of the point, the shortest digits, other locales.
#include "core/digits.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cmath>
#include <limits>

namespace sow::detail {
namespace {

TEST(Digits, TheShortestThatReadsBack) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(-0.0), "-0");
  EXPECT_EQ(shortest(3), "3");
  EXPECT_EQ(shortest(-2.5), "-2.5");
  EXPECT_EQ(shortest(100000), "100000");
  EXPECT_EQ(shortest(1e15), "1000000000000000");
  EXPECT_EQ(shortest(1e16), "1e+16");
  EXPECT_EQ(shortest(0.0001), "0.0001");
  EXPECT_EQ(shortest(0.00001), "1e-05");
  EXPECT_EQ(shortest(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(shortest(std::numeric_limits<double>::denorm_min()), "5e-324");
  EXPECT_EQ(shortest(-INFINITY), "-inf");
  EXPECT_EQ(shortest(NAN), "nan");
}

TEST(Digits, AsManyAsAskedFor) {
  EXPECT_EQ(scientific(15e9, 2), "1.50e+10");
  EXPECT_EQ(scientific(2, 0), "2e+00");
  EXPECT_EQ(fixed(2.25, 1), "2.2");  // a tie goes to the even digit
  EXPECT_EQ(fixed(-0.5, 3), "-0.500");
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(fixed(-largest, 17).size(), 1 + 309 + 1 + 17u);
  EXPECT_EQ(parse(fixed(largest, 0)), largest);
}

TEST(Digits, ThePointIsPlaced) {
  EXPECT_EQ(without_exponent("1.25e+01", ".0"), "12.5");
  EXPECT_EQ(without_exponent("1.25e+02", ".0"), "125.0");
  EXPECT_EQ(without_exponent("-2e+03", ""), "-2000");
  EXPECT_EQ(without_exponent("-1.5e-03", ".0"), "-0.0015");
}

TEST(Digits, NoLocaleChangesThem) {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", ""}) {  // as far as they are installed
    std::setlocale(LC_NUMERIC, name);
    EXPECT_EQ(shortest(2.5), "2.5");
    EXPECT_EQ(parse("2.50e+00"), 2.5);
  }
  std::setlocale(LC_NUMERIC, before.c_str());
}

}  // namespace
}  // namespace sow::detail
