// SPDX-License-Identifier: Apache-2.0
// Float sums and products in plain float64s per place, where updates are few: good as long as every
// addition is exact, as it nearly always is then. Nothing is written before that is known.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/fold/cell_kernels.h"
#include "cpu/sum/fixed_point.h"
#include "cpu/sum/half_rounding.h"

namespace sow::detail {

template <class T, Reduce R>
class Float64Fold {
 public:
  // Sums of float64 are pairs of which the second holds what the first lost; products may have to
  // be counted.
  static constexpr int kWords = R == Reduce::mul || sizeof(T) == 8 ? 2 : 1;

  // False, with nothing written, if a sum may not be exact, for infinities and NaN, and for
  // products of more than one chunk. No place meets more than `most` of the updates.
  static bool run(const PlaceRange& block, int64_t places, int64_t most, double* memory,
                  const uint32_t* cells, const char* values, int64_t count) {
    return by_isa(run_here<false>, run_avx2, run_avx512)(block, places, most, memory, cells, values,
                                                         count);
  }

 private:
  using Traits = FloatTraits<T>;
  using Bits = typename Traits::Bits;
  static constexpr int64_t kSize = sizeof(T);

  SOW_TARGET_AVX512 static bool run_avx512(const PlaceRange& block, int64_t places, int64_t most,
                                           double* memory, const uint32_t* cells,
                                           const char* values, int64_t count) {
    return run_here<true>(block, places, most, memory, cells, values, count);
  }
  SOW_TARGET_AVX2 static bool run_avx2(const PlaceRange& block, int64_t places, int64_t most,
                                       double* memory, const uint32_t* cells, const char* values,
                                       int64_t count) {
    return run_here<true>(block, places, most, memory, cells, values, count);
  }

  template <bool MaskedStores>
  [[gnu::always_inline]] static inline bool run_here(const PlaceRange& block, int64_t places,
                                                     int64_t most, double* memory,
                                                     const uint32_t* cells, const char* values,
                                                     int64_t count) {
    if constexpr (R == Reduce::mul) {
      if (!multiply(block, places, most, memory, cells, values, count)) return false;
    } else if constexpr (sizeof(T) == 8) {
      if (!add_pairs(block, places, memory, cells, values, count)) return false;
    } else {
      if (!add_narrow(block, places, memory, cells, values, count)) return false;
    }
    // What was not met is as it was, and not written.
    const auto sum_of = [&](int64_t cell) __attribute__((always_inline)) {
      return result_of(block, memory, places, cell);
    };
    T* const to = reinterpret_cast<T*>(block.first);
    if (MaskedStores && sizeof(T) >= 4 && block.step == 1 && block.include_self) {
      for (int64_t i = 0; i < places; ++i) {
        const T sum = sum_of(i);
        if (bit_cast<Bits>(sum) != bit_cast<Bits>(to[i])) to[i] = sum;
      }
    } else if (R == Reduce::mul) {
      for (int64_t i = 0; i < places; ++i) {
        if (memory[i] != 1) to[i * block.step] = sum_of(i);
      }
    } else {
      for (int64_t i = 0; i < count; ++i) to[cells[i] * block.step] = sum_of(cells[i]);
    }
    return true;
  }

  [[gnu::always_inline]] static inline T result_of(const PlaceRange& block, const double* memory,
                                                   int64_t places, int64_t cell) {
    double result = memory[cell];
    if constexpr (R == Reduce::mul) {
      // A product of 1 leaves numbers as they are, and there is nothing else here.
      result *= widen(reinterpret_cast<const T*>(block.first)[cell * block.step]);
      if constexpr (sizeof(T) >= 4) return canonical_nan(static_cast<T>(result));
    } else if constexpr (sizeof(T) == 8) {
      const double rest = memory[places + cell], both = result + rest;
      return rest == 0 ? result : both;  // a sum of -0 stays one
    }
    if constexpr (sizeof(T) == 2) {
      T rounded;
      return __builtin_expect(round_quickly(result, rounded), 1)
                 ? rounded
                 : canonical_nan(static_cast<T>(result));
    } else {
      return static_cast<T>(result);
    }
  }

