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
};
inline constexpr int kDTypeCount = 12;

SOW_API const char* name_of(DType dtype);
SOW_API size_t size_of(DType dtype);
SOW_API bool is_floating(DType dtype);  // float16 to float64
SOW_API bool is_complex(DType dtype);
SOW_API bool is_integer(DType dtype);  // uint8 to int64; bool is not one
inline bool is_differentiable(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

// The DType of a C++ type; only defined for the twelve element types.
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
      : kind_(Kind::integer), integer_(static_cast<int64_t>(v)) {
    static_assert(sizeof(T) < 8 || std::is_signed_v<T>, "unsigned 64-bit scalars do not fit");
  }
  Scalar(double v) : kind_(Kind::real), real_(v) {}
  Scalar(float v) : Scalar(static_cast<double>(v)) {}
  Scalar(float16 v) : Scalar(static_cast<double>(v)) {}
  Scalar(bfloat16 v) : Scalar(static_cast<double>(v)) {}
  Scalar(std::complex<double> v) : kind_(Kind::complex), real_(v.real()), imag_(v.imag()) {}
  Scalar(std::complex<float> v) : Scalar(std::complex<double>(v)) {}

  Kind kind() const { return kind_; }
  // Writes the value as `dtype` to `out` (size_of(dtype) bytes), rounded once; an Error that begins
  // with `op` if the contract (section 3) forbids the conversion.
  void write_as(DType dtype, void* out, const char* op) const;
  std::string to_string() const;

 private:
  Kind kind_;
  int64_t integer_ = 0;
  double real_ = 0, imag_ = 0;
};

}  // namespace sow
