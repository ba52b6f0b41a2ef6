// SPDX-License-Identifier: Apache-2.0
// Several elements moved as one access.
#pragma once

#include <cstdint>

namespace sow::detail::cuda {

template <int Bytes>
struct Word;
template <>
struct Word<1> {
  using type = uint8_t;
};
template <>
struct Word<2> {
  using type = uint16_t;
};
template <>
struct Word<4> {
  using type = uint32_t;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<16> {
  using type = uint4;
};
template <int Bytes>
using WordOf = typename Word<Bytes>::type;

template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

// Calls f(std::integral_constant<int, W>) for the number of bytes W of {1, 2, 4, 8, 16}.
template <class F>
void with_width(int width, F&& f) {
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

}  // namespace sow::detail::cuda
