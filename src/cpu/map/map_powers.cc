// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms in vectors of every instruction level: the steps of core/power.h,
// lane by lane, which therefore have its bits. What is no plain number there, core/power.h does
// itself.
#if !defined(SOW_LEVEL)

#include "cpu/map/map_powers.h"

#include <algorithm>
#include <limits>

#include "core/isa.h"
#include "core/power.h"

#define SOW_KERNELS "cpu/map/map_powers.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {

void exponentials(const double* x, int64_t count, double* out) {
  SOW_BY_LEVEL(exponentials_of)(x, count, out);
}
void logarithms(const double* x, int64_t count, double* out) {
  SOW_BY_LEVEL(logarithms_of)(x, count, out);
}

}  // namespace sow::detail

#else

namespace sow::detail::SOW_LEVEL {

namespace {

struct Pairs {
  F64 high, low;
};

SOW_VECTOR Pairs renormalized(F64 high, F64 low) {
  const F64 sum = high + low;
  return {sum, low - (sum - high)};
}

SOW_VECTOR F64 sum_and_error(F64 a, F64 b, F64& error) {
  const F64 sum = a + b, part = sum - a;
  error = (a - (sum - part)) + (b - part);
  return sum;
}

SOW_VECTOR Pairs exact_product(F64 a, F64 b) {
#if SOW_VECTOR_BYTES == 64  // the error has a float64 of its own, whichever way it is found
  const F64 fused = a * b;
  return {fused, (F64)_mm512_fmsub_pd((__m512d)a, (__m512d)b, (__m512d)fused)};
#else
  constexpr double kSplit = 134217729;  // 2^27 + 1
  const F64 product = a * b;
  const F64 ta = kSplit * a, a_high = ta - (ta - a), a_low = a - a_high;
  const F64 tb = kSplit * b, b_high = tb - (tb - b), b_low = b - b_high;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
#endif
}

SOW_VECTOR Pairs plus(Pairs a, Pairs b) {
  F64 error, low_error;
  const F64 sum = sum_and_error(a.high, b.high, error);
  const F64 low = sum_and_error(a.low, b.low, low_error);
  const Pairs first = renormalized(sum, error + low);
  return renormalized(first.high, first.low + low_error);
}
SOW_VECTOR Pairs plus(Pairs a, double high, double low) {
  return plus(a, {all_of<F64>(high), all_of<F64>(low)});
}

SOW_VECTOR Pairs times(Pairs a, Pairs b) {
  const Pairs product = exact_product(a.high, b.high);
  return renormalized(product.high, product.low + (a.high * b.low + a.low * b.high));
}

SOW_VECTOR Pairs over(Pairs a, Pairs b) {
  const F64 first = a.high / b.high;
  const Pairs taken = times({first, all_of<F64>(0.0)}, b);
  const Pairs rest = plus(a, {-taken.high, -taken.low});
  return renormalized(first, rest.high / b.high);
}

SOW_VECTOR Pairs ln2_times(F64 n) {
  const Pairs most = renormalized(n * kLn2High, n * kLn2Middle);
  return renormalized(most.high, most.low + n * kLn2Low);
}

SOW_VECTOR F64 chosen(I64 mask, F64 yes, F64 no) {
  return (F64)(((I64)yes & mask) | ((I64)no & ~mask));
}

// Of numbers below 2^51 in magnitude: the last digits of a sum are the whole number.
constexpr double kWhole = 0x1.8p52;
SOW_VECTOR F64 floor_of(F64 x) {
  const F64 nearest = (x + kWhole) - kWhole;
  return nearest - chosen((I64)(nearest > x), all_of<F64>(1.0), all_of<F64>(0.0));
}

// Where the result is a normal number.
SOW_VECTOR I64 has_plain_power(F64 x) { return (I64)(absolute(x) < 700.0); }

// e to the power of value, over 2^n; w is an eighth of what is left of value without n ln 2.
SOW_VECTOR F64 power_by_pairs(Pairs w) {
  const F64 t = w.high, zero = all_of<F64>(0.0);
  const F64 tail =
      1.0 / 720 +
      t * (1.0 / 5040 +
           t * (1.0 / 40320 + t * (1.0 / 362880 + t * (1.0 / 3628800 + t * (1.0 / 39916800)))));
  Pairs series = plus(times(w, {tail, zero}), 0x1.1111111111111p-7, 0x1.1111111111111p-63);
  series = plus(times(w, series), 0x1.5555555555555p-5, 0x1.5555555555555p-59);
  series = plus(times(w, series), 0x1.5555555555555p-3, 0x1.5555555555555p-57);
  series = plus(times(w, series), 0.5, 0);
  series = plus(times(w, series), 1, 0);
  Pairs power = plus(times(w, series), 1, 0);
  for (int i = 0; i < 3; ++i) power = times(power, power);
  return power.high + power.low;
}

// The same with an error below 2^-63: only 1, w and w^2 / 2 are pairs. Where that leaves one
// float64 to round to, it is the one that power_by_pairs rounds to as well.
SOW_VECTOR F64 quick_power(Pairs w, I64& sure) {
  const F64 t = w.high;
  const F64 tail =
      t * t * t *
      (1.0 / 6 +
       t * (1.0 / 24 + t * (1.0 / 120 +
                            t * (1.0 / 720 + t * (1.0 / 5040 + t * (1.0 / 40320 +
                                                                    t * (1.0 / 362880 +
                                                                         t * (1.0 / 3628800))))))));
  const Pairs square = times(w, w);
  const F64 one = all_of<F64>(1.0), first = one + t, first_error = t - (first - one);
  const F64 half = square.high * 0.5, second = first + half, second_error = half - (second - first);
  const F64 low = ((first_error + second_error) + (w.low + square.low * 0.5)) + tail;
  Pairs power = renormalized(second, low);
  for (int i = 0; i < 3; ++i) power = times(power, power);
  const F64 bound = power.high * 0x1p-62;
  const F64 most = power.high + (power.low + bound);
  sure = (I64)(most == power.high + (power.low - bound));
  return most;
}

SOW_VECTOR F64 power_of(F64 x) {
  const F64 zero = all_of<F64>(0.0);
  const F64 value = chosen(has_plain_power(x), x, zero);
  const F64 n = floor_of(value * 0x1.71547652b82fep+0 + 0.5);
  const Pairs multiple = ln2_times(n);
  const Pairs rest = plus({value, zero}, {-multiple.high, -multiple.low});
  const Pairs w = {rest.high * 0.125, rest.low * 0.125};
  I64 sure;
  F64 power = quick_power(w, sure);
  if (__builtin_expect(bits_of(~sure) != 0, 0)) power = power_by_pairs(w);
  const I64 exponent = (I64)(n + kWhole) - (I64)all_of<F64>(kWhole);
  return power * (F64)((exponent + 1023) << 52);
}

SOW_VECTOR I64 has_plain_log(F64 x) {
  return (I64)(x >= 0x1p-1022) & (I64)(x < __builtin_huge_val());
}

SOW_VECTOR F64 log_of(F64 x) {
  const F64 zero = all_of<F64>(0.0), one = all_of<F64>(1.0);
  const U64 bits = (U64)chosen(has_plain_log(x), x, one);
  F64 m = (F64)((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  const I64 above = (I64)(m > 1.4142135623730951);
  m = chosen(above, m * 0.5, m);
  const F64 exponent =
      ((F64)((bits >> 52) | 0x4330000000000000ull) - 0x1p52 - 1023.0) + chosen(above, one, zero);
  F64 error;
  const F64 divisor = sum_and_error(m, one, error);
  const Pairs s = over({m - 1.0, zero}, {divisor, error}), z = times(s, s);
  const F64 t = z.high;
  const F64 tail =
      1.0 / 11 +
      t * (1.0 / 13 +
           t * (1.0 / 15 +
                t * (1.0 / 17 +
                     t * (1.0 / 19 + t * (1.0 / 21 + t * (1.0 / 23 + t * (1.0 / 25)))))));
  Pairs series = plus(times(z, {tail, zero}), 0x1.c71c71c71c71cp-4, 0x1.c71c71c71c71cp-58);
  series = plus(times(z, series), 0x1.2492492492492p-3, 0x1.2492492492492p-57);
  series = plus(times(z, series), 0x1.999999999999ap-3, -0x1.999999999999ap-57);
  series = plus(times(z, series), 0x1.5555555555555p-2, 0x1.5555555555555p-56);
  series = plus(times(z, series), 1, 0);
  const Pairs fraction = times({2.0 * s.high, 2.0 * s.low}, series);
  const Pairs all = plus(ln2_times(exponent), fraction);
  return chosen((I64)(exponent == 0.0), fraction.high, all.high);
}

struct Exponential {
  SOW_VECTOR static F64 of(F64 x) { return power_of(x); }
  SOW_VECTOR static I64 is_plain(F64 x) { return has_plain_power(x); }
  static double one(double x) { return real_exponential(x); }
};
struct Logarithm {
  SOW_VECTOR static F64 of(F64 x) { return log_of(x); }
  SOW_VECTOR static I64 is_plain(F64 x) { return has_plain_log(x); }
  static double one(double x) { return real_logarithm(x); }
};

// Vector by vector; lanes that are not plain go one by one.
template <class Function>
SOW_VECTOR void each_of(const double* x, int64_t count, double* out) {
  for (int64_t i = 0; i < count; i += kLanes64) {
    const auto some = static_cast<int>(std::min<int64_t>(kLanes64, count - i));
    double lanes[kLanes64] = {};
    std::memcpy(lanes, x + i, static_cast<size_t>(some) * sizeof(double));
    const F64 values = load<F64>(lanes);
    double results[kLanes64];
    store(results, Function::of(values));
    const uint32_t here = (1u << some) - 1;
    for (uint32_t odd = bits_of(~Function::is_plain(values)) & here; odd != 0; odd &= odd - 1) {
      const int lane = __builtin_ctz(odd);
      const double result = Function::one(lanes[lane]);
      results[lane] = result == result ? result : std::numeric_limits<double>::quiet_NaN();
    }
    std::memcpy(out + i, results, static_cast<size_t>(some) * sizeof(double));
  }
}

}  // namespace

void exponentials_of(const double* x, int64_t count, double* out) {
  each_of<Exponential>(x, count, out);
}
void logarithms_of(const double* x, int64_t count, double* out) {
  each_of<Logarithm>(x, count, out);
}

}  // namespace sow::detail::SOW_LEVEL

#endif
