// SPDX-License-Identifier: Apache-2.0
// Names and sizes of the element types, and scalars that become one of them.
#include "sow/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/dtype_switch.h"
#include "core/fail.h"

namespace sow {

const char* name_of(DType dtype) {
  static constexpr const char* kNames[kDTypeCount] = {
      "bool",    "uint8",   "int8",      "int16",      "int32",  "int64",  "float16", "bfloat16",
      "float32", "float64", "complex64", "complex128", "uint16", "uint32", "uint64"};
  return kNames[static_cast<int>(dtype)];
}

size_t size_of(DType dtype) {
  static constexpr uint8_t kSizes[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8};
  return kSizes[static_cast<int>(dtype)];
}

bool is_floating(DType dtype) { return dtype >= DType::float16 && dtype <= DType::float64; }
bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }
bool is_unsigned(DType dtype) { return dtype == DType::uint8 || dtype >= DType::uint16; }
bool is_integer(DType dtype) {
  return (dtype >= DType::uint8 && dtype <= DType::int64) || dtype >= DType::uint16;
}

namespace {

using detail::fail;

[[noreturn]] void refuse(const Scalar& scalar, DType dtype, const char* op, const char* why) {
  fail(ErrorKind::type, "{}: the scalar {} does not fit {}: {}", op, scalar.to_string(), dtype,
       why);
}

template <class T>
bool finite_in(T value) {
  return std::isfinite(static_cast<double>(value));
}

// A real number rounded once to the floating type T.
template <class T>
T round_real(double value, const Scalar& scalar, DType dtype, const char* op) {
  const T rounded = static_cast<T>(value);
  if (std::isfinite(value) && !finite_in(rounded)) {
    refuse(scalar, dtype, op, "it would become infinite");
  }
  return rounded;
}

// An integer rounded once: by way of float64 it would round twice on the way to narrower types, so
// the halves of the integer are combined with a sticky bit first.
template <class T>
T round_integer(int64_t value, const Scalar& scalar, DType dtype, const char* op) {
  const bool negative = value < 0 && !scalar.beyond_int64();
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) {
    return scalar.beyond_int64() ? static_cast<T>(static_cast<uint64_t>(value))
                                 : static_cast<T>(value);
  } else {
    const uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    // 53 bits hold the top of any integer with one sticky bit; float16 and bfloat16 have fewer.
    uint64_t top = magnitude;
    int shift = 0;
    while (top >> 53) {
      top = (top >> 1) | (top & 1);
      ++shift;
    }
    const double exact = std::ldexp(static_cast<double>(top), shift);
    return round_real<T>(negative ? -exact : exact, scalar, dtype, op);
  }
}

template <class T>
T to_integer(const Scalar& scalar, Scalar::Kind kind, int64_t integer, double real, DType dtype,
             const char* op) {
  if (kind == Scalar::Kind::real) {
    if (!(real == std::trunc(real))) {
      refuse(scalar, dtype, op, "an integer type takes no fraction, infinity or NaN");
    }
    constexpr double kEnd = std::is_same_v<T, uint64_t> ? 0x1p64 : 0x1p63;
    if (!(real >= -0x1p63 && real < kEnd)) refuse(scalar, dtype, op, "it is out of range");
    if (std::is_same_v<T, uint64_t> && real >= 0) return static_cast<T>(real);
    integer = static_cast<int64_t>(real);
  }
  if constexpr (std::is_same_v<T, uint64_t>) {
    if (integer < 0 && !scalar.beyond_int64()) refuse(scalar, dtype, op, "it is out of range");
    return static_cast<T>(integer);
  }
  if (scalar.beyond_int64()) refuse(scalar, dtype, op, "it is out of range");
  if (integer < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
      integer > static_cast<int64_t>(std::numeric_limits<T>::max())) {
    refuse(scalar, dtype, op, "it is out of range");
  }
  return static_cast<T>(integer);
}

}  // namespace

void Scalar::write_as(DType dtype, void* out, const char* op) const {
  if (kind_ == Kind::complex && !is_complex(dtype)) {
    refuse(*this, dtype, op, "a complex number has no place in a real type");
  }
  const bool whole = kind_ == Kind::integer || kind_ == Kind::boolean;
  detail::with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T value{};
    if constexpr (std::is_same_v<T, bool>) {
      const double number = beyond_ ? 2 : whole ? static_cast<double>(integer_) : real_;
      if (number != 0 && number != 1) refuse(*this, dtype, op, "bool takes true, false, 0 and 1");
      value = number == 1;
    } else if constexpr (std::is_integral_v<T>) {
      value = to_integer<T>(*this, kind_, integer_, real_, dtype, op);
    } else if constexpr (std::is_same_v<T, std::complex<float>> ||
                         std::is_same_v<T, std::complex<double>>) {
      using R = typename T::value_type;
      const R re = whole ? round_integer<R>(integer_, *this, dtype, op)
                         : round_real<R>(real_, *this, dtype, op);
      value = T(re, round_real<R>(imag_, *this, dtype, op));
    } else {
      value = whole ? round_integer<T>(integer_, *this, dtype, op)
                    : round_real<T>(real_, *this, dtype, op);
    }
    std::memcpy(out, &value, sizeof(T));
  });
}

std::string Scalar::to_string() const {
  switch (kind_) {
    case Kind::boolean:
      return integer_ ? "true" : "false";
    case Kind::integer:
      return beyond_ ? std::to_string(static_cast<uint64_t>(integer_)) : std::to_string(integer_);
    case Kind::real:
      return detail::text("{}", real_);
    default:
      return detail::text("{}{}{}j", real_, imag_ < 0 ? "-" : "+", std::abs(imag_));
  }
}

}  // namespace sow
