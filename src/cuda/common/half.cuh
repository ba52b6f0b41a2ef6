// SPDX-License-Identifier: Apache-2.0
// float32 and the 16-bit types to and from float32.
#pragma once

#include "core/exact/exact_traits.h"

namespace sow::detail::cuda {

__device__ inline float widen_narrow(float value) { return value; }
__device__ inline float widen_narrow(bfloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ inline float widen_narrow(float16 value) {
  float widened;
  asm("cvt.f32.f16 %0, %1;" : "=f"(widened) : "h"(value.bits));
  return widened;
}

// The value must be one of T's.
template <class T>
__device__ inline T narrow_exact(float value) {
  if constexpr (sizeof(T) == 4) {
    return value;
  } else if constexpr (FloatTraits<T>::kDigits == 8) {
    return bit_cast<T>(static_cast<uint16_t>(__float_as_uint(value) >> 16));
  } else {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bit_cast<T>(bits);
  }
}

// The nearest of T, of a finite value.
template <class T>
__device__ inline T narrow_nearest(float value) {
  uint16_t bits;
  if constexpr (FloatTraits<T>::kDigits == 8)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bit_cast<T>(bits);
}
template <class T>
__device__ inline T narrow_nearest(double value) {
  return static_cast<T>(value);
}

}  // namespace sow::detail::cuda
