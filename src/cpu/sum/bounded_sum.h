// SPDX-License-Identifier: Apache-2.0
// Sums of values of any exponent, in plain C++: see BoundedSums.
#pragma once

#include "cpu/sum/fixed_point_kernels.h"

namespace sow::detail {

// An addition rounds away half of the last digit of its sum at most.
inline constexpr double kRounding = 0x1p-53;
// What a cell lost that met nothing: whatever is added to it, it is -0 no more. The place says
// nothing: it may be another call's, between the places of this one.
inline constexpr double kNothingMet = -0.0;

template <class T, Reduce R>
struct BoundedLoops {
  using A = Accumulator<T, R>;
  using State = typename A::State;
  static_assert(sizeof(State) == 2 * sizeof(double));

  static State* states_of(const Cells& cells) { return reinterpret_cast<State*>(cells.states); }

  static void open(const Cells& cells, const PlaceRange& block, int64_t count) {
    State* states = states_of(cells);
    const T* old = reinterpret_cast<const T*>(block.first);
    for (int64_t i = 0; i < count; ++i) {
      states[i] = State(block.include_self ? widen(old[i * block.step]) : -0.0, 0, kNothingMet);
    }
  }
  static bool is_met(const State& state) {
    return bit_cast<uint64_t>(state.lost()) != bit_cast<uint64_t>(kNothingMet);
  }

  static void add_one(State& state, double value) {
    const double sum = state.high() + value;
    state = State(sum, 0, state.lost() + absolute(sum) * kRounding);
  }
  static void add(const Cells& cells, bool counted, const uint32_t* ids, const char* values,
                  int64_t count, const char*) {
    add_each(cells, counted, ids, UINT32_MAX, reinterpret_cast<const T*>(values), count);
  }
  static int64_t add_keys(const Cells& cells, bool counted, const KeyedValues& keys, int64_t first,
                          int64_t count) {
    const T* values = reinterpret_cast<const T*>(keys.values) + first;
    if (keys.int64_keys) {
      const auto* ids = reinterpret_cast<const uint64_t*>(keys.data) + first;
      return add_each(cells, counted, ids, keys.extent, values, count);
    }
    const auto* ids = reinterpret_cast<const uint32_t*>(keys.data) + first;
    return add_each(cells, counted, ids, keys.extent, values, count);
  }
  // Negative keys are too large.
  template <class Id>
  static int64_t add_each(const Cells& cells, bool counted, const Id* ids, uint32_t extent,
                          const T* values, int64_t count) {
    State* states = states_of(cells);
    for (int64_t i = 0; i < count; ++i) {
      if (ids[i] >= extent) return i;
      add_one(states[ids[i]], widen(values[i]));
      if (counted) ++cells.counts[ids[i]];
    }
    return count;
  }
  static void add_pairs(const Cells& cells, const uint64_t* pairs, int64_t count, const void*) {
    State* states = states_of(cells);
    for (int64_t i = 0; i < count; ++i) {
      const auto value = bit_cast<float>(static_cast<uint32_t>(pairs[i] >> 32));
      add_one(states[static_cast<uint32_t>(pairs[i])], value);
    }
  }

  static void merge(const Cells& to, const Cells& from, int64_t begin, int64_t end, bool counted) {
    State* mine = states_of(to);
    const State* theirs = states_of(from);
    for (int64_t i = begin; i < end; ++i) {
      if (is_met(theirs[i])) mine[i].merge(theirs[i]);
    }
    if (!counted) return;
    for (int64_t i = begin; i < end; ++i) to.counts[i] += from.counts[i];
  }

  // Where updates are not counted, a cell may have met zeros in fixed point, which forgets
  // them: they make a -0 of it 0, and a NaN that was there a plain one.
  static CellEnd end(const State& state, const Cells& cells, int64_t cell, bool counted, bool self,
                     T& out) {
    const uint32_t seen = counted ? cells.counts[cell] : 1;
    if (seen == 0) return CellEnd::keep;
    if (!counted) {
      const double sum = state.high();
      if (bit_cast<uint64_t>(sum) == bit_cast<uint64_t>(-0.0) || sum != sum)
        return CellEnd::inconclusive;
      if (!is_met(state)) return CellEnd::keep;
    }
    return A::finish(state, seen, self, out) ? CellEnd::write : CellEnd::inconclusive;
  }
  static int64_t finish(const Cells& cells, bool counted, const PlaceRange& block, int64_t begin,
                        int64_t end_cell, Touched& inconclusive, int64_t room) {
    const State* states = states_of(cells);
    T* to = reinterpret_cast<T*>(block.first);
    for (int64_t i = begin; i < end_cell; ++i) {
      T result;
      T& place = to[i * block.step];
      const CellEnd what = end(states[i], cells, i, counted, block.include_self, result);
      if (what == CellEnd::write) place = result;
      if (what != CellEnd::inconclusive) continue;
      inconclusive.note(i, i * block.step);
      if (inconclusive.count == room) return i + 1;
    }
    return end_cell;
  }

  static int find_tagged(const Cells& cells, const uint32_t* ids, int count, uint32_t* positions) {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      positions[found] = static_cast<uint32_t>(i);
      found += (cells.counts[ids[i]] & kCellTag) != 0;
    }
    return found;
  }
};

template <class T, Reduce R>
BoundedSums bounded_sums() {
  BoundedSums sums;
  if constexpr (sizeof(T) < sizeof(double)) {
    using Loops = BoundedLoops<T, R>;
    sums.open = Loops::open;
    sums.add = Loops::add;
    sums.add_keys = Loops::add_keys;
    if constexpr (sizeof(T) == 4) sums.add_pairs = Loops::add_pairs;
    sums.merge = Loops::merge;
    sums.finish = Loops::finish;
    sums.find_tagged = Loops::find_tagged;
  }
  return sums;
}

}  // namespace sow::detail
