// The window loops for one type and reduction, in plain C++.
#pragma once

#include <cmath>

#include "cpu/cell_kernels.h"
#include "cpu/window_sum.h"

namespace sow::detail {

inline uint32_t float_bits(float value) { return bit_cast<uint32_t>(value); }
inline float to_float(float value) { return value; }
inline float to_float(bfloat16 value) {
  return bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
inline float to_float(float16 value) { return static_cast<float>(widen(value)); }

enum class CellEnd { keep, write, refuse };

template <class T, Reduce R>
struct WindowLoops {
  using State = CheckedSum<T>;

  static void scan(const char* values, int64_t count, WindowRange& range) {
    const T* from = reinterpret_cast<const T*>(values);
    WindowRange r = range;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = float_bits(to_float(from[i])), magnitude = bits & 0x7fffffffu;
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
  static int64_t add_keys(int64_t* cells, uint32_t* seen, const WindowKeys& keys, int64_t first,
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
    const double scale = std::ldexp(1.0, -window.exponent), unit = std::ldexp(1.0, window.exponent);
    for (int64_t i = 0; i < count; ++i) {
      const float value = to_float(values[i]);
      const uint32_t bits = float_bits(value);
      if ((bits & 0x7fffffffu) > window.limit || ids[i] >= extent) return i;
      const double scaled = static_cast<double>(value) * scale;
      const int64_t units = static_cast<int64_t>(scaled);
      const double rest = scaled - static_cast<double>(units);
      if (rest != 0) {
        if (rests.count == rests.room) return i;
        rests.cells[rests.count] = static_cast<uint32_t>(ids[i]);
        rests.values[rests.count++] = rest * unit;
      }
      window.minus_zeros |= bits == 0x80000000u;
      cells[ids[i]] += units;
      if (seen != nullptr) ++seen[ids[i]];
    }
    return count;
  }

  // What becomes of one place. seen < 0: unknown.
  static CellEnd end(int64_t cell, int64_t seen, T old, bool self, Window window, double unit,
                     T& out) {
    const uint32_t old_bits = float_bits(to_float(old)), magnitude = old_bits & 0x7fffffffu;
    if (seen == 0) return CellEnd::keep;
    if (cell == 0) {
      if (seen < 0)
        return magnitude > 0x7f800000u || old_bits == 0x80000000u ? CellEnd::refuse : CellEnd::keep;
      if (window.minus_zeros) return CellEnd::refuse;
    }
    const double sum = static_cast<double>(cell);
    if (static_cast<int64_t>(sum) != cell) return CellEnd::refuse;
    double total = sum * unit, error = 0;
    if (self) {
      if (magnitude >= 0x7f800000u) return CellEnd::refuse;
      total = two_sum(static_cast<double>(to_float(old)), total, error);
    }
    if constexpr (R == Reduce::mean) {
      out = mean_of<T>(total, seen + self);
    } else {
      out = round_pair<T>(total, error);
    }
    return CellEnd::write;
  }

  static int64_t finish(const int64_t* cells, const uint32_t* seen, const Block& block,
                        int64_t begin, int64_t end_cell, Window window, Touched& refused,
                        int64_t room) {
    T* to = reinterpret_cast<T*>(block.first);
    const double unit = std::ldexp(1.0, window.exponent);
    for (int64_t i = begin; i < end_cell; ++i) {
      T result;
      T& place = to[i * block.step];
      const CellEnd what = end(cells[i], seen == nullptr ? -1 : int64_t{seen[i]}, place,
                               block.include_self, window, unit, result);
      if (what == CellEnd::write) place = result;
      if (what != CellEnd::refuse) continue;
      refused.cells[refused.count] = static_cast<uint32_t>(i);
      refused.offsets[refused.count] = i * block.step;
      if (++refused.count == room) return i + 1;
    }
    return end_cell;
  }

  // Exact for every cell that left a rest, whatever else it met.
  static void settle(const int64_t* cells, const uint32_t* seen, const Block& block, Window window,
                     const WindowRests& rests, char* results) {
    const T* old = reinterpret_cast<const T*>(block.first);
    T* out = reinterpret_cast<T*>(results);
    for (int i = 0; i < rests.count; ++i) {
      const uint32_t cell = rests.cells[i];
      LongAccumulator<T> sum;
      sum.add_units(cells[cell], window.exponent - FloatTraits<T>::kUnitExponent);
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
    const double unit = std::ldexp(1.0, window.exponent);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t cell = cells[i];
      if (cell == 0) continue;
      // Two halves, so that both fit a float64.
      const int64_t low = cell & 0xffffffff;
      states[i].merge(State(static_cast<double>(cell - low) * unit, 0, 0));
      states[i].merge(State(static_cast<double>(low) * unit, 0, 0));
      if (!counted) to.counts[i] = 1;
      cells[i] = 0;
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
        const uint32_t bits = float_bits(to_float(old[i * block.step]));
        if (counted || ((bits & 0x7fffffffu) <= 0x7f800000u && bits != 0x80000000u)) continue;
        cells.counts[i] = 1;
        states[i] = refusing;
      } else if (states[i].high() == 0 && states[i].exact()) {
        states[i] = minus_zeros ? refusing : State(0.0, 0, 0);
      }
    }
  }
};

}  // namespace sow::detail
