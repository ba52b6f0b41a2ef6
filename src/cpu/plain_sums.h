// Float sums in one plain float64 a place, good as long as every addition is exact: nearly always
// where updates are few. Nothing is written before all of them are known to be.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/cell_kernels.h"

namespace sow::detail {

template <class T>
class PlainSums {
 public:
  // False, with nothing written, if a sum may not be exact, and for infinities and NaN.
  static bool run(const Block& block, int64_t places, double* sums, const uint32_t* cells,
                  const char* values, int64_t count) {
    switch (current_isa()) {
      case Isa::avx512:
        return run_avx512(block, places, sums, cells, values, count);
      case Isa::avx2:
        return run_avx2(block, places, sums, cells, values, count);
      default:
        return run_here<false>(block, places, sums, cells, values, count);
    }
  }

 private:
  using Traits = FloatTraits<T>;
  using Bits = typename Traits::Bits;
  static constexpr int64_t kSize = sizeof(T);

  SOW_TARGET_AVX512 static bool run_avx512(const Block& block, int64_t places, double* sums,
                                           const uint32_t* cells, const char* values,
                                           int64_t count) {
    return run_here<true>(block, places, sums, cells, values, count);
  }
  SOW_TARGET_AVX2 static bool run_avx2(const Block& block, int64_t places, double* sums,
                                       const uint32_t* cells, const char* values, int64_t count) {
    return run_here<true>(block, places, sums, cells, values, count);
  }

  template <bool MaskedStores>
  [[gnu::always_inline]] static inline bool run_here(const Block& block, int64_t places,
                                                     double* sums, const uint32_t* cells,
                                                     const char* values, int64_t count) {
    Magnitudes seen;
    seen.look_at(values, count, 1);
    if (block.include_self) seen.look_at(block.first, places, block.step);
    if (seen.most >= Traits::kInfinity) return false;
    open(block, places, sums);
    // Values that are far apart may never meet: then every addition is looked at.
    const double limit = seen.limit(), most = widen(bit_cast<T>(static_cast<Bits>(seen.most)));
    const bool near = 4 * most <= limit;
    if (!near || add(sums, cells, values, count) > limit) {
      if (near) open(block, places, sums);
      if (!add_checked(sums, cells, values, count)) return false;
    }
    T* to = reinterpret_cast<T*>(block.first);
    // What was not met is as it was, and not written.
    if (MaskedStores && sizeof(T) == 4 && block.step == 1 && block.include_self) {
      for (int64_t i = 0; i < places; ++i) {
        const T sum = static_cast<T>(sums[i]);
        if (bit_cast<Bits>(sum) != bit_cast<Bits>(to[i])) to[i] = sum;
      }
      return true;
    }
    for (int64_t i = 0; i < count; ++i) to[cells[i] * block.step] = static_cast<T>(sums[cells[i]]);
    return true;
  }

  [[gnu::always_inline]] static inline void open(const Block& block, int64_t places, double* sums) {
    if (!block.include_self) {
      std::fill_n(sums, places, -0.0);  // the identity
      return;
    }
    const T* old = reinterpret_cast<const T*>(block.first);
    if (block.step == 1) {
      for (int64_t i = 0; i < places; ++i) sums[i] = widen(old[i]);
    } else {
      for (int64_t i = 0; i < places; ++i) sums[i] = widen(old[i * block.step]);
    }
  }

  [[gnu::always_inline]] static inline double value_at(const char* values, int64_t i) {
    return widen(load_element<T>(values + i * kSize));
  }

  // The largest magnitude that a sum had.
  [[gnu::always_inline]] static inline double add(double* sums, const uint32_t* cells,
                                                  const char* values, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double sum = sums[cells[i]] + value_at(values, i);
      sums[cells[i]] = sum;
      most = std::max(most, std::abs(sum));
    }
    return most;
  }

  // False if something was lost.
  [[gnu::always_inline]] static inline bool add_checked(double* sums, const uint32_t* cells,
                                                        const char* values, int64_t count) {
    uint64_t lost = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double a = sums[cells[i]];
      const double b = value_at(values, i);
      const double sum = a + b;
      const double b_part = sum - a;  // two_sum, with both errors seen instead of added
      lost |= bit_cast<uint64_t>(a - (sum - b_part)) | bit_cast<uint64_t>(b - b_part);
      sums[cells[i]] = sum;
    }
    return lost << 1 == 0;  // a zero of either sign
  }

  // The bits, without a sign, of the largest value and of the smallest but zero. Every value, and
  // so every sum, is a multiple of the last bit of the smallest: a float64 holds all such multiples
  // up to a limit, and rounds none that is smaller than it, nor one that is larger to below it.
  struct Magnitudes {
    uint32_t most = 0;
    uint32_t least_less_one = UINT32_MAX;  // zero wraps, and is never the least

    [[gnu::always_inline]] inline void look_at(const char* values, int64_t count, int64_t step) {
      uint32_t high = most, low = least_less_one;
      if (step == 1) {
        for (int64_t i = 0; i < count; ++i) look_at(values + i * kSize, high, low);
      } else {
        for (int64_t i = 0; i < count; ++i) look_at(values + i * step * kSize, high, low);
      }
      most = high;
      least_less_one = low;
    }

    double limit() const {
      const int last_bit =
          std::max(static_cast<int>((least_less_one + 1) >> (Traits::kDigits - 1)), 1) - 1 +
          Traits::kUnitExponent;
      return bit_cast<double>(static_cast<uint64_t>(last_bit + 53 + 1023) << 52);
    }

   private:
    [[gnu::always_inline]] static inline void look_at(const char* value, uint32_t& high,
                                                      uint32_t& low) {
      const uint32_t magnitude = load_element<Bits>(value) & static_cast<Bits>(~Traits::kSign);
      high = std::max(high, magnitude);
      low = std::min(low, magnitude - 1);
    }
  };
};

}  // namespace sow::detail
