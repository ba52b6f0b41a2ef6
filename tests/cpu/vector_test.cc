// SPDX-License-Identifier: Apache-2.0
// The vectors of every instruction level beside plain C++, lane by lane.
#if !defined(SOW_LEVEL)

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/exact/exact_sum.h"
#include "core/isa.h"

namespace sow::detail {
namespace {

// Numbers of every size, and those that are special.
std::vector<double> numbers() {
  std::mt19937_64 random(1);
  std::vector<double> found = {0.0,   -0.0,  1.0,      HUGE_VAL, -HUGE_VAL,
                               65504, 65520, 65519.99, 0x1p-24};
  while (found.size() < 4096) {
    const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63,
                                    static_cast<int>(random() % 340) - 170);
    found.push_back(value);
    // Halfway between two of a narrow type, and next to that.
    const double half =
        std::ldexp(static_cast<double>(random() % 8192), -static_cast<int>(random() % 30));
    found.push_back(half);
    found.push_back(std::nextafter(half, random() % 2 == 0 ? 0.0 : HUGE_VAL));
  }
  return found;
}

}  // namespace
}  // namespace sow::detail

#define SOW_KERNELS "../tests/cpu/vector_test.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {
namespace {

TEST(Vector, LanesAreWhatPlainCodeSays) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    SOW_AT_LEVEL(isa, check_masks)();
    SOW_AT_LEVEL(isa, check_integers)();
    SOW_AT_LEVEL(isa, check_rounding<float>)();
    SOW_AT_LEVEL(isa, check_rounding<float16>)();
    SOW_AT_LEVEL(isa, check_rounding<bfloat16>)();
    SOW_AT_LEVEL(isa, check_halves)();
  }
}

}  // namespace
}  // namespace sow::detail

#else

namespace sow::detail::SOW_LEVEL {
namespace {

// Any bit counts, wherever it is.
void check_masks() {
  for (int bit = 0; bit < 8 * kVectorBytes; ++bit) {
    alignas(64) uint64_t words[kLanes64] = {};
    EXPECT_FALSE(any(load<U64>(words)));
    words[bit / 64] = uint64_t{1} << (bit % 64);
    EXPECT_TRUE(any(load<U64>(words))) << bit;
    EXPECT_EQ(bits_of((I64)(load<U64>(words) != 0u)), 1u << (bit / 64));
    EXPECT_EQ(bits_of((I32)(load<U32>(words) != 0u)), 1u << (bit / 32));
  }
}

void check_integers() {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; ++i) {
    alignas(64) int64_t from[2 * kLanes64];
    for (int64_t& word : from) word = static_cast<int64_t>(random()) >> (random() % 64);
    const F64 floats = to_float64(load<I64>(from));
    const I64 even = evens(load<I64>(from), load<I64>(from + kLanes64));
    const U32 odd = odds(load<U32>(from), load<U32>(from + kLanes64));
    const I64 most = max(load<I64>(from), load<I64>(from + kLanes64));
    for (int lane = 0; lane < kLanes64; ++lane) {
      EXPECT_EQ(floats[lane], static_cast<double>(from[lane]));
      EXPECT_EQ(even[lane], from[2 * lane]);
      EXPECT_EQ(most[lane], std::max(from[lane], from[lane + kLanes64]));
    }
    for (int lane = 0; lane < kLanes32; ++lane)
      EXPECT_EQ(odd[lane], static_cast<uint64_t>(from[lane]) >> 32);
  }
}

template <class T>
void check_rounding() {
  const std::vector<double> values = numbers();
  for (size_t i = 0; i + kLanes64 <= values.size(); i += kLanes64) {
    const HalfU32 bits = rounded_bits<T>(load<F64>(values.data() + i));
    for (int lane = 0; lane < kLanes64; ++lane) {
      const T expected(values[i + static_cast<size_t>(lane)]);
      EXPECT_EQ(bits[lane], uint32_t{bit_cast<typename FloatTraits<T>::Bits>(expected)})
          << values[i + static_cast<size_t>(lane)];
    }
    // No lane that was not asked for is written.
    for (uint32_t which = 0; which < 1u << std::min(kLanes64, 4); ++which) {
      T to[kLanes64];
      std::memset(to, 0x55, sizeof(to));
      store_lanes(to, which, load<F64>(values.data() + i));
      for (int lane = 0; lane < kLanes64; ++lane) {
        const uint32_t found{bit_cast<typename FloatTraits<T>::Bits>(to[lane])};
        EXPECT_EQ(found, (which >> lane & 1) != 0 ? bits[lane]
                         : sizeof(T) == 4         ? 0x55555555
                                                  : 0x5555);
      }
    }
  }
}

void check_halves() {
  for (uint32_t first = 0; first < 65536; first += kLanes32) {
    uint16_t bits[kLanes32];
    for (int lane = 0; lane < kLanes32; ++lane) bits[lane] = static_cast<uint16_t>(first + lane);
    const F32 halves = load_floats(reinterpret_cast<const float16*>(bits));
    const F32 brains = load_floats(reinterpret_cast<const bfloat16*>(bits));
    for (int lane = 0; lane < kLanes32; ++lane) {
      const auto half = static_cast<float>(float16::from_bits(bits[lane]));
      const auto brain = static_cast<float>(bfloat16::from_bits(bits[lane]));
      if (half == half) {
        EXPECT_EQ(((U32)halves)[lane], bit_cast<uint32_t>(half));
      } else {
        EXPECT_NE(halves[lane], halves[lane]);
      }
      EXPECT_EQ(((U32)brains)[lane], uint32_t{bits[lane]} << 16);
      EXPECT_TRUE(brain != brain || brain == brains[lane]);
    }
  }
}

}  // namespace
}  // namespace sow::detail::SOW_LEVEL

#endif
