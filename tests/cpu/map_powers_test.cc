// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms in vectors have the bits of the steps that define them.
#include "cpu/map/map_powers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/power.h"

namespace sow::detail {
namespace {

std::vector<double> numbers() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> out = {0.0,          -0.0,   1.0,    -1.0,      kInfinity,   -kInfinity,
                             std::nan(""), 700.0,  -700.0, 709.8,     -745.2,      -746.0,
                             760.0,        -760.0, 5e-324, 0x1p-1022, 0x1.fp-1023, std::sqrt(2.0),
                             1.7e308};
  std::mt19937_64 random(7);
  for (int i = 0; i < 60'003; ++i) {
    const uint64_t bits = random();
    const double part = static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63;
    const double of[] = {bit_cast<double>(bits), 40 * part, 750 * part, 1 + part * 0x1p-20};
    out.push_back(of[i % 4]);
  }
  return out;
}

void expect_same(double found, double expected, double x) {
  const bool both_nan = found != found && expected != expected;
  EXPECT_TRUE(both_nan || bit_cast<uint64_t>(found) == bit_cast<uint64_t>(expected))
      << x << ": " << found << " instead of " << expected;
}

TEST(MapPowers, HaveTheBitsOfTheSteps) {
  const std::vector<double> x = numbers();
  std::vector<double> powers(x.size()), logs = x;
  exponentials(x.data(), static_cast<int64_t>(x.size()), powers.data());
  logarithms(logs.data(), static_cast<int64_t>(logs.size()), logs.data());  // in place
  for (size_t i = 0; i < x.size(); ++i) {
    expect_same(powers[i], real_exponential(x[i]), x[i]);
    expect_same(logs[i], real_logarithm(x[i]), x[i]);
  }
}

}  // namespace
}  // namespace sow::detail
