// The window loops for one type and reduction, in plain C++.
#pragma once

#include "cpu/cell_kernels.h"
#include "cpu/window_form.h"

namespace sow::detail {

enum class CellEnd { keep, write, refuse };

template <class T, Reduce R>
struct WindowLoops {
  using State = CheckedSum<T>;
  using Form = WindowForm<T>;
  using Traits = FloatTraits<T>;
  static constexpr int kWords = Form::kWords;

  static bool is_minus_zero(T value) {
    return bit_cast<typename Traits::Bits>(value) == Traits::kSign;
  }

  static void scan(const char* values, int64_t count, WindowRange& range) {
    const T* from = reinterpret_cast<const T*>(values);
    WindowRange r = range;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = Form::range_bits(from[i]), magnitude = bits & 0x7fffffffu;
      r.largest = std::max(r.largest, magnitude);
      r.smallest_less_one = std::min(r.smallest_less_one, magnitude - 1);
      r.lowest = std::min(r.lowest, static_cast<int32_t>(bits));
    }
    range = r;
  }

  static int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids, const char* values,
                     int64_t count, Window& window, WindowRests& rests, const char*) {
    return add_each(cells, seen, ids, UINT32_MAX, reinterpret_cast<const T*>(values), count, window,
                    rests);
  }
  static int64_t add_keys(int64_t* cells, uint32_t* seen, const KeyedValues& keys, int64_t first,
                          int64_t count, Window& window, WindowRests& rests) {
    const T* values = reinterpret_cast<const T*>(keys.values) + first;
    if (keys.wide) {
      const auto* ids = reinterpret_cast<const uint64_t*>(keys.data) + first;
      return add_each(cells, seen, ids, keys.extent, values, count, window, rests);
    }
    const auto* ids = reinterpret_cast<const uint32_t*>(keys.data) + first;
    return add_each(cells, seen, ids, keys.extent, values, count, window, rests);
  }
  // Negative keys are too large.
  template <class Id>
  static int64_t add_each(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                          const T* values, int64_t count, Window& window, WindowRests& rests) {
    const Form form(window);
    for (int64_t i = 0; i < count; ++i) {
      if (!form.takes(values[i]) || ids[i] >= extent) return i;
      int64_t words[kWords];
      const double rest = form.split(values[i], words);
      if (rest != 0) {
        if (rests.count == rests.room) return i;
        rests.cells[rests.count] = static_cast<uint32_t>(ids[i]);
        rests.values[rests.count++] = rest;
      }
      window.minus_zeros |= is_minus_zero(values[i]);
      window.sum += form.magnitude(words);
      for (int w = 0; w < kWords; ++w) cells[ids[i] * kWords + w] += words[w];
      if (seen != nullptr) ++seen[ids[i]];
    }
    return count;
  }

  // What becomes of one place. seen < 0: unknown. One that met nothing may be another call's, and
  // is not looked at where that is known.
  static CellEnd end(const int64_t* cell, int64_t seen, const T& old, bool self, const Form& form,
                     bool minus_zeros, T& out) {
    if (seen == 0) return CellEnd::keep;
    if (cell[0] == 0 && cell[kWords - 1] == 0) {
      if (seen < 0)
        return Term<T>(old).nan() || is_minus_zero(old) ? CellEnd::refuse : CellEnd::keep;
      if (minus_zeros) return CellEnd::refuse;
    }
    double total, error, lost = 0;
    if (!form.join(cell, total, error) || (self && !Term<T>(old).finite())) {
      out = long_end(cell, seen, old, self, form);
      return CellEnd::write;
    }
    if (self) {
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

  static int64_t finish(const int64_t* cells, const uint32_t* seen, const Block& block,
                        int64_t begin, int64_t end_cell, Window window, Touched& refused,
                        int64_t room) {
    T* to = reinterpret_cast<T*>(block.first);
    const Form form(window);
    for (int64_t i = begin; i < end_cell; ++i) {
      T result;
      T& place = to[i * block.step];
      const CellEnd what = end(cells + i * kWords, seen == nullptr ? -1 : int64_t{seen[i]}, place,
                               block.include_self, form, window.minus_zeros, result);
      if (what == CellEnd::write) place = result;
      if (what != CellEnd::refuse) continue;
      refused.note(i, i * block.step);
      if (refused.count == room) return i + 1;
    }
    return end_cell;
  }

  // Exact for every cell that left a rest, whatever else it met.
  static void settle(const int64_t* cells, const uint32_t* seen, const Block& block, Window window,
                     const WindowRests& rests, char* results) {
    const T* old = reinterpret_cast<const T*>(block.first);
    T* out = reinterpret_cast<T*>(results);
    const Form form(window);
    for (int i = 0; i < rests.count; ++i) {
      const uint32_t cell = rests.cells[i];
      LongAccumulator<T> sum;
      form.add_to(sum, cells + cell * int64_t{kWords});
      for (int j = 0; j < rests.count; ++j) {
        if (rests.cells[j] == cell) sum.add_part(rests.values[j]);
      }
      if (block.include_self) sum.add(old[cell * block.step]);
      if constexpr (R == Reduce::mean) {
        out[i] = mean_of<T>(sum.to_double(), seen[cell] + block.include_self);
      } else {
        out[i] = sum.round();
      }
    }
  }
  static void write(const Block& block, const WindowRests& rests, const char* results) {
    const T* from = reinterpret_cast<const T*>(results);
    T* to = reinterpret_cast<T*>(block.first);
    for (int i = 0; i < rests.count; ++i) to[rests.cells[i] * block.step] = from[i];
  }

  static void flush(int64_t* cells, const Cells& to, int64_t count, Window window,
                    const WindowRests& rests, bool counted) {
    State* states = reinterpret_cast<State*>(to.states);
    const Form form(window);
    for (int64_t i = 0; i < count; ++i) {
      int64_t* cell = cells + i * kWords;
      if (cell[0] == 0 && cell[kWords - 1] == 0) continue;
      form.flush_to(states[i], cell);
      if (!counted) to.counts[i] = 1;
      for (int w = 0; w < kWords; ++w) cell[w] = 0;
    }
    for (int i = 0; i < rests.count; ++i) {
      states[rests.cells[i]].merge(State(rests.values[i], 0, 0));
      if (!counted) to.counts[rests.cells[i]] = 1;
    }
  }

  static void doubt(const Cells& cells, const Block& block, int64_t count, bool minus_zeros,
                    bool counted) {
    State* states = reinterpret_cast<State*>(cells.states);
    const T* old = reinterpret_cast<const T*>(block.first);
    const State refusing(0, 0, HUGE_VAL);
    for (int64_t i = 0; i < count; ++i) {
      if (cells.counts[i] == 0) {
        const T place = old[i * block.step];
        if (counted || !(Term<T>(place).nan() || is_minus_zero(place))) continue;
        cells.counts[i] = 1;
        states[i] = refusing;
      } else if (states[i].high() == 0 && states[i].low() == 0 && states[i].exact()) {
        states[i] = minus_zeros ? refusing : State(0.0, 0, 0);
      }
    }
  }
};

}  // namespace sow::detail
