// SPDX-License-Identifier: Apache-2.0
// From a dtype that is known at run time to the element type of a template.
#pragma once

#include "sow/dtype.h"
#include "sow/half.h"

namespace sow::detail::cuda {

struct Truth;  // ordered_bits.cuh

template <class T>
inline constexpr DType kDTypeOf = DType::float64;
template <>
inline constexpr DType kDTypeOf<Truth> = DType::bool_;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::uint8;
template <>
inline constexpr DType kDTypeOf<uint16_t> = DType::uint16;
template <>
inline constexpr DType kDTypeOf<uint32_t> = DType::uint32;
template <>
inline constexpr DType kDTypeOf<uint64_t> = DType::uint64;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::int8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::int16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::int32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::int64;
template <>
inline constexpr DType kDTypeOf<float16> = DType::float16;
template <>
inline constexpr DType kDTypeOf<bfloat16> = DType::bfloat16;
template <>
inline constexpr DType kDTypeOf<float> = DType::float32;

// f with a zero of the type that the dtype names, or of the last type of the list.
template <class First, class... Rest, class F>
auto with_type(DType dtype, F&& f) {
  if constexpr (sizeof...(Rest) > 0) {
    if (dtype != kDTypeOf<First>) return with_type<Rest...>(dtype, f);
  }
  return f(First());
}

}  // namespace sow::detail::cuda
