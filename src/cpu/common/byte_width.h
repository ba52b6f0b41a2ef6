// SPDX-License-Identifier: Apache-2.0
// Elements as bytes of a width: what moves need to know about a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sow::detail {

// One element of a width, readable at any address: a complex64 is aligned to 4 bytes only.
template <int Width>
struct Word;
template <>
struct __attribute__((packed, may_alias)) Word<1> {
  uint8_t bits;
};
template <>
struct __attribute__((packed, may_alias)) Word<2> {
  uint16_t bits;
};
template <>
struct __attribute__((packed, may_alias)) Word<4> {
  uint32_t bits;
};
template <>
struct __attribute__((packed, may_alias)) Word<8> {
  uint64_t bits;
};
template <>
struct __attribute__((packed, may_alias)) Word<16> {
  uint64_t low, high;
};

// The place of a width in tables: 1, 2, 4, 8, 16 are 0 to 4.
inline int width_slot(size_t width) { return __builtin_ctzll(width); }

// Calls f(std::integral_constant<int, width>).
template <class F>
void with_width(size_t width, F&& f) {
  switch (width) {
    case 1:
      return f(std::integral_constant<int, 1>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    case 4:
      return f(std::integral_constant<int, 4>{});
    case 8:
      return f(std::integral_constant<int, 8>{});
    default:
      return f(std::integral_constant<int, 16>{});
  }
}

}  // namespace sow::detail
