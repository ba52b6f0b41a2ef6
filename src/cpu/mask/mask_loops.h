// SPDX-License-Identifier: Apache-2.0
// The loops under a mask in plain C++: the portable kernels, and the ends of the others' runs.
#pragma once

#include <cstring>

#include "cpu/common/byte_width.h"

namespace sow::detail {

inline uint64_t load_mask_word(const uint8_t* mask) {
  uint64_t word;
  std::memcpy(&word, mask, 8);
  return word;
}

// Choosing an address instead of branching, because a random mask makes every second prediction
// wrong; and no element is read that is not taken.
template <int Width>
int64_t expand_loop(char* dst, const char* base, const uint8_t* mask, const char* src,
                    int64_t count, int64_t) {
  auto* out = reinterpret_cast<Word<Width>*>(dst);
  const auto* old = reinterpret_cast<const Word<Width>*>(base);
  const auto* values = reinterpret_cast<const Word<Width>*>(src);
  int64_t i = 0;
  auto step = [&](int64_t end) {
    for (; i < end; ++i) {
      const bool take = mask[i] != 0;
      out[i] = *(take ? values : old + i);
      values += take;
    }
  };
  while (i + 8 <= count) {
    if (load_mask_word(mask + i) != 0) {
      step(i + 8);
      continue;
    }
    if (dst != base) std::memcpy(out + i, old + i, 8 * Width);
    i += 8;
  }
  step(count);
  return values - reinterpret_cast<const Word<Width>*>(src);
}

template <int Width>
int64_t compress_loop(char* dst, const uint8_t* mask, const char* src, int64_t count,
                      int64_t room) {
  auto* out = reinterpret_cast<Word<Width>*>(dst);
  const auto* values = reinterpret_cast<const Word<Width>*>(src);
  int64_t rank = 0;
  int64_t i = 0;
  for (; i + 8 <= count && rank + 8 <= room; i += 8) {
    if (load_mask_word(mask + i) == 0) continue;
    for (int64_t j = i; j < i + 8; ++j) {
      out[rank] = values[j];
      rank += mask[j] != 0;
    }
  }
  for (; i < count; ++i) {
    if (mask[i] != 0) out[rank++] = values[i];
  }
  return rank;
}

// Both are there to be read, so the choice is arithmetic that the compiler turns into vectors.
template <class Bits>
Bits choose_bits(bool take, Bits value, Bits old) {
  const Bits all = static_cast<Bits>(-static_cast<Bits>(take));
  return static_cast<Bits>((value & all) | (old & ~all));
}

template <int Width, bool Same>
void blend_loop(char* dst, const char* base, const uint8_t* mask, const char* src, int64_t count) {
  auto* out = reinterpret_cast<Word<Width>*>(dst);
  const auto* old = reinterpret_cast<const Word<Width>*>(base);
  const auto* values = reinterpret_cast<const Word<Width>*>(src);
  Word<Width> value{};
  if constexpr (Same) value = *values;
  for (int64_t i = 0; i < count; ++i) {
    const bool take = mask[i] != 0;
    if constexpr (!Same) value = values[i];
    if constexpr (Width == 16) {
      out[i].low = choose_bits<uint64_t>(take, value.low, old[i].low);
      out[i].high = choose_bits<uint64_t>(take, value.high, old[i].high);
    } else {
      out[i].bits =
          choose_bits(take, decltype(value.bits)(value.bits), decltype(value.bits)(old[i].bits));
    }
  }
}

}  // namespace sow::detail
