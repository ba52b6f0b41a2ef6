// The loops of SinglesFold for one type and reduction.
#pragma once

#include "cpu/cell_kernels.h"
#include "cpu/quick_half.h"
#include "cpu/strips.h"

namespace sow::detail {

template <class T, Reduce R>
struct SinglesKernels {
  using A = Accumulator<T, R>;
  using State = typename A::State;
  static constexpr int64_t kSize = sizeof(T);

  static int64_t apply(const Singles& singles) {
    return singles.narrow ? apply_stamped<uint16_t>(singles) : apply_stamped<uint32_t>(singles);
  }
  template <class Stamp>
  static int64_t apply_stamped(const Singles& singles) {
    const Block& block = singles.block;
    const bool plain = block.step == 1 && block.include_self;
    return plain ? apply_each<Stamp>(singles, 1, true)
                 : apply_each<Stamp>(singles, block.step, block.include_self);
  }
  template <class Stamp>
  [[gnu::always_inline]] static int64_t apply_each(const Singles& singles, int64_t step,
                                                   bool self) {
    T* const data = reinterpret_cast<T*>(singles.block.first);
    Stamp* const stamps = reinterpret_cast<Stamp*>(singles.stamps);
    const uint32_t* const cells = singles.cells;
    const char* const values = singles.values;
    char* const olds = singles.olds;
    uint32_t* const again = singles.again;
    const uint32_t begin = singles.begin;
    int64_t listed = 0;
    SentAhead ahead(singles, kSize);
    for (int64_t first = 0; first < singles.count; first += SentAhead::kStrip) {
      ahead.send(first);
      const int64_t last = std::min(first + SentAhead::kStrip, singles.count);
      for (int64_t i = first; i < last; ++i) {
        const uint32_t cell = cells[i];
        const uint32_t stamp = stamps[cell], mine = begin + static_cast<uint32_t>(i);
        stamps[cell] = static_cast<Stamp>(stamp < begin ? mine : stamp);
        again[listed] = static_cast<uint32_t>(i);
        listed += stamp >= begin;
        const T old = data[cell * step];
        store_element(olds + i * kSize, old);
        data[cell * step] = alone(old, self, load_element<T>(values + i * kSize));
      }
    }
    return listed;
  }

  // single_update(), but quicker. Of two numbers the float64 sum, half of it and the product round
  // to a narrow type as the exact ones do; those of float32 and float64 round once as well.
  [[gnu::always_inline]] static T alone(const T& old, bool self, const T& x) {
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

  static bool fold_again(const Singles& singles, int64_t listed, const Cells& cells,
                         uint32_t* slots, Touched& touched) {
    return singles.narrow ? fold_stamped<uint16_t>(singles, listed, cells, slots, touched)
                          : fold_stamped<uint32_t>(singles, listed, cells, slots, touched);
  }
  template <class Stamp>
  static bool fold_stamped(const Singles& singles, int64_t listed, const Cells& cells,
                           uint32_t* slots, Touched& touched) {
    if constexpr (kPlain) {
      if (sum_plainly<Stamp>(singles, listed, cells, slots)) return true;
      for (int64_t i = 0; i < listed; ++i) slots[first_of<Stamp>(singles, singles.again[i])] = 0;
    }
    const Block& block = singles.block;
    T* const data = reinterpret_cast<T*>(block.first);
    State* const states = reinterpret_cast<State*>(cells.states);
    for (int64_t i = 0; i < listed; ++i) {
      const uint32_t update = singles.again[i], first = first_of<Stamp>(singles, update);
      if (slots[first] == 0) {
        const T old = old_of(singles, first);
        const int64_t slot = touched.count++, offset = singles.cells[update] * block.step;
        data[offset] = old;
        touched.offsets[slot] = offset;
        touched.cells[slot] = static_cast<uint32_t>(slot);
        State state = A::start();
        if (block.include_self && R != Reduce::assign) A::seed(state, old);
        A::add(state, value_of(singles, first), 0);
        A::add(state, value_of(singles, update), 1);
        states[slot] = state;
        cells.counts[slot] = 2;
        slots[first] = static_cast<uint32_t>(slot + 1);
        continue;
      }
      const uint32_t slot = slots[first] - 1;
      A::add(states[slot], value_of(singles, update), cells.counts[slot]++);
    }
    return false;
  }

 private:
  // Sums of a few numbers that are all exact in float64 need nothing else.
  static constexpr bool kPlain = is_float_sum<T, R> && sizeof(T) < sizeof(double);
  struct Plain {
    double sum;
    uint32_t cell, updates;
    // Whether nothing was lost. Where one of the two differences is exact, it tells.
    bool add(double x) {
      const double before = sum;
      sum = before + x;
      ++updates;
      return (sum - before == x) & (sum - x == before);
    }
  };
  template <class Stamp>
  static bool sum_plainly(const Singles& singles, int64_t listed, const Cells& cells,
                          uint32_t* slots) {
    static_assert(sizeof(Plain) <= sizeof(State) && alignof(Plain) <= alignof(State));
    const Block& block = singles.block;
    T* const data = reinterpret_cast<T*>(block.first);
    Plain* const sums = reinterpret_cast<Plain*>(cells.states);
    bool exact = true;
    uint32_t count = 0;
    for (int64_t i = 0; i < listed; ++i) {
      const uint32_t update = singles.again[i], first = first_of<Stamp>(singles, update);
      uint32_t slot = slots[first];
      if (slot == 0) {
        slots[first] = slot = ++count;
        Plain sum{widen(value_of(singles, first)), singles.cells[update], 0};
        if (block.include_self) exact &= sum.add(widen(old_of(singles, first)));
        sum.updates = 1;
        exact &= sum.add(widen(value_of(singles, update)));
        sums[slot - 1] = sum;
        continue;
      }
      exact &= sums[slot - 1].add(widen(value_of(singles, update)));
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

  template <class Stamp>
  static uint32_t first_of(const Singles& singles, uint32_t update) {
    return reinterpret_cast<const Stamp*>(singles.stamps)[singles.cells[update]] - singles.begin;
  }
  static T value_of(const Singles& singles, uint32_t update) {
    return load_element<T>(singles.values + int64_t{update} * kSize);
  }
  static T old_of(const Singles& singles, uint32_t update) {
    return load_element<T>(singles.olds + int64_t{update} * kSize);
  }
};

}  // namespace sow::detail
