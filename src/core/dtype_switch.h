// SPDX-License-Identifier: Apache-2.0
// The one switch from a DType to a C++ type.
#pragma once

#include <complex>

#include "sow/dtype.h"

namespace sow::detail {

template <class T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with the C++ type of `dtype`.
template <class F>
decltype(auto) with_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bool_:
      return f(TypeTag<bool>{});
    case DType::uint8:
      return f(TypeTag<uint8_t>{});
    case DType::int8:
      return f(TypeTag<int8_t>{});
    case DType::int16:
      return f(TypeTag<int16_t>{});
    case DType::int32:
      return f(TypeTag<int32_t>{});
    case DType::int64:
      return f(TypeTag<int64_t>{});
    case DType::float16:
      return f(TypeTag<float16>{});
    case DType::bfloat16:
      return f(TypeTag<bfloat16>{});
    case DType::float32:
      return f(TypeTag<float>{});
    case DType::float64:
      return f(TypeTag<double>{});
    case DType::uint16:
      return f(TypeTag<uint16_t>{});
    case DType::uint32:
      return f(TypeTag<uint32_t>{});
    case DType::uint64:
      return f(TypeTag<uint64_t>{});
    case DType::complex64:
      return f(TypeTag<std::complex<float>>{});
    default:
      return f(TypeTag<std::complex<double>>{});
  }
}

}  // namespace sow::detail
