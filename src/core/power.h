// SPDX-License-Identifier: Apache-2.0
// x to the power of y in float64, with one set of bits everywhere: mathematical libraries differ in
// the last bit from machine to machine and between CPU and GPU. The logarithm and the exponential
// are pairs of float64 with some forty bits to spare, so that the result is all but always the
// nearest float64. Needs the default floating-point state (nearest, no flushing) and no
// contraction.
#pragma once

#include <cmath>

#include "core/exact/exact_checked.h"

namespace sow::detail {

// A number as an unevaluated sum, the first part its nearest float64.
struct DoublePair {
  double high, low;
};

SOW_HD inline DoublePair renormalized(double high, double low) {
  const double sum = high + low;
  return {sum, low - (sum - high)};
}

SOW_HD inline DoublePair exact_product(double a, double b) {
  constexpr double kSplit = 134217729;  // 2^27 + 1
  const double product = a * b;
  const double ta = kSplit * a, a_high = ta - (ta - a), a_low = a - a_high;
  const double tb = kSplit * b, b_high = tb - (tb - b), b_low = b - b_high;
  const double error =
      ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  return {product, error};
}

SOW_HD inline DoublePair plus(DoublePair a, DoublePair b) {
  double error, low_error;
  const double sum = two_sum(a.high, b.high, error);
  const double low = two_sum(a.low, b.low, low_error);
  const DoublePair first = renormalized(sum, error + low);
  return renormalized(first.high, first.low + low_error);
}

SOW_HD inline DoublePair times(DoublePair a, DoublePair b) {
  const DoublePair product = exact_product(a.high, b.high);
  return renormalized(product.high, product.low + (a.high * b.low + a.low * b.high));
}

SOW_HD inline DoublePair over(DoublePair a, DoublePair b) {
  const double first = a.high / b.high;
  const DoublePair taken = times({first, 0}, b);
  const DoublePair rest = plus(a, {-taken.high, -taken.low});
  return renormalized(first, rest.high / b.high);
}

// 2^exponent, for normal results.
SOW_HD inline double power_of_two(int exponent) {
  return bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// ln 2 in three parts; a product of one of the first two with a number of 12 bits is exact.
inline constexpr double kLn2High = 0x1.62e42fefa2000p-1, kLn2Middle = 0x1.9ef35793c6000p-41,
                        kLn2Low = 0x1.673007e5ed5e8p-81;

SOW_HD inline DoublePair multiple_of_ln2(double n) {
  const DoublePair most = renormalized(n * kLn2High, n * kLn2Middle);
  return renormalized(most.high, most.low + n * kLn2Low);
}

// The natural logarithm of a positive finite x: 2 atanh((m - 1) / (m + 1)) + e ln 2, for x = m 2^e
// with m around one.
SOW_HD inline DoublePair logarithm(double x) {
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  uint64_t bits = bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m = bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  double error;
  const double above = two_sum(m, 1, error);
  const DoublePair s = over({m - 1, 0}, {above, error}), z = times(s, s);
  const double t = z.high;
  const double tail =
      1.0 / 11 +
      t * (1.0 / 13 +
           t * (1.0 / 15 +
                t * (1.0 / 17 +
                     t * (1.0 / 19 + t * (1.0 / 21 + t * (1.0 / 23 + t * (1.0 / 25)))))));
  DoublePair series = plus(times(z, {tail, 0}), {0x1.c71c71c71c71cp-4, 0x1.c71c71c71c71cp-58});
  series = plus(times(z, series), {0x1.2492492492492p-3, 0x1.2492492492492p-57});
  series = plus(times(z, series), {0x1.999999999999ap-3, -0x1.999999999999ap-57});
  series = plus(times(z, series), {0x1.5555555555555p-2, 0x1.5555555555555p-56});
  series = plus(times(z, series), {1, 0});
  const DoublePair fraction = times({2 * s.high, 2 * s.low}, series);
  return exponent == 0 ? fraction : plus(multiple_of_ln2(exponent), fraction);
}

// (high + low) 2^exponent, rounded once.
SOW_HD inline double scaled(DoublePair value, int exponent) {
  if (exponent <= -1022) {
    const double by = power_of_two(exponent + 1022);
    const double high = value.high * by, low = value.low * by;
    if (high < 1) {  // subnormal: its last digit is that of a number between 1 and 2
      double error;
      const double sum = two_sum(1, high, error);
      return (sum + (error + low) - 1) * 0x1p-1022;
    }
    return (high + low) * 0x1p-1022;
  }
  const int half = exponent / 2;
  return (value.high + value.low) * power_of_two(half) * power_of_two(exponent - half);
}

// e to the power of high + low.
SOW_HD inline double exponential(DoublePair value) {
  const double n = floor(value.high * 0x1.71547652b82fep+0 + 0.5);
  const DoublePair multiple = multiple_of_ln2(n);
  const DoublePair rest = plus(value, {-multiple.high, -multiple.low});
  const DoublePair w = {rest.high * 0.125, rest.low * 0.125};
  const double t = w.high;
  const double tail =
      1.0 / 720 +
      t * (1.0 / 5040 +
           t * (1.0 / 40320 + t * (1.0 / 362880 + t * (1.0 / 3628800 + t * (1.0 / 39916800)))));
  DoublePair series = plus(times(w, {tail, 0}), {0x1.1111111111111p-7, 0x1.1111111111111p-63});
  series = plus(times(w, series), {0x1.5555555555555p-5, 0x1.5555555555555p-59});
  series = plus(times(w, series), {0x1.5555555555555p-3, 0x1.5555555555555p-57});
  series = plus(times(w, series), {0.5, 0});
  series = plus(times(w, series), {1, 0});
  DoublePair power = plus(times(w, series), {1, 0});
  for (int i = 0; i < 3; ++i) power = times(power, power);
  return scaled(power, static_cast<int>(n));
}

// As IEEE 754's pow; which NaN it gives is the caller's affair.
SOW_HD inline double real_power(double x, double y) {
  constexpr double kInfinity = __builtin_huge_val();
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return x + y;
  const double magnitude = absolute(x), steps = absolute(y);
  const bool whole = steps >= 0x1p53 || floor(steps) == steps;
  const bool odd = whole && steps < 0x1p53 && floor(steps * 0.5) * 2 != steps;
  const bool negative = bit_cast<uint64_t>(x) >> 63 != 0;
  const double sign = negative && odd ? -1 : 1;
  if (magnitude == 0) return y > 0 ? sign * 0.0 : sign * kInfinity;
  if (magnitude == kInfinity) return y > 0 ? sign * kInfinity : sign * 0.0;
  if (steps == kInfinity) return magnitude == 1 ? 1 : (magnitude > 1) == (y > 0) ? kInfinity : 0.0;
  if (negative && !whole) return (x - x) / (x - x);
  if (magnitude == 1) return sign;
  if (y == 0.5) return ::sqrt(magnitude);  // not of a tensor
  const DoublePair log = logarithm(magnitude);
  const double rough = y * log.high;
  if (!(absolute(rough) < 760)) return rough > 0 ? sign * kInfinity : sign * 0.0;
  const DoublePair exact = exact_product(y, log.high);
  return sign * exponential(renormalized(exact.high, exact.low + y * log.low));
}

// e to the power of x.
SOW_HD inline double real_exponential(double x) {
  if (x != x) return x;
  if (!(absolute(x) < 760)) return x > 0 ? __builtin_huge_val() : 0.0;
  return exponential({x, 0});
}

// The natural logarithm: of zero minus infinity, of what is below it NaN.
SOW_HD inline double real_logarithm(double x) {
  if (x != x) return x;
  if (x == 0) return -__builtin_huge_val();
  if (x < 0) return (x - x) / (x - x);
  return x == __builtin_huge_val() ? x : logarithm(x).high;
}

}  // namespace sow::detail
