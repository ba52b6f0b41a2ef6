// SPDX-License-Identifier: Apache-2.0
// The loops of UniqueFold for one type and reduction.
#pragma once

#include "cpu/fold/cell_kernels.h"
#include "cpu/fold/unique_prefetch.h"
#include "cpu/sum/half_rounding.h"

namespace sow::detail {

template <class T, Reduce R>
struct UniqueLoops {
  using A = Accumulator<T, R>;
  using State = typename A::State;
  static constexpr int64_t kSize = sizeof(T);

  static int64_t apply(const UniqueUpdates& unique) {
    return unique.short_marks ? apply_marked<uint16_t>(unique) : apply_marked<uint32_t>(unique);
  }
  template <class Mark>
  static int64_t apply_marked(const UniqueUpdates& unique) {
    const PlaceRange& block = unique.block;
    const bool plain = block.step == 1 && block.include_self;
    return plain ? apply_each<Mark>(unique, 1, true)
                 : apply_each<Mark>(unique, block.step, block.include_self);
  }
  template <class Mark>
  [[gnu::always_inline]] static int64_t apply_each(const UniqueUpdates& unique, int64_t step,
                                                   bool self) {
    T* const data = reinterpret_cast<T*>(unique.block.first);
    Mark* const epoch_marks = reinterpret_cast<Mark*>(unique.epoch_marks);
    const uint32_t* const cells = unique.cells;
    const char* const values = unique.values;
    char* const olds = unique.olds;
    uint32_t* const repeated = unique.repeated;
    const uint32_t begin = unique.begin;
    int64_t listed = 0;
    UniquePrefetch ahead(unique, kSize);
    for (int64_t first = 0; first < unique.count; first += UniquePrefetch::kBatch) {
      ahead.issue(first);
      const int64_t last = std::min(first + UniquePrefetch::kBatch, unique.count);
      for (int64_t i = first; i < last; ++i) {
        const uint32_t cell = cells[i];
        const uint32_t mark = epoch_marks[cell], mine = begin + static_cast<uint32_t>(i);
        epoch_marks[cell] = static_cast<Mark>(mark < begin ? mine : mark);
        repeated[listed] = static_cast<uint32_t>(i);
        listed += mark >= begin;
        const T old = data[cell * step];
        store_element(olds + i * kSize, old);
        data[cell * step] = only_update(old, self, load_element<T>(values + i * kSize));
      }
    }
    return listed;
  }

  // single_update(), but quicker. Of two numbers the float64 sum, half of it and the product round
  // to a narrow type as the exact ones do; those of float32 and float64 round once as well.
  [[gnu::always_inline]] static T only_update(const T& old, bool self, const T& x) {
    if constexpr (std::is_floating_point_v<T> && (R == Reduce::add || R == Reduce::mul)) {
      const T both = !self ? x : R == Reduce::add ? old + x : old * x;
      return __builtin_expect(both == both, 1) ? both : canonical_nan(both);
    } else if constexpr (is_float_element<T> && sizeof(T) == 2 &&
                         (is_float_sum<T, R> || R == Reduce::mul)) {
      const double a = widen(old), b = widen(x);
      const double both = !self               ? b
                          : R == Reduce::add  ? a + b
                          : R == Reduce::mean ? (a + b) * 0.5
                                              : a * b;
      T out;
      return __builtin_expect(round_quickly(both, out), 1) ? out
                                                           : single_update<T, R>(old, self, x);
    } else {
      return single_update<T, R>(old, self, x);
    }
  }

