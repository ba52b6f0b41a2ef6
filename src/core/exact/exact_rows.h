// SPDX-License-Identifier: Apache-2.0
// Exact sums of rows on the CPU: checked sums of many columns at once, in arrays or in registers.
// Everything here is inlined into functions that carry a target attribute, so it is plain loops and
// vectors without intrinsics.
#pragma once

#include <cstdint>

#include "core/exact/exact_checked.h"

namespace sow::detail {

#define SOW_INLINE __attribute__((always_inline)) inline

// A finite float64 to float32 by round-to-odd, without branches.
SOW_INLINE uint32_t odd_float_bits(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t bits = bit_cast<uint32_t>(nearest);
  const uint32_t odd =
      absolute(back) < absolute(value) ? bits | 1 : (bits - 1) | 1;  // odd patterns stay
  return back == value ? bits : odd;
}

// A finite float64, a sum of T's values, rounded once to T; vectorises.
SOW_INLINE void narrow(double value, double& out) { out = value; }
SOW_INLINE void narrow(double value, float& out) { out = static_cast<float>(value); }
SOW_INLINE void narrow(double value, bfloat16& out) {
  const uint32_t bits = odd_float_bits(value);
  out.bits = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
SOW_INLINE void narrow(double value, float16& out) {
  const uint32_t bits = odd_float_bits(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
  // Below 2^-14 a sum of float16 is a whole number of smallest subnormals.
  const float units = bit_cast<float>(magnitude) * 0x1p24f + 0x1p23f;
  const uint32_t small = bit_cast<uint32_t>(units) - 0x4b000000u;
  const uint32_t finite = magnitude < 0x38800000u ? small : normal;
  const uint32_t rounded = magnitude >= 0x477ff000u ? 0x7c00u : finite;
  out.bits = static_cast<uint16_t>(rounded | ((bits >> 16) & 0x8000u));
}

// Without it g++ 12 jams two rows into one loop, which it then fails to vectorise: 2.5 times slower
// (rows of 64 floats in the cache, 2 cores of a Zen 4 class EPYC, 2026-11-15).
SOW_INLINE void keep_rows_apart() { asm volatile("" ::: "memory"); }

// One row into the columns' sums; high starts at -0, the others at 0.
template <class T>
SOW_INLINE void checked_add_row(const T* row, double* high, double* lost, int64_t n) {
  keep_rows_apart();
  for (int64_t i = 0; i < n; ++i) {
    double error;
    high[i] = two_sum(high[i], widen(row[i]), error);
    lost[i] += absolute(error);
  }
}
template <class T>
SOW_INLINE void checked_add_row(const T* row, double* high, double* low, double* lost, int64_t n) {
  keep_rows_apart();
  for (int64_t i = 0; i < n; ++i) {
    double error;
    double dropped;
    high[i] = two_sum(high[i], widen(row[i]), error);
    low[i] = two_sum(low[i], error, dropped);
    lost[i] += absolute(dropped);
  }
}

// Finishing a row writes the columns whose sum is certain and flags the others, which keep what
// `out` held (flagged[i] becomes 1 or 0). Target is T, or double for a mean. True when every column
// is certain; `flagged` may then be left as it was.
template <class T, class Target>
SOW_INLINE bool checked_finish_row(const double* high, const double* lost, int64_t n, Target* out,
                                   uint8_t* flagged) {
  using Bits = typename FloatTraits<Target>::Bits;
  uint64_t inconclusive = 0;
  for (int64_t i = 0; i < n; ++i) inconclusive |= bit_cast<uint64_t>(lost[i]);
  if (inconclusive == 0) {
    for (int64_t i = 0; i < n; ++i) narrow(high[i], out[i]);
    return true;
  }
  uint8_t any = 0;
  for (int64_t i = 0; i < n; ++i) {
    // Twice the bound, which was itself rounded, and more than the rounding of the two ends.
    const double margin = lost[i] == 0 ? 0.0 : 2 * lost[i] + absolute(high[i]) * 0x1p-51;
    Target least;
    Target most;
    narrow(high[i] - margin, least);
    narrow(high[i] + margin, most);
    const bool certain = (lost[i] <= 0x1p1000) & (bit_cast<Bits>(least) == bit_cast<Bits>(most));
    const Bits kept = bit_cast<Bits>(out[i]);
    out[i] = bit_cast<Target>(static_cast<Bits>(certain ? bit_cast<Bits>(least) : kept));
    flagged[i] = !certain;
    any |= !certain;
  }
  return any == 0;
}

// CheckedSum::resolve of many sums in two parts to float64, without branches: with a margin that is
// a little wider, so that a few more may be inconclusive.
SOW_INLINE bool resolve_row(const double* high, const double* low, const double* lost, int64_t n,
                            double* out, uint8_t* flagged) {
  uint8_t any = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double twice = 2 * lost[i];
    const double margin = lost[i] == 0 ? 0.0 : twice + (absolute(low[i]) + twice) * 0x1p-50;
    const double least = high[i] + (low[i] - margin), most = high[i] + (low[i] + margin);
    const double sum = low[i] == 0 && margin == 0 ? high[i] : least;  // not -0 + +0
    const int certain = int{absolute(high[i] + low[i]) <= 0x1.fffffffffffffp1023} &
                        (lost[i] <= 0x1p1000) &
                        (bit_cast<uint64_t>(least) == bit_cast<uint64_t>(most));
    const auto kept = bit_cast<uint64_t>(out[i]);
    out[i] = bit_cast<double>(certain ? bit_cast<uint64_t>(sum) : kept);
    flagged[i] = !certain;
    any |= !certain;
  }
  return any == 0;
}

// The same for two parts.
template <class T, class Target>
SOW_INLINE bool checked_finish_row(const double* high, const double* low, const double* lost,
                                   int64_t n, Target* out, uint8_t* flagged) {
  if constexpr (sizeof(T) == sizeof(double)) {
    uint64_t inconclusive = 0;
    for (int64_t i = 0; i < n; ++i) {
      const bool overflow = !(absolute(high[i] + low[i]) <= 0x1.fffffffffffffp1023);
      inconclusive |= bit_cast<uint64_t>(lost[i]) | static_cast<uint64_t>(overflow);
    }
    if (inconclusive == 0) {
      for (int64_t i = 0; i < n; ++i) out[i] = low[i] == 0 ? high[i] : high[i] + low[i];
      return true;
    }
  }
  if constexpr (sizeof(Target) == sizeof(double)) {
    return resolve_row(high, low, lost, n, out, flagged);
  }
  bool all = true;
  for (int64_t i = 0; i < n; ++i) {
    const CheckedSum<T, 2> sum(high[i], low[i], lost[i]);
    Target rounded{};
    const bool certain = sum.template resolve<Target>(rounded);
    if (certain) out[i] = rounded;
    flagged[i] = !certain;
    all = all && certain;
  }
  return all;
}

}  // namespace sow::detail
