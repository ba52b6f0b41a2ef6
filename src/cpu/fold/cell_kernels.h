// SPDX-License-Identifier: Apache-2.0
// The cell loops for one type and reduction.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/isa.h"
#include "cpu/common/prefetch.h"
#include "cpu/fold/accumulator.h"
#include "cpu/fold/fold_kernels.h"

namespace sow::detail {

template <class T>
inline T load_element(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}
template <class T>
inline void store_element(char* to, const T& value) {
  std::memcpy(to, &value, sizeof(T));
}

template <class T>
inline T negated(T value) {
  if constexpr (is_float_element<T>) {
    using Bits = typename FloatTraits<T>::Bits;
    return bit_cast<T>(static_cast<Bits>(bit_cast<Bits>(value) ^ FloatTraits<T>::kSign));
  } else if constexpr (is_complex_element<T>) {
    return T(negated(value.real()), negated(value.imag()));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(0 - static_cast<uint64_t>(value));
  } else {
    return value;
  }
}

template <class T>
void negate_values(char* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    char* at = values + i * static_cast<int64_t>(sizeof(T));
    store_element(at, negated(load_element<T>(at)));
  }
}

template <class T, Reduce R>
struct CellLoops {
  using A = Accumulator<T, R>;
  using State = typename A::State;
  // Extremes meet the old value last: a cell that changes at its first update tells that it was
  // met.
  static constexpr bool kExtreme =
      (R == Reduce::amax || R == Reduce::amin) && !std::is_same_v<T, BoolByte>;
  // No number is where floats start: blocks of them need no counts.
  static constexpr bool kTells = kExtreme && is_float_element<T>;
  // And integers that add up to nothing change nothing.
  static constexpr bool kUncounted = std::is_integral_v<T> && R == Reduce::add;
  static bool is_met(const Cells& cells, int64_t cell) {
    if constexpr (kTells) return reinterpret_cast<const State*>(cells.states)[cell] != A::start();
    return cells.counts[cell] != 0;
  }

  static char* place(const Destination& dst, int64_t offset, int column) {
    return dst.data + (offset + column * dst.row_stride) * static_cast<int64_t>(sizeof(T));
  }

  static void apply(const Destination& dst, const Updates& updates, int width) {
    if (width == 1) {
      const int64_t* offsets = updates.offsets;
      const char* values = updates.values;
      const int count = updates.count;
      T* data = reinterpret_cast<T*>(dst.data);
      for (int i = 0; i < count; ++i) {
        if (i + kPrefetchAhead < count) __builtin_prefetch(data + offsets[i + kPrefetchAhead], 1);
        update(data[offsets[i]], load_element<T>(values + i * static_cast<int64_t>(sizeof(T))));
      }
      return;
    }
    for (int i = 0; i < updates.count; ++i) {
      for (int c = 0; c < width; ++c) {
        update(*reinterpret_cast<T*>(place(dst, updates.offsets[i], c)),
               load_element<T>(updates.values + (int64_t{i} * width + c) * sizeof(T)));
      }
    }
  }
  static void update(T& to, T value) {
    if constexpr (std::is_floating_point_v<T> && (R == Reduce::amax || R == Reduce::amin)) {
      // Numbers in the order of their mirrored bits, -0 below +0; no branch decides which of two is
      // stored, since either is as likely.
      if (!__builtin_isunordered(value, to)) {
        using Bits = typename FloatTraits<T>::Bits;
        const Bits mine = bit_cast<Bits>(value), old = bit_cast<Bits>(to);
        const State one = A::mirrored(static_cast<State>(mine)),
                    other = A::mirrored(static_cast<State>(old));
        const Bits wins =
            static_cast<Bits>(-static_cast<State>(R == Reduce::amax ? one > other : one < other));
        to = bit_cast<T>(static_cast<Bits>(old ^ ((old ^ mine) & wins)));
        return;
      }
    }
    State state = A::start();
    if constexpr (R != Reduce::assign) A::seed(state, to);
    A::add(state, value, 0);
    A::finish(state, 1, true, to);
  }

