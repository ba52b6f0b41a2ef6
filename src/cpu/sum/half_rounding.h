// SPDX-License-Identifier: Apache-2.0
// Rounds float64 to the 16-bit types without branches, in the default floating-point state.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/exact/exact_traits.h"

namespace sow::detail {

// The same as static_cast<T>(value). False: it is too large, or no number, and nothing is given.
template <class T>
inline bool round_quickly(double value, T& out) {
  constexpr bool kIeee = std::is_same_v<T, float16>;
  constexpr int kDigits = kIeee ? 11 : 8, kLowest = kIeee ? -14 : -126;
  constexpr double kBeyond = kIeee ? 0x1p17 : 0x1p129;
  constexpr uint64_t kSign = FloatTraits<double>::kSign, kOne = uint64_t{1} << 52;
  const uint64_t bits = bit_cast<uint64_t>(value), sign = bits & kSign;
  const double magnitude = bit_cast<double>(bits ^ sign);
  if (!(magnitude < kBeyond)) return false;
  // A number whose last bit is worth as much as that of the result: what is less is rounded away
  // by the addition, to nearest and even.
  constexpr uint64_t kExponents = FloatTraits<double>::kInfinity;
  const uint64_t exponent =
      std::max((bits ^ sign) & kExponents, static_cast<uint64_t>(kLowest + 1023) * kOne);
  const double large = bit_cast<double>(exponent + (53 - kDigits) * kOne + (uint64_t{1} << 51));
  const double rounded = (magnitude + large) - large;
  // Moved to the exponents of the result, its bits are the upper ones.
  constexpr double kRebias = kIeee ? 0x1p-1008 : 0x1p-896;
  constexpr uint64_t kInfinity = FloatTraits<T>::kInfinity;
  const uint64_t found =
      std::min(bit_cast<uint64_t>(rounded * kRebias) >> (53 - kDigits), kInfinity);
  out = T::from_bits(static_cast<uint16_t>(found | sign >> 48));
  return true;
}

}  // namespace sow::detail
