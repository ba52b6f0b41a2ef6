// SPDX-License-Identifier: Apache-2.0
// The two 16-bit floating types, and the one routine that rounds an integer mantissa to a binary
// format.
#pragma once

#include <cstdint>

#include "sow/portable.h"

namespace sow {
namespace detail {

// A finite number: (-1)^negative * mantissa * 2^exponent.
struct Scaled {
  bool negative;
  uint64_t mantissa;
  int exponent;
};

// The bit pattern of an IEEE binary format with `Digits` significant bits, nearest and ties to
// even; beyond the range, an infinity. The lowest mantissa bit may stand for "something nonzero
// below" when the mantissa is 64 bits long. Integers only, so that rounding modes and flush-to-zero
// have no say.
template <int Digits, int ExponentBits>
SOW_HD inline uint64_t pack_rounded(Scaled value) {
  constexpr int kMaxExponent = (1 << (ExponentBits - 1)) - 1;
  constexpr int kMinExponent = 1 - kMaxExponent;
  constexpr uint64_t kInfinity = ((uint64_t{1} << ExponentBits) - 1) << (Digits - 1);
  const uint64_t sign = static_cast<uint64_t>(value.negative) << (Digits + ExponentBits - 1);
  if (value.mantissa == 0) return sign;

  const int top = 63 - count_leading_zeros(value.mantissa) + value.exponent;
  if (top > kMaxExponent) return sign | kInfinity;
  const bool normal = top >= kMinExponent;
  const int unit = (normal ? top : kMinExponent) - (Digits - 1);
  const int shift = unit - value.exponent;
  uint64_t kept = 0;
  if (shift <= 0) {
    kept = value.mantissa << -shift;
  } else if (shift <= 64) {
    kept = shift == 64 ? 0 : value.mantissa >> shift;
    const uint64_t half = uint64_t{1} << (shift - 1);
    const uint64_t rest = value.mantissa & (half | (half - 1));
    kept += rest > half || (rest == half && (kept & 1));
  }
  // A carry out of the mantissa moves into the exponent by itself, up to and including infinity.
  const uint64_t biased = normal ? static_cast<uint64_t>(top - kMinExponent) : 0;
  return sign | ((biased << (Digits - 1)) + kept);
}

// The inverse, for finite patterns.
template <int Digits, int ExponentBits>
SOW_HD inline Scaled unpack(uint64_t bits) {
  constexpr int kUnit =
      3 - (1 << (ExponentBits - 1)) - Digits;  // exponent of the smallest subnormal
  constexpr uint64_t kHidden = uint64_t{1} << (Digits - 1);
  const uint64_t fraction = bits & (kHidden - 1);
  const int biased = static_cast<int>((bits >> (Digits - 1)) & ((1u << ExponentBits) - 1));
  const bool negative = (bits >> (Digits + ExponentBits - 1)) & 1;
  if (biased == 0) return {negative, fraction, kUnit};
  return {negative, fraction | kHidden, kUnit + biased - 1};
}

// One format to another. Narrowing makes every NaN the positive quiet one; widening keeps its
// payload.
template <int FromDigits, int FromExponentBits, int ToDigits, int ToExponentBits>
SOW_HD inline uint64_t convert_format(uint64_t bits) {
  constexpr uint64_t kFromInfinity = ((uint64_t{1} << FromExponentBits) - 1) << (FromDigits - 1);
  constexpr uint64_t kToInfinity = ((uint64_t{1} << ToExponentBits) - 1) << (ToDigits - 1);
  const uint64_t magnitude = bits & ((uint64_t{1} << (FromDigits + FromExponentBits - 1)) - 1);
  if (magnitude < kFromInfinity) {
    return pack_rounded<ToDigits, ToExponentBits>(unpack<FromDigits, FromExponentBits>(bits));
  }
  const uint64_t sign = ((bits >> (FromDigits + FromExponentBits - 1)) & 1)
                        << (ToDigits + ToExponentBits - 1);
  if (magnitude == kFromInfinity) return sign | kToInfinity;
  if constexpr (ToDigits < FromDigits) {
    return kToInfinity | (uint64_t{1} << (ToDigits - 2));
  } else {
    return sign | kToInfinity | ((magnitude - kFromInfinity) << (ToDigits - FromDigits));
  }
}

}  // namespace detail

// IEEE binary16. Conversions are explicit: arithmetic is done elsewhere, in wider types.
struct float16 {
  uint16_t bits;

  float16() = default;
  SOW_HD explicit float16(float value)
      : bits(static_cast<uint16_t>(
            detail::convert_format<24, 8, 11, 5>(detail::bit_cast<uint32_t>(value)))) {}
  SOW_HD explicit float16(double value)
      : bits(static_cast<uint16_t>(
            detail::convert_format<53, 11, 11, 5>(detail::bit_cast<uint64_t>(value)))) {}
  SOW_HD static float16 from_bits(uint16_t bits) { return detail::bit_cast<float16>(bits); }

  SOW_HD explicit operator float() const {
    return detail::bit_cast<float>(
        static_cast<uint32_t>(detail::convert_format<11, 5, 24, 8>(bits)));
  }
  SOW_HD explicit operator double() const {
    return detail::bit_cast<double>(detail::convert_format<11, 5, 53, 11>(bits));
  }
};

// The upper half of a float32.
struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  SOW_HD explicit bfloat16(float value)
      : bits(static_cast<uint16_t>(
            detail::convert_format<24, 8, 8, 8>(detail::bit_cast<uint32_t>(value)))) {}
  SOW_HD explicit bfloat16(double value)
      : bits(static_cast<uint16_t>(
            detail::convert_format<53, 11, 8, 8>(detail::bit_cast<uint64_t>(value)))) {}
  SOW_HD static bfloat16 from_bits(uint16_t bits) { return detail::bit_cast<bfloat16>(bits); }

  SOW_HD explicit operator float() const {
    return detail::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  SOW_HD explicit operator double() const {
    return detail::bit_cast<double>(detail::convert_format<8, 8, 53, 11>(bits));
  }
};

}  // namespace sow
