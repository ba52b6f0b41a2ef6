// SPDX-License-Identifier: Apache-2.0
// The element types of the library, and scalars that take one of them.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include "sow/export.h"
#include "sow/half.h"

namespace sow {

enum class DType : uint8_t {
  bool_,
  uint8,
  int8,
  int16,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  uint16,  // the wider unsigned integers came later: saved programs hold these numbers
  uint32,
  uint64,
};
inline constexpr int kDTypeCount = 15;

SOW_API const char* name_of(DType dtype);
SOW_API size_t size_of(DType dtype);
SOW_API bool is_floating(DType dtype);  // float16 to float64
SOW_API bool is_complex(DType dtype);
SOW_API bool is_integer(DType dtype);   // signed or unsigned; bool is not one
SOW_API bool is_unsigned(DType dtype);  // uint8 to uint64
inline bool is_differentiable(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

// The DType of a C++ type; only defined for the element types.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::bool_;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DType::uint8;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::int8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DType::int16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::int32;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8 && std::is_signed_v<T>)
    return DType::int64;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return DType::uint16;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return DType::uint32;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return DType::uint64;
  else if constexpr (std::is_same_v<T, float16>)
    return DType::float16;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return DType::bfloat16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::float32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::float64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::complex64;
  else {
    static_assert(std::is_same_v<T, std::complex<double>>, "not an element type of sow");
    return DType::complex128;
  }
}

// A number without a type of its own: it takes the destination's, if it is in range.
class SOW_API Scalar {
 public:
  enum class Kind : uint8_t { boolean, integer, real, complex };
  Scalar(bool v) : kind_(Kind::boolean), integer_(v) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Scalar(T v)
      : kind_(Kind::integer),
        integer_(static_cast<int64_t>(v)),
        beyond_(std::is_unsigned_v<T> && integer_ < 0) {}
  Scalar(double v) : kind_(Kind::real), real_(v) {}
  Scalar(float v) : Scalar(static_cast<double>(v)) {}
  Scalar(float16 v) : Scalar(static_cast<double>(v)) {}
  Scalar(bfloat16 v) : Scalar(static_cast<double>(v)) {}
  Scalar(std::complex<double> v) : kind_(Kind::complex), real_(v.real()), imag_(v.imag()) {}
  Scalar(std::complex<float> v) : Scalar(std::complex<double>(v)) {}

  Kind kind() const { return kind_; }
  bool beyond_int64() const { return beyond_; }  // an integer from 2^63 on, which uint64 has
  // Writes the value as `dtype` to `out` (size_of(dtype) bytes), rounded once; an Error that begins
  // with `op` if the contract (section 3) forbids the conversion.
  void write_as(DType dtype, void* out, const char* op) const;
  std::string to_string() const;

 private:
  Kind kind_;
  int64_t integer_ = 0;
  bool beyond_ = false;  // integer_ holds the bits of a uint64
  double real_ = 0, imag_ = 0;
};

}  // namespace sow
