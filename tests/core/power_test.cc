// SPDX-License-Identifier: Apache-2.0
// Powers are the nearest float64 to the true ones, and IEEE 754's at the edges.
#include "core/power.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cmath>
#include <limits>
#include <random>

namespace sow::detail {
namespace {

double nearest_power(double x, double y) {
  mpfr_t a, b;
  mpfr_init2(a, 53);
  mpfr_init2(b, 53);
  mpfr_set_d(a, x, MPFR_RNDN);
  mpfr_set_d(b, y, MPFR_RNDN);
  const mpfr_exp_t least = mpfr_get_emin();
  mpfr_set_emin(-1073);
  mpfr_set_emax(1024);
  const int inexact = mpfr_pow(a, a, b, MPFR_RNDN);
  mpfr_subnormalize(a, inexact, MPFR_RNDN);
  const double result = mpfr_get_d(a, MPFR_RNDN);
  mpfr_set_emin(least);
  mpfr_clear(a);
  mpfr_clear(b);
  return result;
}

TEST(Power, IsTheNearest) {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 60000; ++i) {
    const double reach = i % 3 == 0 ? 1000 : i % 3 == 1 ? 10 : 0.01;
    const double x = std::exp2(reach * unit(engine));
    const double room = 1070 / std::max(std::abs(std::log2(x)), 1e-3);
    const double y = i % 5 == 0 ? 3 * unit(engine) : std::min(room, 1e6) * unit(engine);
    const double expected = nearest_power(x, y);
    ASSERT_EQ(real_power(x, y), expected) << std::hexfloat << x << " to the power of " << y;
  }
}

TEST(Power, HandlesSubnormalsAndTheRangesEnds) {
  const double least = std::numeric_limits<double>::denorm_min();
  for (const double x :
       {least, 5 * least, 0x1.fffffffffffffp-1023, 0x1p-1022, 0x1.fffffffffffffp1023, 3.0}) {
    for (const double y :
         {0.5, -0.5, 1.5, 0.99, 1.01, -0.99, 1.0 / 3, 65.0, -70.5, 646.0, -677.5, 1e-300, 1e300}) {
      EXPECT_EQ(real_power(x, y), nearest_power(x, y))
          << std::hexfloat << x << " to the power of " << y;
    }
  }
}

TEST(Power, AgreesWithTheStandardAtTheEdges) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double edges[] = {0.0, -0.0, 1,    -1,  0.5,  -0.5,   2,        -2,        3,
                          -3,  2.5,  -2.5, 101, -101, 0x1p60, infinity, -infinity, nan};
  for (const double x : edges) {
    for (const double y : edges) {
      const double expected = std::pow(x, y), found = real_power(x, y);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(found)) << x << " to the power of " << y;
      else
        EXPECT_TRUE(expected == found && std::signbit(expected) == std::signbit(found))
            << x << " to the power of " << y << ": " << found;
    }
  }
}

}  // namespace
}  // namespace sow::detail