  static bool fold_repeated(const UniqueUpdates& unique, int64_t listed, const Cells& cells,
                            uint32_t* slots, Touched& touched) {
    return unique.short_marks ? fold_marked<uint16_t>(unique, listed, cells, slots, touched)
                              : fold_marked<uint32_t>(unique, listed, cells, slots, touched);
  }
  template <class Mark>
  static bool fold_marked(const UniqueUpdates& unique, int64_t listed, const Cells& cells,
                          uint32_t* slots, Touched& touched) {
    if constexpr (kPlain) {
      if (sum_plainly<Mark>(unique, listed, cells, slots)) return true;
      for (int64_t i = 0; i < listed; ++i) slots[first_of<Mark>(unique, unique.repeated[i])] = 0;
    }
    const PlaceRange& block = unique.block;
    T* const data = reinterpret_cast<T*>(block.first);
    State* const states = reinterpret_cast<State*>(cells.states);
    for (int64_t i = 0; i < listed; ++i) {
      const uint32_t update = unique.repeated[i], first = first_of<Mark>(unique, update);
      if (slots[first] == 0) {
        const T old = old_of(unique, first);
        const int64_t slot = touched.count++, offset = unique.cells[update] * block.step;
        data[offset] = old;
        touched.offsets[slot] = offset;
        touched.cells[slot] = static_cast<uint32_t>(slot);
        State state = A::start();
        if (block.include_self && R != Reduce::assign) A::seed(state, old);
        A::add(state, value_of(unique, first), 0);
        A::add(state, value_of(unique, update), 1);
        states[slot] = state;
        cells.counts[slot] = 2;
        slots[first] = static_cast<uint32_t>(slot + 1);
        continue;
      }
      const uint32_t slot = slots[first] - 1;
      A::add(states[slot], value_of(unique, update), cells.counts[slot]++);
    }
    return false;
  }

 private:
  // Sums of a few numbers that are all exact in float64 need nothing else.
  static constexpr bool kPlain = is_float_sum<T, R> && sizeof(T) < sizeof(double);
  struct Plain {
    double sum;
    uint32_t cell, updates;
    // Whether nothing was lost.
    bool add(double x) {
      const double before = sum;
      sum = before + x;
      ++updates;
      return is_exact_sum(before, x, sum);
    }
  };
  template <class Mark>
  static bool sum_plainly(const UniqueUpdates& unique, int64_t listed, const Cells& cells,
                          uint32_t* slots) {
    static_assert(sizeof(Plain) <= sizeof(State) && alignof(Plain) <= alignof(State));
    const PlaceRange& block = unique.block;
    T* const data = reinterpret_cast<T*>(block.first);
    Plain* const sums = reinterpret_cast<Plain*>(cells.states);
    bool exact = true;
    uint32_t count = 0;
    for (int64_t i = 0; i < listed; ++i) {
      const uint32_t update = unique.repeated[i], first = first_of<Mark>(unique, update);
      uint32_t slot = slots[first];
      if (slot == 0) {
        slots[first] = slot = ++count;
        Plain sum{widen(value_of(unique, first)), unique.cells[update], 0};
        if (block.include_self) exact &= sum.add(widen(old_of(unique, first)));
        sum.updates = 1;
        exact &= sum.add(widen(value_of(unique, update)));
        sums[slot - 1] = sum;
        continue;
      }
      exact &= sums[slot - 1].add(widen(value_of(unique, update)));
    }
    if (!exact) return false;
    for (uint32_t slot = 0; slot < count; ++slot) {
      const Plain& sum = sums[slot];
      data[sum.cell * block.step] = R == Reduce::add
                                        ? static_cast<T>(sum.sum)
                                        : mean_of<T>(sum.sum, sum.updates + block.include_self);
    }
    return true;
  }

  template <class Mark>
  static uint32_t first_of(const UniqueUpdates& unique, uint32_t update) {
    return reinterpret_cast<const Mark*>(unique.epoch_marks)[unique.cells[update]] - unique.begin;
  }
  static T value_of(const UniqueUpdates& unique, uint32_t update) {
    return load_element<T>(unique.values + int64_t{update} * kSize);
  }
  static T old_of(const UniqueUpdates& unique, uint32_t update) {
    return load_element<T>(unique.olds + int64_t{update} * kSize);
  }
};

}  // namespace sow::detail
