// SPDX-License-Identifier: Apache-2.0
// How the values of a type lie in the fixed-point cells: in one integer of 64 bits, or
// for float64 in two, of which the second counts what is less than a unit of the first.
#pragma once

#include <cmath>

#include "core/exact/exact_sum.h"
#include "cpu/fold/accumulator.h"
#include "cpu/sum/fixed_point.h"

namespace sow::detail {

inline uint32_t float_bits(float value) { return bit_cast<uint32_t>(value); }
inline float to_float(float value) { return value; }
inline float to_float(bfloat16 value) {
  return bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
inline float to_float(float16 value) { return static_cast<float>(widen(value)); }

inline bool is_whole(double value, int64_t number) { return static_cast<int64_t>(value) == number; }

template <class T>
struct FixedPointForm {
  static constexpr int kWords = 1;
  static constexpr int kRangeShift = 23;
  static uint32_t range_bits(T value) { return float_bits(to_float(value)); }

  explicit FixedPointForm(const FixedPointScale& scale)
      : limit(scale.limit),
        exponent(scale.exponent),
        unit(std::ldexp(1.0, scale.exponent)),
        factor(std::ldexp(1.0, -scale.exponent)) {}

  bool takes(T value) const { return (range_bits(value) & 0x7fffffffu) <= limit; }
  // Returns what is left over.
  double split(T value, int64_t* words) const {
    const double scaled = static_cast<double>(to_float(value)) * factor;
    words[0] = static_cast<int64_t>(scaled);
    return (scaled - static_cast<double>(words[0])) * unit;
  }
  // high + low is the sum; false: it is more than two float64.
  bool join(const int64_t* words, double& high, double& low) const {
    const double sum = static_cast<double>(words[0]);
    high = sum * unit;
    low = 0;
    return is_whole(sum, words[0]);
  }
  void add_to(LongAccumulator<T>& sum, const int64_t* words) const {
    sum.add_units(words[0], exponent - FloatTraits<T>::kUnitExponent);
  }
  void flush_to(CheckedSum<T>& state, const int64_t* words) const {
    // Two halves, so that both fit a float64.
    const int64_t low = words[0] & 0xffffffff;
    state.merge(CheckedSum<T>(static_cast<double>(words[0] - low) * unit, 0, 0));
    state.merge(CheckedSum<T>(static_cast<double>(low) * unit, 0, 0));
  }

  // What it adds to the sum of a fixed-point scale.
  double magnitude(const int64_t* words) const { return std::abs(static_cast<double>(words[0])); }

  uint32_t limit;
  int exponent;
  double unit, factor;
};

template <>
struct FixedPointForm<double> {
  static constexpr int kWords = 2;
  static constexpr int kRangeShift = 20;
  // The upper half of a float64 tells of all of it, but that the smallest are zeros.
  static uint32_t range_bits(double value) {
    return static_cast<uint32_t>(bit_cast<uint64_t>(value) >> 32);
  }

  explicit FixedPointForm(const FixedPointScale& scale)
      : limit(uint64_t{scale.limit} << 32 | UINT32_MAX),
        least(scale.exponent <= 0 ? 0 : static_cast<uint64_t>(scale.exponent + 1) << 52),
        exponent(scale.exponent),
        below(std::max(scale.value_bits - FixedPointScale::kSpare, 0)),
        unit(std::ldexp(1.0, scale.exponent)),
        factor(std::ldexp(1.0, -scale.exponent)),
        low_unit(std::ldexp(1.0, scale.exponent - below)),
        low_scale(std::ldexp(1.0, below)) {}

  bool takes(double value) const {
    const uint64_t magnitude = bit_cast<uint64_t>(absolute(value));
    return magnitude <= limit && (magnitude >= least || magnitude == 0);
  }
  double split(double value, int64_t* words) const {
    const double scaled = value * factor;
    words[0] = static_cast<int64_t>(scaled);
    const double part = (scaled - static_cast<double>(words[0])) * low_scale;
    words[1] = static_cast<int64_t>(part);
    return (part - static_cast<double>(words[1])) * low_unit;
  }
  bool join(const int64_t* words, double& high, double& low) const {
    const double first = static_cast<double>(words[0]), second = static_cast<double>(words[1]);
    high = two_sum(first * unit, second * low_unit, low);
    return is_whole(first, words[0]) && is_whole(second, words[1]) &&
           absolute(high) <= 0x1.fffffffffffffp1023;
  }
  void add_to(LongAccumulator<double>& sum, const int64_t* words) const {
    const int shift = exponent - FloatTraits<double>::kUnitExponent;
    sum.add_units(words[0], shift);
    sum.add_units(words[1], shift - below);
  }
  void flush_to(CheckedSum<double>& state, const int64_t* words) const {
    double high, low;
    if (join(words, high, low)) return state.merge(CheckedSum<double>(high, low, 0));
    for (const auto& [word, size] : {std::pair{words[0], unit}, std::pair{words[1], low_unit}}) {
      const int64_t part = word & 0xffffffff;
      state.merge(CheckedSum<double>(static_cast<double>(word - part) * size, 0, 0));
      state.merge(CheckedSum<double>(static_cast<double>(part) * size, 0, 0));
    }
  }

  double magnitude(const int64_t* words) const {
    return std::abs(static_cast<double>(words[0])) + low_scale;
  }

  uint64_t limit, least;  // of magnitudes; smaller ones would lose bits when they are scaled
  int exponent, below;
  double unit, factor, low_unit, low_scale;
};

}  // namespace sow::detail
