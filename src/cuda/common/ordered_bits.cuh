// SPDX-License-Identifier: Apache-2.0
// Values as 64-bit integers whose maximum is the extreme asked for: -0 below +0, NaN above all, and
// everything complemented for amin.
#pragma once

#include <type_traits>

#include "core/exact/exact_traits.h"
#include "sow/reduce.h"

namespace sow::detail::cuda {

template <class T>
__device__ inline T quiet_nan() {
  const typename FloatTraits<T>::Bits bits = FloatTraits<T>::kQuietNan;
  return bit_cast<T>(bits);
}

template <class T>
__device__ inline T flip_sign(T value) {
  using Bits = typename FloatTraits<T>::Bits;
  return bit_cast<T>(static_cast<Bits>(bit_cast<Bits>(value) ^ FloatTraits<T>::kSign));
}

// A bool as it lies in memory: any byte that is not zero is true.
struct Truth {
  uint8_t byte;
};

__device__ inline bool is_extreme(Reduce reduce) {
  return reduce == Reduce::amax || reduce == Reduce::amin;
}

template <class T>
__device__ inline int64_t to_ordered(T value, bool negate, Reduce reduce) {
  int64_t ordered;
  if constexpr (std::is_same_v<T, Truth>) {
    ordered = value.byte != 0;
  } else if constexpr (std::is_integral_v<T>) {
    ordered = negate ? static_cast<int64_t>(0 - static_cast<uint64_t>(value))
                     : static_cast<int64_t>(value);
    // Beyond int64 alone: with the first bit turned over, the order of unsigned integers is that
    // of signed ones.
    if (std::is_same_v<T, uint64_t> && is_extreme(reduce)) ordered ^= INT64_MIN;
  } else {
    using Traits = FloatTraits<T>;
    using Bits = typename Traits::Bits;
    using Signed = std::make_signed_t<Bits>;
    Bits bits = bit_cast<Bits>(value);
    if (static_cast<Bits>(bits & ~Traits::kSign) > Traits::kInfinity) return INT64_MAX;
    if (negate) bits = static_cast<Bits>(bits ^ Traits::kSign);
    const Signed as_int = static_cast<Signed>(bits);
    ordered =
        as_int < 0 ? static_cast<Signed>(as_int ^ static_cast<Signed>(~Traits::kSign)) : as_int;
  }
  return reduce == Reduce::amin ? ~ordered : ordered;
}

template <class T>
__device__ inline T from_ordered(int64_t ordered, Reduce reduce) {
  if constexpr (!std::is_same_v<T, Truth> && !std::is_integral_v<T>) {
    if (ordered == INT64_MAX) return quiet_nan<T>();
  }
  if (reduce == Reduce::amin) ordered = ~ordered;
  if constexpr (std::is_same_v<T, Truth>) {
    return {static_cast<uint8_t>(ordered)};
  } else if constexpr (std::is_integral_v<T>) {
    if (std::is_same_v<T, uint64_t> && is_extreme(reduce)) ordered ^= INT64_MIN;
    return static_cast<T>(ordered);
  } else {
    using Traits = FloatTraits<T>;
    using Bits = typename Traits::Bits;
    const Bits bits = static_cast<Bits>(ordered);
    return bit_cast<T>(ordered < 0 ? static_cast<Bits>(bits ^ static_cast<Bits>(~Traits::kSign))
                                   : bits);
  }
}

}  // namespace sow::detail::cuda
