// Sums of values of any exponent in the limbs of float32: what leaves a window comes here where
// places are few and updates many. One addition an update, none inexact.
#pragma once

#include "cpu/cell_kernels.h"
#include "cpu/window_form.h"

namespace sow::detail {

template <class T>
struct LimbLoops {
  using Format = LimbFormat<float>;
  static_assert(Format::kDirect == kLimbs && Format::kAdditionsBeforeCarry >= kLimbUpdates);

  template <class Id>
  static int64_t add_each(int64_t* limbs, uint32_t* seen, const Id* ids, uint32_t extent,
                          const T* values, int64_t count, bool& minus_zeros) {
    for (int64_t i = 0; i < count; ++i) {
      const Term<float> term(to_float(values[i]));
      if (!term.finite() || ids[i] >= extent) return i;
      minus_zeros |= term.negative() && term.magnitude() == 0;
      limbs[static_cast<int64_t>(ids[i]) * kLimbs + Format::limb(term)] +=
          Format::amount(term, term.negative());
      if (seen != nullptr) ++seen[ids[i]];
    }
    return count;
  }
  static int64_t add(int64_t* limbs, uint32_t* seen, const KeyedValues& keys, int64_t first,
                     int64_t count, bool& minus_zeros) {
    const T* values = reinterpret_cast<const T*>(keys.values) + first;
    if (keys.wide) {
      const auto* ids = reinterpret_cast<const uint64_t*>(keys.data) + first;
      return add_each(limbs, seen, ids, keys.extent, values, count, minus_zeros);
    }
    const auto* ids = reinterpret_cast<const uint32_t*>(keys.data) + first;
    return add_each(limbs, seen, ids, keys.extent, values, count, minus_zeros);
  }

  static void flush(int64_t* limbs, const Cells& to, int64_t count, bool counted) {
    using State = CheckedSum<T>;
    State* states = reinterpret_cast<State*>(to.states);
    for (int64_t i = 0; i < count; ++i) {
      for (int limb = kLimbs - 1; limb >= 0; --limb) {
        int64_t& number = limbs[i * kLimbs + limb];
        if (number == 0) continue;
        // Two halves, so that both fit a float64.
        const double unit =
            std::ldexp(1.0, limb * Format::kBinades + FloatTraits<float>::kUnitExponent);
        const int64_t low = number & 0xffffffff;
        states[i].merge(State(static_cast<double>(number - low) * unit, 0, 0));
        states[i].merge(State(static_cast<double>(low) * unit, 0, 0));
        if (!counted) to.counts[i] = 1;
        number = 0;
      }
    }
  }

  static constexpr auto kAdd = add;
  static constexpr auto kFlush = flush;
};

template <>
struct LimbLoops<double> {
  static constexpr std::nullptr_t kAdd = nullptr, kFlush = nullptr;
};

}  // namespace sow::detail
