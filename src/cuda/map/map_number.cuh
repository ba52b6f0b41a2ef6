// SPDX-License-Identifier: Apache-2.0
// The numbers Maps compute in, and how elements become them and come back: the bits are the CPU's.
#pragma once

#include <type_traits>

#include "cuda/common/ordered_bits.cuh"
#include "sow/dtype.h"

namespace sow::detail::cuda {

template <class R>
struct alignas(2 * sizeof(R)) Pair {
  R re, im;
};
template <class C>
inline constexpr bool is_pair = false;
template <class R>
inline constexpr bool is_pair<Pair<R>> = true;

// The processor's conversions between the two wide formats, NaN payloads included.
__device__ inline double to_double(float value) {
  if (value == value) return value;
  const uint32_t bits = bit_cast<uint32_t>(value);
  return bit_cast<double>((static_cast<uint64_t>(bits & 0x80000000u) << 32) |
                          0x7ff8000000000000ull | (static_cast<uint64_t>(bits & 0x7fffffu) << 29));
}
__device__ inline float to_float(double value) {
  if (value == value) return static_cast<float>(value);
  const uint64_t bits = bit_cast<uint64_t>(value);
  return bit_cast<float>(static_cast<uint32_t>(bits >> 32 & 0x80000000u) | 0x7fc00000u |
                         static_cast<uint32_t>((bits >> 29) & 0x7fffffu));
}

template <class C, class T>
__device__ inline C widened(T value) {
  if constexpr (std::is_same_v<T, Truth>)
    return static_cast<C>(value.byte != 0);
  else if constexpr (std::is_same_v<C, double> && std::is_same_v<T, float>)
    return to_double(value);
  else
    return static_cast<C>(value);
}

// An int64 with a sticky bit in place of what float64 cannot hold: the next rounding is the only
// one.
__device__ inline double to_double_sticky(uint64_t value) {
  if (value < (uint64_t{1} << 53)) return static_cast<double>(value);
  const uint64_t low = value & 0xfff;
  return static_cast<double>((value - low) | (low != 0 ? 0x800 : 0));
}
__device__ inline double to_double_sticky(int64_t value) {
  if (value < (int64_t{1} << 53) && value > -(int64_t{1} << 53)) return static_cast<double>(value);
  const int64_t low = value & 0x3ff;
  return static_cast<double>((value - low) | (low != 0 ? 0x400 : 0));
}

template <class T, class C>
__device__ inline T narrowed_to(C value) {
  if constexpr (std::is_same_v<T, Truth>)
    return {static_cast<uint8_t>(value != C(0))};
  else if constexpr (std::is_integral_v<C> && !std::is_integral_v<T> && sizeof(T) == 2) {
    return static_cast<T>(to_double_sticky(value));
  } else if constexpr (std::is_same_v<C, double> && std::is_same_v<T, float>) {
    return to_float(value);
  } else {
    return static_cast<T>(value);
  }
}

// An element of `dtype` at `data[offset]` as C; only types of C's kind come here.
template <class C>
__device__ inline C load_as(const char* data, DType dtype, int64_t offset) {
  const auto at = [&](auto* typed) { return typed[offset]; };
  if constexpr (std::is_same_v<C, uint64_t>) {
    return at(reinterpret_cast<const uint64_t*>(data));
  } else if constexpr (std::is_same_v<C, int64_t>) {
    switch (dtype) {
      case DType::bool_:
        return widened<C>(at(reinterpret_cast<const Truth*>(data)));
      case DType::uint8:
        return at(reinterpret_cast<const uint8_t*>(data));
      case DType::int8:
        return at(reinterpret_cast<const int8_t*>(data));
      case DType::int16:
        return at(reinterpret_cast<const int16_t*>(data));
      case DType::int32:
        return at(reinterpret_cast<const int32_t*>(data));
      case DType::uint16:
        return at(reinterpret_cast<const uint16_t*>(data));
      case DType::uint32:
        return at(reinterpret_cast<const uint32_t*>(data));
      default:
        return at(reinterpret_cast<const int64_t*>(data));
    }
  } else if constexpr (is_pair<C>) {
    using R = decltype(C::re);
    if (dtype == DType::complex64) {
      const auto value = at(reinterpret_cast<const Pair<float>*>(data));
      return {widened<R>(value.re), widened<R>(value.im)};
    }
    if constexpr (std::is_same_v<R, double>)
      return at(reinterpret_cast<const Pair<double>*>(data));
    else
      return {};
  } else {
    switch (dtype) {
      case DType::float16:
        return widened<C>(at(reinterpret_cast<const float16*>(data)));
      case DType::bfloat16:
        return widened<C>(at(reinterpret_cast<const bfloat16*>(data)));
      case DType::float32:
        return widened<C>(at(reinterpret_cast<const float*>(data)));
      default:
        return static_cast<C>(at(reinterpret_cast<const double*>(data)));
    }
  }
}

template <class C>
__device__ inline void store_as(C value, char* data, DType dtype, int64_t offset) {
  const auto put = [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    typed[offset] = narrowed_to<T>(value);
  };
  if constexpr (is_pair<C>) {
    if (dtype == DType::complex64) {
      reinterpret_cast<Pair<float>*>(data)[offset] = {narrowed_to<float>(value.re),
                                                      narrowed_to<float>(value.im)};
    } else {
      reinterpret_cast<Pair<double>*>(data)[offset] = {static_cast<double>(value.re),
                                                       static_cast<double>(value.im)};
    }
  } else {
    switch (dtype) {
      case DType::float16:
        return put(reinterpret_cast<float16*>(data));
      case DType::bfloat16:
        return put(reinterpret_cast<bfloat16*>(data));
      case DType::float32:
        return put(reinterpret_cast<float*>(data));
      case DType::float64:
        return put(reinterpret_cast<double*>(data));
      default:
        break;
    }
    if constexpr (std::is_integral_v<C>) {
      switch (dtype) {
        case DType::bool_:
          return put(reinterpret_cast<Truth*>(data));
        case DType::uint8:  // signed and unsigned are the same bits
        case DType::int8:
          return put(reinterpret_cast<int8_t*>(data));
        case DType::uint16:
        case DType::int16:
          return put(reinterpret_cast<int16_t*>(data));
        case DType::uint32:
        case DType::int32:
          return put(reinterpret_cast<int32_t*>(data));
        default:
          return put(reinterpret_cast<int64_t*>(data));
      }
    }
  }
}

}  // namespace sow::detail::cuda