  [[gnu::always_inline]] static inline void open(const PlaceRange& block, int64_t places,
                                                 double* sums) {
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

  // Old values take part at the end. A NaN among them would not tell whether it was met.
  [[gnu::always_inline]] static inline bool multiply(const PlaceRange& block, int64_t places,
                                                     int64_t most, double* products,
                                                     const uint32_t* cells, const char* values,
                                                     int64_t count) {
    open(block, places, products);
    bool numbers = true;
    for (int64_t i = 0; i < places; ++i) numbers &= products[i] == products[i];
    if (!numbers || !block.include_self) return false;
    std::fill_n(products, places, 1.0);
    if (most <= kMulChunk) {
      for (int64_t i = 0; i < count; ++i) products[cells[i]] *= value_at(values, i);
      return true;
    }
    auto* const counts = reinterpret_cast<uint32_t*>(products + places);
    std::fill_n(counts, places, 0);
    uint32_t often = 0;
    for (int64_t i = 0; i < count; ++i) {
      products[cells[i]] *= value_at(values, i);
      often = std::max(often, ++counts[cells[i]]);
    }
    return often <= kMulChunk;
  }

  // Exact as long as nothing is lost of what the sums lost: pairs are then rounded once.
  [[gnu::always_inline]] static inline bool add_pairs(const PlaceRange& block, int64_t places,
                                                      double* sums, const uint32_t* cells,
                                                      const char* values, int64_t count) {
    open(block, places, sums);
    double* const losses = sums + places;
    std::fill_n(losses, places, 0.0);
    bool exact = true;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t cell = cells[i];
      const double before = sums[cell], x = value_at(values, i), sum = before + x;
      const double part = sum - before, lost = (before - (sum - part)) + (x - part);
      const double rest = losses[cell], more = rest + lost;
      exact &= is_exact_sum(rest, lost, more);
      sums[cell] = sum;
      losses[cell] = more;
    }
    return exact;
  }

  [[gnu::always_inline]] static inline bool add_narrow(const PlaceRange& block, int64_t places,
                                                       double* sums, const uint32_t* cells,
                                                       const char* values, int64_t count) {
    MagnitudeRange seen;
    scan(values, count, 1, seen);
    if (block.include_self) scan(block.first, places, block.step, seen);
    if (seen.largest >= Traits::kInfinity) return false;
    open(block, places, sums);
    // Values that are far apart may never meet: then every addition is looked at.
    const double limit = exact_limit(seen),
                 most = widen(bit_cast<T>(static_cast<Bits>(seen.largest)));
    const bool near = 4 * most <= limit;
    if (near && static_cast<double>(count + 1) * most <= limit) {
      for (int64_t i = 0; i < count; ++i) sums[cells[i]] += value_at(values, i);
      return true;
    }
    if (near && add(sums, cells, values, count) <= limit) return true;
    if (near) open(block, places, sums);
    return add_checked(sums, cells, values, count);
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
    bool exact = true;
    for (int64_t i = 0; i < count; ++i) {
      const double before = sums[cells[i]], x = value_at(values, i), sum = before + x;
      exact &= is_exact_sum(before, x, sum);
      sums[cells[i]] = sum;
    }
    return exact;
  }

  // The bits of T, without a sign, as magnitudes.
  [[gnu::always_inline]] static inline void scan(const char* values, int64_t count, int64_t step,
                                                 MagnitudeRange& range) {
    MagnitudeRange seen = range;
    const auto see = [&](int64_t i) __attribute__((always_inline)) {
      seen.include(static_cast<uint32_t>(load_element<Bits>(values + i * kSize) &
                                         static_cast<Bits>(~Traits::kSign)));
    };
    if (step == 1) {
      for (int64_t i = 0; i < count; ++i) see(i);
    } else {
      for (int64_t i = 0; i < count; ++i) see(i * step);
    }
    range = seen;
  }
  // Every value, and so every sum, is a multiple of the last bit of the smallest: a float64 holds
  // all such multiples up to a limit, and rounds none that is smaller than it, nor one that is
  // larger to below it.
  static double exact_limit(const MagnitudeRange& range) {
    const uint32_t least = range.smallest_less_one + 1;
    const int last_bit =
        std::max(static_cast<int>(least >> (Traits::kDigits - 1)), 1) - 1 + Traits::kUnitExponent;
    return bit_cast<double>(static_cast<uint64_t>(last_bit + 53 + 1023) << 52);
  }
};

}  // namespace sow::detail