  static void apply_to_block(const PlaceRange& block, const uint32_t* cells, const char* values,
                             int64_t count) {
    T* data = reinterpret_cast<T*>(block.first);
    const int64_t step = block.step;
    if (block.to_prefetch != nullptr) {
      return for_each_batch(block, count, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          update(data[cells[i] * step],
                 load_element<T>(values + i * static_cast<int64_t>(sizeof(T))));
        }
      });
    }
    for (int64_t i = 0; i < count; ++i) {
      if (i + kPrefetchAhead < count)
        __builtin_prefetch(data + cells[i + kPrefetchAhead] * step, 1);
      update(data[cells[i] * step], load_element<T>(values + i * static_cast<int64_t>(sizeof(T))));
    }
  }

  // Extremes of floats, as apply_to_block: in cells of ordered integers, so that an update needs no
  // test for NaN. False: an old value has bits that would not come back; nothing was done.
  static bool open_extremes(const PlaceRange& block, int64_t count, char* cells) {
    if constexpr (kExtreme && is_float_element<T>) {
      if (block.step == 1) return open_keys<1>(block, count, reinterpret_cast<State*>(cells));
      return open_keys<0>(block, count, reinterpret_cast<State*>(cells));
    }
    return false;
  }
  template <int Step>
  static bool open_keys(const PlaceRange& block, int64_t count, State* states) {
    using Bits = typename FloatTraits<T>::Bits;
    const T* old = reinterpret_cast<const T*>(block.first);
    const int64_t step = Step == 0 ? block.step : Step;
    Bits changed = 0;
    for (int64_t i = 0; i < count; ++i) {
      states[i] = A::key_of(old[i * step]);
      changed = static_cast<Bits>(
          changed | (bit_cast<Bits>(A::value_of(states[i])) ^ bit_cast<Bits>(old[i * step])));
    }
    return changed == 0;
  }
  static void add_extremes(char* cells, const uint32_t* ids, const char* values, int64_t count) {
    if (current_isa() == Isa::avx512) return extremes_avx512(cells, ids, values, count);
    extremes_here(cells, ids, values, count);
  }
  SOW_TARGET_AVX512 static void extremes_avx512(char* cells, const uint32_t* ids,
                                                const char* values, int64_t count) {
    extremes_here(cells, ids, values, count);
  }
  [[gnu::always_inline]] static inline void extremes_here(char* cells, const uint32_t* ids,
                                                          const char* values, int64_t count) {
    constexpr int kBatch = 64;
    State* states = reinterpret_cast<State*>(cells);
    for (int64_t first = 0; first < count; first += kBatch) {
      const int size = static_cast<int>(std::min<int64_t>(kBatch, count - first));
      State batch[kBatch];
      as_states(values + first * static_cast<int64_t>(sizeof(T)), size, batch);
      for (int i = 0; i < size; ++i) {
        // A branch would be wrong as often as right.
        const State old = states[ids[first + i]];
        const State wins = static_cast<State>(-static_cast<State>(is_beyond(batch[i], old)));
        states[ids[first + i]] = static_cast<State>(old ^ ((old ^ batch[i]) & wins));
      }
    }
  }
  static void close_extremes(const PlaceRange& block, int64_t count, const char* cells) {
    const State* states = reinterpret_cast<const State*>(cells);
    T* to = reinterpret_cast<T*>(block.first);
    for (int64_t i = 0; i < count; ++i) to[i * block.step] = A::value_of(states[i]);
  }

  // Calls f(first, last) for a few updates at a time, and prefetches what is met soon in between.
  template <class F>
  [[gnu::always_inline]] static void for_each_batch(const PlaceRange& block, int64_t count, F&& f) {
    constexpr int64_t kBatch = 16, kLine = 64;
    const int64_t batches = (count + kBatch - 1) / kBatch;
    const int64_t share =
        batches == 0 ? 0 : (block.to_prefetch_bytes / batches / kLine + 1) * kLine;
    const char* to_prefetch = block.to_prefetch;
    const char* const end = to_prefetch + block.to_prefetch_bytes;
    for (int64_t i = 0; i < count; i += kBatch) {
      const char* const until = to_prefetch + std::min<int64_t>(share, end - to_prefetch);
      for (; to_prefetch < until; to_prefetch += kLine) __builtin_prefetch(to_prefetch, 0, 2);
      f(i, std::min(i + kBatch, count));
    }
  }

  static void open_block(const Cells& cells, const PlaceRange& block, int64_t count) {
    State* states = reinterpret_cast<State*>(cells.states);
    for (int64_t i = 0; i < count; ++i) states[i] = A::start();
    if (!block.include_self || R == Reduce::assign || kExtreme) return;
    if (kUncounted && cells.counts == nullptr) return;
    const T* old = reinterpret_cast<const T*>(block.first);
    for (int64_t i = 0; i < count; ++i) A::seed(states[i], old[i * block.step]);
  }

  static void add_to_block(const Cells& cells, const uint32_t* ids, const char* values,
                           int64_t count) {
    State* states = reinterpret_cast<State*>(cells.states);
    uint32_t* counts = cells.counts;
    if constexpr (kExtreme) {
      add_extremes(cells.states, ids, values, count);
      for (int64_t i = 0; i < count && !kTells; ++i) counts[ids[i]] = 1;
      return;
    }
    if (kUncounted && counts == nullptr) {
      for (int64_t i = 0; i < count; ++i)
        A::add(states[ids[i]], load_element<T>(values + i * static_cast<int64_t>(sizeof(T))), 0);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t seen = counts[ids[i]]++;
      A::add(states[ids[i]], load_element<T>(values + i * static_cast<int64_t>(sizeof(T))), seen);
    }
  }

  // Where most updates change nothing, which branches foretell: a maximum of n values of one place
  // changes log(n) times.
  static void add_often(const Cells& cells, const uint32_t* ids, const char* values, int64_t count,
                        const char* to_prefetch) {
    if constexpr (kExtreme) {
      constexpr int kBatch = 64, kStep = 8;
      if (to_prefetch == nullptr) to_prefetch = values;
      int64_t i = 0;
      for (; i + kBatch <= count; i += kBatch) {
        State batch[kBatch];
        as_states(values + i * static_cast<int64_t>(sizeof(T)), kBatch, batch);
        for (int j = 0; j < kBatch; j += kStep) {
          prefetch(to_prefetch, (i + j) * 8);
          prefetch(values, (i + j + kPrefetchDistance) * static_cast<int64_t>(sizeof(T)));
          for (int k = j; k < j + kStep; ++k) keep_extreme(cells, ids[i + k], batch[k]);
        }
      }
      for (; i < count; ++i) {
        State one;
        as_states(values + i * static_cast<int64_t>(sizeof(T)), 1, &one);
        keep_extreme(cells, ids[i], one);
      }
    }
  }
  // Both for keys, which are checked on the way.
  static int64_t add_keys(const Cells& cells, const KeyedValues& keys, int64_t first, int64_t count,
                          int64_t each) {
    const bool often = each >= (kTells ? tuning::kOftenKeys : tuning::kOftenUpdates);
    if (keys.int64_keys) return keys_by_isa<uint64_t>(cells, keys, first, count, often);
    return keys_by_isa<uint32_t>(cells, keys, first, count, often);
  }
  template <class Id>
  static int64_t keys_by_isa(const Cells& cells, const KeyedValues& keys, int64_t first,
                             int64_t count, bool often) {
    switch (current_isa()) {
      case Isa::avx512:
        return keys_avx512<Id>(cells, keys, first, count, often);
      case Isa::avx2:
        return keys_avx2<Id>(cells, keys, first, count, often);
      default:
        return often ? keys_here<true, Id>(cells, keys, first, count)
                     : keys_here<false, Id>(cells, keys, first, count);
    }
  }
  template <class Id>
  SOW_TARGET_AVX512 static int64_t keys_avx512(const Cells& cells, const KeyedValues& keys,
                                               int64_t first, int64_t count, bool often) {
    return often ? keys_here<true, Id>(cells, keys, first, count)
                 : keys_here<false, Id>(cells, keys, first, count);
  }
  template <class Id>
  SOW_TARGET_AVX2 static int64_t keys_avx2(const Cells& cells, const KeyedValues& keys,
                                           int64_t first, int64_t count, bool often) {
    return often ? keys_here<true, Id>(cells, keys, first, count)
                 : keys_here<false, Id>(cells, keys, first, count);
  }
  template <bool Often, class Id>
  [[gnu::always_inline]] static inline int64_t keys_here(const Cells& cells,
                                                         const KeyedValues& keys, int64_t first,
                                                         int64_t count) {
    constexpr int kBatch = 32;
    const Id* ids = reinterpret_cast<const Id*>(keys.data) + first;
    const Id extent = keys.extent;
    const char* values = keys.values + first * static_cast<int64_t>(sizeof(T));
    State* states = reinterpret_cast<State*>(cells.states);
    int64_t i = 0;
    for (; i + kBatch <= count; i += kBatch) {
      Id most = 0;
      std::conditional_t<kExtreme, State, T> batch[kBatch];
      for (int j = 0; j < kBatch; ++j) {
        most = std::max(most, ids[i + j]);
        const T value = load_element<T>(values + (i + j) * static_cast<int64_t>(sizeof(T)));
        if constexpr (kExtreme) {
          batch[j] = A::start();
          A::add(batch[j], value, 0);
        } else {
          batch[j] = value;
        }
      }
      if (most >= extent) break;
      for (int j = 0; j < kBatch; ++j) {
        if constexpr (!kExtreme) {
          if (kUncounted && cells.counts == nullptr) {
            A::add(states[ids[i + j]], batch[j], 0);
            continue;
          }
          const uint32_t seen = cells.counts[ids[i + j]]++;
          A::add(states[ids[i + j]], batch[j], seen);
        } else if constexpr (Often) {
          keep_extreme(cells, static_cast<uint32_t>(ids[i + j]), batch[j]);
        } else {
          const State old = states[ids[i + j]];
          states[ids[i + j]] = is_beyond(batch[j], old) ? batch[j] : old;
          if constexpr (!kTells) cells.counts[ids[i + j]] = 1;
        }
      }
    }
    return i;
  }
  [[gnu::always_inline]] static inline void as_states(const char* values, int count, State* out) {
    for (int i = 0; i < count; ++i) {
      out[i] = A::start();
      A::add(out[i], load_element<T>(values + i * static_cast<int64_t>(sizeof(T))), 0);
    }
  }
  static void keep_extreme(const Cells& cells, uint32_t id, State one) {
    State& state = reinterpret_cast<State*>(cells.states)[id];
    if (__builtin_expect(is_beyond(one, state), 0)) {
      state = one;
      if constexpr (!kTells) cells.counts[id] = 1;
    }
  }
  // Integers may be where they start, and then it must be said that they came.
  static bool is_beyond(State one, State other) {
    if constexpr (is_float_element<T>) return R == Reduce::amax ? one > other : one < other;
    return R == Reduce::amax ? one >= other : one <= other;
  }

  // Those of floats that lie one after the other: loads and stores with a mask, which plain code
  // has not. What was not met may be another call's.
  SOW_TARGET_AVX512 static void finish_avx512(const State* states, T* to, int64_t count,
                                              bool self) {
    using Bits = typename FloatTraits<T>::Bits;
    const State seed = self ? State{-1} : State{0};
    for (int64_t i = 0; i < count; ++i) {
      const bool met = states[i] != A::start();
      const Bits old = met ? bit_cast<Bits>(to[i]) : Bits{0};
      State state = A::start();
      A::add(state, bit_cast<T>(old), 0);
      state = static_cast<State>((state & seed) | (A::start() & ~seed));
      A::merge(state, states[i]);
      const Bits result = bit_cast<Bits>(A::value_of(state));
      if (met) to[i] = bit_cast<T>(result);
    }
  }

  // Sums of integers that nobody counted.
  [[gnu::always_inline]] static inline void add_sums(const State* sums, T* to, int64_t step,
                                                     int64_t count) {
    if constexpr (kUncounted) {
      if (step == 1) {
        for (int64_t i = 0; i < count; ++i) {
          if (sums[i] != 0) A::merge(to[i], sums[i]);
        }
        return;
      }
      for (int64_t i = 0; i < count; ++i) {
        if (sums[i] != 0) A::merge(to[i * step], sums[i]);
      }
    }
  }
  SOW_TARGET_AVX512 static void add_sums_avx512(const State* sums, T* to, int64_t step,
                                                int64_t count) {
    add_sums(sums, to, step, count);
  }
  SOW_TARGET_AVX2 static void add_sums_avx2(const State* sums, T* to, int64_t step, int64_t count) {
    add_sums(sums, to, step, count);
  }

  // Integers that were counted, in places that lie one after the other: which were met is as good
  // as random, so that masks are quicker than branches.
  static constexpr bool kMasked = std::is_integral_v<T> && R != Reduce::mean;
  [[gnu::always_inline]] static inline void finish_met(const uint32_t* counts, const State* states,
                                                       T* to, bool self, int64_t count) {
    if constexpr (kMasked) {
      if (kExtreme && self) {
        for (int64_t i = 0; i < count; ++i) {
          const bool met = counts[i] != 0;
          State state = met ? to[i] : State{0};
          A::merge(state, states[i]);
          if (met) to[i] = state;
        }
        return;
      }
      for (int64_t i = 0; i < count; ++i) {
        if (counts[i] != 0) to[i] = states[i];
      }
    }
  }
  SOW_TARGET_AVX512 static void finish_met_avx512(const uint32_t* counts, const State* states,
                                                  T* to, bool self, int64_t count) {
    finish_met(counts, states, to, self, count);
  }
  SOW_TARGET_AVX2 static void finish_met_avx2(const uint32_t* counts, const State* states, T* to,
                                              bool self, int64_t count) {
    finish_met(counts, states, to, self, count);
  }

  static int64_t finish_block(const Cells& cells, const PlaceRange& block, int64_t begin,
                              int64_t end, Touched& inconclusive, int64_t room) {
    const State* states = reinterpret_cast<const State*>(cells.states);
    T* to = reinterpret_cast<T*>(block.first);
    if constexpr (kUncounted) {
      if (cells.counts == nullptr) {
        by_isa(add_sums, add_sums_avx2, add_sums_avx512)(states + begin, to + begin * block.step,
                                                         block.step, end - begin);
        return end;
      }
    }
    if constexpr (kTells) {
      if (block.step == 1 && current_isa() == Isa::avx512) {
        finish_avx512(states + begin, to + begin, end - begin, block.include_self);
        return end;
      }
    }
    if constexpr (kMasked) {
      if (block.step == 1) {
        by_isa(finish_met, finish_met_avx2, finish_met_avx512)(
            cells.counts + begin, states + begin, to + begin, block.include_self, end - begin);
        return end;
      }
    }
    for (int64_t cell = begin; cell < end; ++cell) {
      if (!is_met(cells, cell)) continue;
      const uint32_t seen = kTells ? 1 : cells.counts[cell];
      State state = states[cell];
      if constexpr (kExtreme) {
        if (block.include_self) A::add(state, to[cell * block.step], 0);
      }
      T result;
      if (A::finish(state, seen, block.include_self, result)) {
        to[cell * block.step] = result;
        continue;
      }
      inconclusive.note(cell, cell * block.step);
      if (inconclusive.count == room) return cell + 1;
    }
    return end;
  }

  static void open(const Destination& dst, int64_t offset, State* states, int width) {
    for (int c = 0; c < width; ++c) {
      states[c] = A::start();
      if constexpr (R != Reduce::assign) {
        if (dst.include_self) A::seed(states[c], load_element<T>(place(dst, offset, c)));
      }
    }
  }

  template <int Width>
  static void accumulate_rows(const Cells& cells, const Destination& dst, const Updates& updates,
                              Touched* touched) {
    const int width = Width > 0 ? Width : cells.width;
    State* all = reinterpret_cast<State*>(cells.states);
    for (int i = 0; i < updates.count; ++i) {
      const uint32_t cell = updates.cells[i];
      const uint32_t seen = cells.counts[cell];
      State* states = all + static_cast<int64_t>(cell) * width;
      if (seen == 0) {
        open(dst, updates.offsets[i], states, width);
        if (touched != nullptr) {
          touched->cells[touched->count] = cell;
          touched->offsets[touched->count++] = updates.offsets[i];
        }
      }
      cells.counts[cell] = seen + 1;
      const char* values = updates.values + int64_t{i} * width * sizeof(T);
      for (int c = 0; c < width; ++c)
        A::add(states[c], load_element<T>(values + c * sizeof(T)), seen);
    }
  }
  static void accumulate(const Cells& cells, const Destination& dst, const Updates& updates,
                         Touched* touched) {
    if (cells.width == 1) return accumulate_rows<1>(cells, dst, updates, touched);
    accumulate_rows<0>(cells, dst, updates, touched);
  }

  static int64_t finish(const Cells& cells, const Destination& dst, Touched list) {
    const State* all = reinterpret_cast<const State*>(cells.states);
    int64_t inconclusive = 0;
    for (int64_t i = 0; i < list.count; ++i) {
      const uint32_t cell = list.cells[i];
      const State* states = all + static_cast<int64_t>(cell) * cells.width;
      T results[kMaxCellWidth];
      bool certain = true;
      for (int c = 0; c < cells.width; ++c) {
        certain &= A::finish(states[c], cells.counts[cell], dst.include_self, results[c]);
      }
      if (certain) {
        for (int c = 0; c < cells.width; ++c)
          store_element(place(dst, list.offsets[i], c), results[c]);
        cells.counts[cell] = 0;
      } else {
        list.cells[inconclusive] = cell;
        list.offsets[inconclusive++] = list.offsets[i];
      }
    }
    return inconclusive;
  }

  static void merge(const Cells& to, const Cells& from, int64_t begin, int64_t end) {
    if constexpr (A::kMerges) {
      State* mine = reinterpret_cast<State*>(to.states);
      const State* theirs = reinterpret_cast<const State*>(from.states);
      if (kTells || (kUncounted && to.counts == nullptr)) {
        for (int64_t cell = begin; cell < end; ++cell) A::merge(mine[cell], theirs[cell]);
        return;
      }
      for (int64_t cell = begin; cell < end; ++cell) {
        if (from.counts[cell] == 0) continue;
        A::merge(mine[cell], theirs[cell]);
        to.counts[cell] += from.counts[cell];
      }
    }
  }

 private:
  static constexpr int kPrefetchAhead = 16;
  static constexpr int kPrefetchDistance = 512;
};

