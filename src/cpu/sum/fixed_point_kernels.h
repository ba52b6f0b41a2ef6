// SPDX-License-Identifier: Apache-2.0
// The fixed-point loops for one type and reduction, in plain C++.
#pragma once

#include "cpu/fold/cell_kernels.h"
#include "cpu/sum/fixed_point_form.h"

namespace sow::detail {

enum class CellEnd { keep, write, inconclusive };

template <class T, Reduce R>
struct FixedPointLoops {
  using State = CheckedSum<T>;
  using Form = FixedPointForm<T>;
  using Traits = FloatTraits<T>;
  static constexpr int kWords = Form::kWords;

  static bool is_minus_zero(T value) {
    return bit_cast<typename Traits::Bits>(value) == Traits::kSign;
  }

  static void scan(const char* values, int64_t count, MagnitudeRange& range) {
    const T* from = reinterpret_cast<const T*>(values);
    MagnitudeRange r = range;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = Form::range_bits(from[i]);
      r.include(bits & 0x7fffffffu);
      r.lowest = std::min(r.lowest, static_cast<int32_t>(bits));
    }
    range = r;
  }

  static int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids, const char* values,
                     int64_t count, FixedPointScale& scale, Residuals& residuals, const char*) {
    return add_each(cells, seen, ids, UINT32_MAX, reinterpret_cast<const T*>(values), count, scale,
                    residuals);
  }
  static int64_t add_keys(int64_t* cells, uint32_t* seen, const KeyedValues& keys, int64_t first,
                          int64_t count, FixedPointScale& scale, Residuals& residuals) {
    const T* values = reinterpret_cast<const T*>(keys.values) + first;
    if (keys.int64_keys) {
      const auto* ids = reinterpret_cast<const uint64_t*>(keys.data) + first;
      return add_each(cells, seen, ids, keys.extent, values, count, scale, residuals);
    }
    const auto* ids = reinterpret_cast<const uint32_t*>(keys.data) + first;
    return add_each(cells, seen, ids, keys.extent, values, count, scale, residuals);
  }
  // Negative keys are too large.
  template <class Id>
  static int64_t add_each(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                          const T* values, int64_t count, FixedPointScale& scale,
                          Residuals& residuals) {
    const Form form(scale);
    for (int64_t i = 0; i < count; ++i) {
      if (!form.takes(values[i]) || ids[i] >= extent) return i;
      int64_t words[kWords];
      const double rest = form.split(values[i], words);
      if (rest != 0) {
        if (residuals.count == residuals.room) return i;
        residuals.cells[residuals.count] = static_cast<uint32_t>(ids[i]);
        residuals.values[residuals.count++] = rest;
      }
      scale.minus_zeros |= is_minus_zero(values[i]);
      scale.sum += form.magnitude(words);
      for (int w = 0; w < kWords; ++w) cells[ids[i] * kWords + w] += words[w];
      if (seen != nullptr) ++seen[ids[i]];
    }
    return count;
  }

  // What becomes of one place. seen < 0: unknown. One that met nothing may be another call's, and
  // is not looked at where that is known.
  [[gnu::always_inline]] static inline CellEnd end(const int64_t* cell, int64_t seen, const T& old,
                                                   bool self, const Form& form, bool minus_zeros,
                                                   T& out) {
    if (seen == 0) return CellEnd::keep;
    if (cell[0] == 0 && cell[kWords - 1] == 0) {
      if (seen < 0)
        return Term<T>(old).nan() || is_minus_zero(old) ? CellEnd::inconclusive : CellEnd::keep;
      if (minus_zeros) return CellEnd::inconclusive;
    }
    double total, error, lost = 0;
    if (!form.join(cell, total, error) || (self && !Term<T>(old).finite())) {
      out = long_end(cell, seen, old, self, form);
      return CellEnd::write;
    }
    if (self && kWords == 1) {
      total = two_sum(widen(old), total, error);  // one word leaves no error of its own
    } else if (self) {
      double rest;
      total = two_sum(widen(old), total, rest);
      error = two_sum(rest, error, lost);
    }
    if (lost != 0) {
      out = long_end(cell, seen, old, self, form);
    } else if constexpr (R == Reduce::mean) {
      out = mean_of<T>(round_pair<double>(total, error), seen + self);
    } else {
      out = round_pair<T>(total, error);
    }
    return CellEnd::write;
  }
  [[gnu::noinline]] static T long_end(const int64_t* cell, int64_t seen, T old, bool self,
                                      const Form& form) {
    LongAccumulator<T> sum;
    sum.add_flags({SumFlags::kNotMinusZero});
    form.add_to(sum, cell);
    if (self) sum.add(old);
    if constexpr (R == Reduce::mean) return mean_of<T>(sum.to_double(), seen + self);
    return sum.round();
  }

  static int64_t finish(const int64_t* cells, const uint32_t* seen, const PlaceRange& block,
                        int64_t begin, int64_t end_cell, FixedPointScale scale,
                        Touched& inconclusive, int64_t room) {
    T* to = reinterpret_cast<T*>(block.first);
    const Form form(scale);
    for (int64_t i = begin; i < end_cell; ++i) {
      T result;
      T& place = to[i * block.step];
      const CellEnd what = end(cells + i * kWords, seen == nullptr ? -1 : int64_t{seen[i]}, place,
                               block.include_self, form, scale.minus_zeros, result);
      if (what == CellEnd::write) place = result;
      if (what != CellEnd::inconclusive) continue;
      inconclusive.note(i, i * block.step);
      if (inconclusive.count == room) return i + 1;
    }
    return end_cell;
  }

  // Exact for every cell that left a residual, whatever else it met.
  static void resolve(const int64_t* cells, const uint32_t* seen, const PlaceRange& block,
                      FixedPointScale scale, const Residuals& residuals, char* results) {
    const T* old = reinterpret_cast<const T*>(block.first);
    T* out = reinterpret_cast<T*>(results);
    const Form form(scale);
    for (int i = 0; i < residuals.count; ++i) {
      const uint32_t cell = residuals.cells[i];
      LongAccumulator<T> sum;
      form.add_to(sum, cells + cell * int64_t{kWords});
      for (int j = 0; j < residuals.count; ++j) {
        if (residuals.cells[j] == cell) sum.add_part(residuals.values[j]);
      }
      if (block.include_self) sum.add(old[cell * block.step]);
      if constexpr (R == Reduce::mean) {
        out[i] = mean_of<T>(sum.to_double(), seen[cell] + block.include_self);
      } else {
        out[i] = sum.round();
      }
    }
  }
  static void write(const PlaceRange& block, const Residuals& residuals, const char* results) {
    const T* from = reinterpret_cast<const T*>(results);
    T* to = reinterpret_cast<T*>(block.first);
    for (int i = 0; i < residuals.count; ++i) to[residuals.cells[i] * block.step] = from[i];
  }

  static void flush(int64_t* cells, const Cells& to, int64_t count, FixedPointScale scale,
                    const Residuals& residuals, bool counted) {
    State* states = reinterpret_cast<State*>(to.states);
    const Form form(scale);
    for (int64_t i = 0; i < count; ++i) {
      int64_t* cell = cells + i * kWords;
      if (cell[0] == 0 && cell[kWords - 1] == 0) continue;
      form.flush_to(states[i], cell);
      if (!counted) to.counts[i] = 1;
      for (int w = 0; w < kWords; ++w) cell[w] = 0;
    }
    for (int i = 0; i < residuals.count; ++i) {
      states[residuals.cells[i]].merge(State(residuals.values[i], 0, 0));
      if (!counted) to.counts[residuals.cells[i]] = 1;
    }
  }

  static void mark_inconclusive(const Cells& cells, const PlaceRange& block, int64_t count,
                                bool minus_zeros, bool counted) {
    State* states = reinterpret_cast<State*>(cells.states);
    const T* old = reinterpret_cast<const T*>(block.first);
    const State inconclusive(0, 0, HUGE_VAL);
    for (int64_t i = 0; i < count; ++i) {
      if (cells.counts[i] == 0) {
        const T place = old[i * block.step];
        if (counted || !(Term<T>(place).nan() || is_minus_zero(place))) continue;
        cells.counts[i] = 1;
        states[i] = inconclusive;
      } else if (states[i].high() == 0 && states[i].low() == 0 && states[i].exact()) {
        states[i] = minus_zeros ? inconclusive : State(0.0, 0, 0);
      }
    }
  }
};

}  // namespace sow::detail
