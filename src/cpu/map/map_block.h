// SPDX-License-Identifier: Apache-2.0
// The inner loops of Maps: widening, computing, narrowing, a block at a time.
#pragma once

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/dtype_switch.h"
#include "core/power.h"
#include "cpu/map/map_powers.h"
#include "transfer/map.h"

namespace sow::detail {

inline constexpr int kBlock = 256;  // elements: three blocks of complex128 stay in the first cache

template <class T>
inline constexpr bool is_complex_number = false;
template <class R>
inline constexpr bool is_complex_number<std::complex<R>> = true;

// Whether an element type is computed in C somewhere. uint64 alone is not in int64: its order,
// quotients and fractions differ.
template <class T, class C>
inline constexpr bool widens_to =
    std::is_same_v<C, uint64_t>  ? std::is_same_v<T, uint64_t>
    : std::is_same_v<C, int64_t> ? std::is_integral_v<T>
    : is_complex_number<C>       ? is_complex_number<T>
                                 : !std::is_integral_v<T> && !is_complex_number<T>;

template <class C>
void widen(const char* from, DType dtype, int64_t stride, int64_t count, C* out) {
  with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (widens_to<T, C>) {
      using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
      const Stored* at = reinterpret_cast<const Stored*>(from);
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (std::is_same_v<T, bool>) {
          out[i] = at[i * stride] != 0;
        } else {
          out[i] = static_cast<C>(at[i * stride]);
        }
      }
    }
  });
}

// An int64 with a sticky bit in place of what float64 cannot hold: the next rounding is the only
// one.
inline double to_double_sticky(uint64_t value) {
  if (value < (uint64_t{1} << 53)) return static_cast<double>(value);
  const uint64_t low = value & 0xfff;
  return static_cast<double>((value - low) | (low != 0 ? 0x800 : 0));
}
inline double to_double_sticky(int64_t value) {
  if (value < (int64_t{1} << 53) && value > -(int64_t{1} << 53)) return static_cast<double>(value);
  const int64_t low = value & 0x3ff;
  return static_cast<double>((value - low) | (low != 0 ? 0x400 : 0));
}

template <class C, class T>
T narrowed(C value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != C(0);
  } else if constexpr (std::is_integral_v<C> && !std::is_integral_v<T> && sizeof(T) == 2) {
    return static_cast<T>(to_double_sticky(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class C>
void narrow(const C* values, int64_t count, DType dtype, char* to) {
  with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr bool fits = std::is_integral_v<C> ? !is_complex_number<T> : widens_to<T, C>;
    if constexpr (fits) {
      T* out = reinterpret_cast<T*>(to);
      for (int64_t i = 0; i < count; ++i) out[i] = narrowed<C, T>(values[i]);
    }
  });
}

// -- one element
// ------------------------------------------------------------------------------------

template <class R>
[[gnu::always_inline]] inline std::complex<R> product(std::complex<R> x, std::complex<R> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

template <class T>
[[gnu::always_inline]] inline T product(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
  } else {
    return x * y;
  }
}

// Scaled by the larger part of the divisor, so that nothing overflows on the way.
template <class R>
[[gnu::always_inline]] inline std::complex<R> quotient(std::complex<R> x, std::complex<R> y) {
  if (std::abs(y.real()) >= std::abs(y.imag())) {
    const R ratio = y.imag() / y.real(), scale = y.real() + y.imag() * ratio;
    return {(x.real() + x.imag() * ratio) / scale, (x.imag() - x.real() * ratio) / scale};
  }
  const R ratio = y.real() / y.imag(), scale = y.real() * ratio + y.imag();
  return {(x.real() * ratio + x.imag()) / scale, (x.imag() * ratio - x.real()) / scale};
}

template <class T>
[[gnu::always_inline]] inline T quotient(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    return y;  // no operation divides integers
  } else {
    return x / y;
  }
}

// Small whole exponents multiply, so that squares and cubes have the same bits on every device.
template <class C>
C power(C base, double exponent) {
  constexpr double kMultiplied = 64;
  if (is_complex_number<C> ||
      (exponent == std::trunc(exponent) && std::abs(exponent) <= kMultiplied)) {
    C result(1);
    auto left = static_cast<uint64_t>(std::abs(exponent));
    for (C factor = base; left != 0; left >>= 1, factor = product(factor, factor)) {
      if (left & 1) result = product(result, factor);
    }
    return exponent < 0 ? quotient(C(1), result) : result;
  }
  if constexpr (std::is_same_v<C, double>)
    return real_power(base, exponent);
  else
    return base;
}