// The second way of a sum that was inconclusive, for the reductions that can be inconclusive.
template <class T, Reduce R>
struct RepairLoops {
  using A = Accumulator<T, R>;
  using Long = typename A::Long;

  static void begin(const Cells& cells, Touched list, const Repairs& repairs) {
    for (int64_t slot = 0; slot < list.count; ++slot) {
      cells.counts[list.cells[slot]] = kCellTag | static_cast<uint32_t>(slot);
    }
    clear(cells, list.count, repairs);
  }
  static void clear(const Cells& cells, int64_t slots, const Repairs& repairs) {
    Long* longs = reinterpret_cast<Long*>(repairs.longs);
    for (int64_t i = 0; i < slots * cells.width; ++i) longs[i].reset();
    std::memset(repairs.updates, 0, static_cast<size_t>(slots) * sizeof(int64_t));
  }

  static void add(const Cells& cells, const Updates& updates, const Repairs& repairs) {
    Long* longs = reinterpret_cast<Long*>(repairs.longs);
    const int width = cells.width;
    for (int i = 0; i < updates.count; ++i) {
      const uint32_t tagged = cells.counts[updates.cells[i]];
      if ((tagged & kCellTag) == 0) continue;
      ++repairs.updates[tagged & ~kCellTag];
      Long* sums = longs + static_cast<int64_t>(tagged & ~kCellTag) * width;
      const char* values = updates.values + int64_t{i} * width * sizeof(T);
      for (int c = 0; c < width; ++c) A::long_add(sums[c], load_element<T>(values + c * sizeof(T)));
    }
  }

  static void merge(const Cells& cells, int64_t slots, const Repairs& to, const Repairs& from) {
    Long* mine = reinterpret_cast<Long*>(to.longs);
    const Long* theirs = reinterpret_cast<const Long*>(from.longs);
    for (int64_t i = 0; i < slots * cells.width; ++i) mine[i].merge(theirs[i]);
    for (int64_t slot = 0; slot < slots; ++slot) to.updates[slot] += from.updates[slot];
  }

  static void end(const Cells& cells, const Destination& dst, Touched list,
                  const Repairs& repairs) {
    Long* longs = reinterpret_cast<Long*>(repairs.longs);
    for (int64_t slot = 0; slot < list.count; ++slot) {
      cells.counts[list.cells[slot]] = 0;
      if (repairs.updates[slot] == 0) continue;
      for (int c = 0; c < cells.width; ++c) {
        char* at = CellLoops<T, R>::place(dst, list.offsets[slot], c);
        Long& sum = longs[slot * cells.width + c];
        if (dst.include_self) A::long_add(sum, load_element<T>(at));
        store_element(at, A::long_finish(sum, repairs.updates[slot], dst.include_self));
      }
    }
  }
};

}  // namespace sow::detail
