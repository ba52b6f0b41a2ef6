// SPDX-License-Identifier: Apache-2.0
// The fast sums: a few float64 that hold a sum exactly, or nearly so with a proven bound on what
// was lost. A result is given only when the bound leaves one correctly rounded answer; otherwise a
// wider sum must repair. Needs the default floating-point state (nearest, no flushing), no
// contraction, fewer than 2^50 terms.
#pragma once

#include <cstdint>

#include "core/exact/exact_long.h"

namespace sow::detail {

SOW_HD inline double absolute(double value) {
  return bit_cast<double>(bit_cast<uint64_t>(value) & ~FloatTraits<double>::kSign);
}

// sum + error == a + b, exactly; the error is NaN when anything overflows or is not finite.
SOW_HD inline double two_sum(double a, double b, double& error) {
  const double sum = a + b;
  const double b_part = sum - a;
  error = (a - (sum - b_part)) + (b - b_part);
  return sum;
}

// Whether sum == a + b, which it was made of, exactly: one of the differences is exact, and tells.
SOW_HD inline bool is_exact_sum(double a, double b, double sum) {
  return (sum - a == b) & (sum - b == a);
}

// Exact, and quicker than the conversions of half.h because it may rely on the floating-point
// state.
SOW_HD inline double widen(double value) { return value; }
SOW_HD inline double widen(float value) { return value; }
SOW_HD inline double widen(bfloat16 value) {
  return bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
SOW_HD inline double widen(float16 value) {
  constexpr double kRebias =
      0x1p1008;  // between the biases of the two formats; subnormals come out right
  const uint64_t magnitude = static_cast<uint64_t>(value.bits & 0x7fffu) << 42;
  const double finite = bit_cast<double>(magnitude) * kRebias;
  const uint64_t infinite = magnitude | FloatTraits<double>::kInfinity;
  const uint64_t bits = (value.bits & 0x7c00u) == 0x7c00u ? infinite : bit_cast<uint64_t>(finite);
  return bit_cast<double>(bits | (static_cast<uint64_t>(value.bits & 0x8000u) << 48));
}

// The neighbours of a finite float64, towards the infinities.
SOW_HD inline double step_up(double value) {
  if (value == 0) return bit_cast<double>(uint64_t{1});
  const uint64_t bits = bit_cast<uint64_t>(value);
  return bit_cast<double>(value > 0 ? bits + 1 : bits - 1);
}
SOW_HD inline double step_down(double value) { return -step_up(-value); }

// high + low rounded once to T. Narrow types go by round-to-odd: a float64 whose last bit remembers
// that something followed, two digits longer than T at least, rounds to T as the exact value does.
template <class T>
SOW_HD inline T round_pair(double high, double low) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return low == 0 ? high : high + low;  // not -0 + +0
  } else {
    if (low == 0) return static_cast<T>(high);
    double error;
    const double sum = two_sum(high, low, error);
    uint64_t bits = bit_cast<uint64_t>(sum);
    if (error != 0 && (bits & 1) == 0) bits += (error > 0) == (sum > 0) ? 1 : -1;
    return static_cast<T>(bit_cast<double>(bits));
  }
}

// How many float64 hold a sum at first. One is enough for the narrow types: on normal values and
// tens of terms the last error is zero but for a few sums in 10^7, and when it is not, its bound
// nearly always leaves one answer. Row fold, 10 random rows of 64 floats a destination out of 128
// MB, registers, AVX-512, against a plain float fold: one float64 1.06, two 1.67 times (2 cores of
// a Zen 4 class EPYC, 2026-11-15). float64 needs two.
template <class T>
constexpr int kCheckedParts = sizeof(T) == sizeof(double) ? 2 : 1;

// Every part takes the error of the one before; what the last one drops is added up in lost().
template <class T, int Parts = kCheckedParts<T>>
class CheckedSum {
  static_assert(Parts == 1 || Parts == 2);

 public:
  SOW_HD CheckedSum() { reset(); }
  SOW_HD CheckedSum(double high, double low, double lost) : lost_(lost) {
    parts_[0] = high;
    if constexpr (Parts == 2) parts_[1] = low;
  }
  SOW_HD void reset() {
    parts_[0] = -0.0;  // the identity: only -0 added to -0 stays -0
    if constexpr (Parts == 2) parts_[1] = 0;
    lost_ = 0;
  }

  SOW_HD void add(T value) { push<0>(widen(value)); }
  SOW_HD void sub(T value) { push<0>(-widen(value)); }
  SOW_HD void merge(const CheckedSum& other) {
    push<0>(other.parts_[0]);
    if constexpr (Parts == 2) push<1>(other.parts_[1]);
    lost_ += other.lost_;
  }

  SOW_HD double high() const { return parts_[0]; }
  SOW_HD double low() const { return Parts == 2 ? parts_[Parts - 1] : 0; }
  SOW_HD double lost() const { return lost_; }
  // Nothing was lost and no term was special: high() + low() is the sum.
  SOW_HD bool exact() const { return lost_ == 0; }

  // The correctly rounded sum, or false when it cannot be told. Infinities, NaN and overflow are
  // never told.
  SOW_HD bool round_to(T& out) const { return resolve(out); }
  SOW_HD bool to_double(double& out) const { return resolve(out); }
  // Between which the sum lies when it is rounded once to float64; false: it cannot be told.
  SOW_HD bool ends(double& least, double& most) const {
    if (!(absolute(high() + low()) <= 0x1.fffffffffffffp1023) || !(lost_ <= 0x1p1000)) return false;
    least = most = round_pair<double>(high(), low());
    if (lost_ == 0) return true;
    const double margin = 2 * lost_;
    least = round_pair<double>(high(), step_down(low() - margin));
    most = round_pair<double>(high(), step_up(low() + margin));
    return true;
  }

  // Rounding is monotone: when both ends of the interval that holds the sum round to one value, so
  // does the sum. By itself and not through ends(), which costs a GPU registers that it lacks.
  template <class Target>
  SOW_HD bool resolve(Target& out) const {
    using Traits = FloatTraits<Target>;
    const double high = this->high();
    const double low = this->low();
    if (!(absolute(high + low) <= 0x1.fffffffffffffp1023)) return false;
    if (lost_ == 0) {
      out = round_pair<Target>(high, low);
      return true;
    }
    if (!(lost_ <= 0x1p1000)) return false;
    const double margin = 2 * lost_;  // the bound was itself rounded while it grew
    const Target least = round_pair<Target>(high, step_down(low - margin));
    const Target most = round_pair<Target>(high, step_up(low + margin));
    if (bit_cast<typename Traits::Bits>(least) != bit_cast<typename Traits::Bits>(most))
      return false;
    out = least;
    return true;
  }

 private:
  template <int Part>
  SOW_HD void push(double value) {
    double error;
    parts_[Part] = two_sum(parts_[Part], value, error);
    if constexpr (Part + 1 < Parts) {
      push<Part + 1>(error);
    } else {
      lost_ += absolute(error);
    }
  }

  double parts_[Parts];
  double lost_;
};

}  // namespace sow::detail