// Integers of at most 64 bits: the one overflow, of the least by -1, has no rest.
template <class C>
[[gnu::always_inline]] inline C rest_of(C x, C y) {
  if constexpr (std::is_integral_v<C>) {
    if constexpr (std::is_unsigned_v<C>) {
      return y == 0 ? 0 : x % y;
    } else {
      if (y == 0 || y == -1) return 0;
      const C rest = x % y;
      return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
  } else if constexpr (is_complex_number<C>) {
    return x;  // no operation asks for it
  } else {
    const C rest = std::fmod(x, y);
    if (rest == 0) return std::copysign(rest, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
  }
}

template <class C>
bool same_value(C x, C y) {
  if constexpr (std::is_integral_v<C>) {
    return x == y;
  } else if constexpr (is_complex_number<C>) {
    return same_value(x.real(), y.real()) && same_value(x.imag(), y.imag());
  } else {
    return std::memcmp(&x, &y, sizeof(C)) == 0 || (std::isnan(x) && std::isnan(y));
  }
}

// Every NaN that is computed is the positive quiet one: processors differ in which they return.
template <class C>
[[gnu::always_inline]] inline C plain_nan(C value) {
  if constexpr (std::is_integral_v<C>) {
    return value;
  } else if constexpr (is_complex_number<C>) {
    return {plain_nan(value.real()), plain_nan(value.imag())};
  } else {
    return value == value ? value : std::numeric_limits<C>::quiet_NaN();
  }
}

// -- one block
// -------------------------------------------------------------------------------------

template <class C>
void compute_block(const Map& map, const C* a, const C* b, int64_t count, C* out) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < count; ++i) out[i] = plain_nan<C>(f(a[i], b[i]));
  };
  constexpr bool whole = std::is_integral_v<C>;
  switch (map.op) {
    case MapOp::add:
      if constexpr (whole)
        return each([](uint64_t x, uint64_t y) { return static_cast<C>(x + y); });
      else
        return each([](C x, C y) { return x + y; });
    case MapOp::sub:
      if constexpr (whole)
        return each([](uint64_t x, uint64_t y) { return static_cast<C>(x - y); });
      else
        return each([](C x, C y) { return x - y; });
    case MapOp::mul:
      return each([](C x, C y) { return product(x, y); });
    case MapOp::div:
      return each([](C x, C y) { return quotient(x, y); });
    case MapOp::neg:
      if constexpr (whole)
        return each([](uint64_t x, uint64_t) { return static_cast<C>(0 - x); });
      else
        return each([](C x, C) { return -x; });
    case MapOp::conj:
      if constexpr (is_complex_number<C>) return each([](C x, C) { return std::conj(x); });
      return;
    case MapOp::abs:
      if constexpr (whole)
        return each(
            [](C x, C) { return x < 0 ? static_cast<C>(0 - static_cast<uint64_t>(x)) : x; });
      else if constexpr (!is_complex_number<C>)
        return each([](C x, C) { return std::abs(x); });
      return;
    case MapOp::exp:
      if constexpr (std::is_same_v<C, double>) return exponentials(a, count, out);
      return;
    case MapOp::log:
      if constexpr (std::is_same_v<C, double>) return logarithms(a, count, out);
      return;
    case MapOp::rest:
      return each([](C x, C y) { return rest_of(x, y); });
    case MapOp::bit_and:
      if constexpr (whole) return each([](C x, C y) { return x & y; });
      return;
    case MapOp::bit_or:
      if constexpr (whole) return each([](C x, C y) { return x | y; });
      return;
    case MapOp::bit_xor:
      if constexpr (whole) return each([](C x, C y) { return x ^ y; });
      return;
    default: {
      const double exponent = map.exponent;
      if constexpr (!whole) return each([exponent](C x, C) { return power(x, exponent); });
    }
  }
}

template <class C>
void compare_block(MapOp op, const C* a, const C* b, int64_t count, bool* out) {
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  };
  if (op == MapOp::eq) return each([](C x, C y) { return x == y; });
  if (op == MapOp::ne) return each([](C x, C y) { return x != y; });
  if (op == MapOp::same) return each([](C x, C y) { return same_value(x, y); });
  if constexpr (!is_complex_number<C>) {
    if (op == MapOp::lt) return each([](C x, C y) { return x < y; });
    if (op == MapOp::le) return each([](C x, C y) { return x <= y; });
    if (op == MapOp::gt) return each([](C x, C y) { return x > y; });
    return each([](C x, C y) { return x >= y; });
  }
}

}  // namespace sow::detail
