// SPDX-License-Identifier: Apache-2.0
// What exact summation must know about a floating type: its format, and its values as scaled
// integers.
#pragma once

#include <cstdint>

#include "sow/half.h"

namespace sow::detail {

template <class BitsType, int Digits, int ExponentBits>
struct BinaryFormat {
  using Bits = BitsType;
  static constexpr int kDigits = Digits;
  static constexpr int kExponentBits = ExponentBits;
  static constexpr int kMaxExponent = (1 << (ExponentBits - 1)) - 1;  // of the largest finite value
  static constexpr int kUnitExponent =
      1 - kMaxExponent - (Digits - 1);                             // of the smallest subnormal
  static constexpr int kRange = kMaxExponent + 1 - kUnitExponent;  // bits of the largest, in units
  static constexpr Bits kHidden = static_cast<Bits>(Bits{1} << (Digits - 1));
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (Digits + ExponentBits - 1));
  static constexpr Bits kInfinity =
      static_cast<Bits>(((Bits{1} << ExponentBits) - 1) << (Digits - 1));
  static constexpr Bits kQuietNan = static_cast<Bits>(kInfinity | (kHidden >> 1));
};

template <class T>
struct FloatTraits;
template <>
struct FloatTraits<float16> : BinaryFormat<uint16_t, 11, 5> {};
template <>
struct FloatTraits<bfloat16> : BinaryFormat<uint16_t, 8, 8> {};
template <>
struct FloatTraits<float> : BinaryFormat<uint32_t, 24, 8> {};
template <>
struct FloatTraits<double> : BinaryFormat<uint64_t, 53, 11> {};

// A term as an integer number of the type's smallest subnormals: mantissa << shift.
template <class T>
struct Term {
  using Bits = typename FloatTraits<T>::Bits;
  Bits bits;

  SOW_HD explicit Term(T value) : bits(bit_cast<Bits>(value)) {}
  SOW_HD bool negative() const { return (bits & FloatTraits<T>::kSign) != 0; }
  SOW_HD Bits magnitude() const { return static_cast<Bits>(bits & ~FloatTraits<T>::kSign); }
  SOW_HD bool finite() const { return magnitude() < FloatTraits<T>::kInfinity; }
  SOW_HD bool nan() const { return magnitude() > FloatTraits<T>::kInfinity; }
  SOW_HD int shift() const {
    const int biased = static_cast<int>(magnitude() >> (FloatTraits<T>::kDigits - 1));
    return biased == 0 ? 0 : biased - 1;
  }
  SOW_HD uint64_t mantissa() const {
    const uint64_t fraction = magnitude() & (FloatTraits<T>::kHidden - 1);
    return magnitude() >= FloatTraits<T>::kHidden ? fraction | FloatTraits<T>::kHidden : fraction;
  }
};

// What integers cannot hold: which special terms a sum has seen, and whether any term was not -0.
struct SumFlags {
  static constexpr uint32_t kNan = 1;
  static constexpr uint32_t kPlusInfinity = 2;
  static constexpr uint32_t kMinusInfinity = 4;
  static constexpr uint32_t kNotMinusZero = 8;
  uint32_t seen = 0;

  // The flags a term raises.
  template <class T>
  SOW_HD static uint32_t of(Term<T> term, bool negative) {
    if (term.finite()) return term.magnitude() == 0 && negative ? 0 : kNotMinusZero;
    if (term.nan()) return kNan;
    return negative ? kMinusInfinity : kPlusInfinity;
  }
  SOW_HD bool special() const { return (seen & (kNan | kPlusInfinity | kMinusInfinity)) != 0; }
  // The sum's pattern in format F when special() holds.
  template <class F>
  SOW_HD typename F::Bits special_bits() const {
    const uint32_t both = kPlusInfinity | kMinusInfinity;
    if ((seen & kNan) || (seen & both) == both) return F::kQuietNan;
    return (seen & kMinusInfinity) ? static_cast<typename F::Bits>(F::kSign | F::kInfinity)
                                   : F::kInfinity;
  }
  SOW_HD bool all_minus_zero() const { return seen == 0; }
};

}  // namespace sow::detail
