// Float sums in one plain float64 per place, good as long as every addition is exact: nearly always
// where updates are few. Nothing is written before all of them are known to be.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/fold/cell_kernels.h"
#include "cpu/sum/fixed_point.h"

namespace sow::detail {

template <class T>
class Float64Sum {
 public:
  // False, with nothing written, if a sum may not be exact, and for infinities and NaN.
  static bool run(const PlaceRange& block, int64_t places, double* sums, const uint32_t* cells,
                  const char* values, int64_t count) {
    return by_isa(run_here<false>, run_avx2, run_avx512)(block, places, sums, cells, values, count);
  }

 private:
  using Traits = FloatTraits<T>;
  using Bits = typename Traits::Bits;
  static constexpr int64_t kSize = sizeof(T);

  SOW_TARGET_AVX512 static bool run_avx512(const PlaceRange& block, int64_t places, double* sums,
                                           const uint32_t* cells, const char* values,
                                           int64_t count) {
    return run_here<true>(block, places, sums, cells, values, count);
  }
  SOW_TARGET_AVX2 static bool run_avx2(const PlaceRange& block, int64_t places, double* sums,
                                       const uint32_t* cells, const char* values, int64_t count) {
    return run_here<true>(block, places, sums, cells, values, count);
  }

  template <bool MaskedStores>
  [[gnu::always_inline]] static inline bool run_here(const PlaceRange& block, int64_t places,
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
      seen.include(load_element<Bits>(values + i * kSize) & static_cast<Bits>(~Traits::kSign));
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
