// SPDX-License-Identifier: Apache-2.0
// Reads the updates of a Problem as (cell, value) pairs, in no particular order, for kernels that
// accumulate by atomic operations. A cell is the accumulator of one place and column.
#pragma once

#include "cuda/common/decode.cuh"
#include "cuda/common/vector.cuh"
#include "cuda/plan/strategy.h"

namespace sow::detail::cuda {

template <class T>
__device__ inline T load_value(const Problem& p, int64_t src) {
  return p.src == nullptr ? *reinterpret_cast<const T*>(p.scalar)
                          : reinterpret_cast<const T*>(p.src)[src];
}

// Takes every cell.
struct AllCells {
  static constexpr bool kAll = true;
  __device__ bool operator()(int64_t) const { return true; }
};

// Most keys are good as they are; resolve() sees to the others.
__device__ inline bool is_kept(int64_t& key, const Problem& p, bool& bad) {
  return static_cast<uint64_t>(key) < static_cast<uint64_t>(p.keys[0].extent) ||
         resolve(key, p.keys[0].extent, p.bounds, bad);
}

// A batch of updates from pointers that are `step` elements apart; those from `count` on are left
// out.
template <class T, class Key, int Unroll, class Wants, class F>
__device__ inline void update_batch(const Problem& p, const Key* keys, int64_t key_step,
                                    const T* values, int64_t value_step, int count, bool& bad,
                                    Wants wants, F& f) {
  using Word = WordOf<static_cast<int>(sizeof(T))>;
  int64_t key[Unroll];
  T value[Unroll];
#pragma unroll
  for (int u = 0; u < Unroll; ++u)
    key[u] = u < count ? static_cast<int64_t>(__ldcs(keys + u * key_step)) : -1;
  const auto load = [&](int u) {
    if (p.src == nullptr)
      value[u] = *reinterpret_cast<const T*>(p.scalar);
    else
      value[u] = bit_cast<T>(__ldcs(reinterpret_cast<const Word*>(values + u * value_step)));
  };
  if constexpr (Wants::kAll) {
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      if (u < count) load(u);
    }
  }
#pragma unroll
  for (int u = 0; u < Unroll; ++u) {
    if (u >= count || !is_kept(key[u], p, bad) || !wants(key[u])) key[u] = -1;
    if (!Wants::kAll && key[u] >= 0) load(u);
  }
#pragma unroll
  for (int u = 0; u < Unroll; ++u) {
    if (key[u] >= 0) f(key[u], value[u]);
  }
}

// Keys and values are two runs of memory: all of a batch are in flight before the first is used.
// Where not every cell is wanted, only the values of those that are.
template <class T, int Unroll, class Key, class Wants, class F>
__device__ inline void for_each_simple_update(const Problem& p, bool& bad, Wants wants, F& f) {
  const int64_t total = p.item_count, step = grid_threads();
  const int64_t value_step = p.walk.axis[0].stride[1], key_step = p.walk.axis[0].stride[2];
  const T* values = reinterpret_cast<const T*>(p.src);
  const Key* keys = reinterpret_cast<const Key*>(p.keys[0].data);
  int64_t first = global_thread();
  for (; first + (Unroll - 1) * step < total; first += Unroll * step) {
    update_batch<T, Key, Unroll>(p, keys + first * key_step, step * key_step,
                                 values + first * value_step, step * value_step, Unroll, bad, wants,
                                 f);
  }
  for (; first < total; first += step) {
    update_batch<T, Key, 1>(p, keys + first * key_step, 0, values + first * value_step, 0, 1, bad,
                            wants, f);
  }
}

// Updates of one thread by their numbers (position x column): start() asks for all their keys and
// values, resolve() looks at the keys. Neighbouring threads take neighbouring columns.
template <class T, int N, class Cell = int64_t>
struct UpdateBatch {
  Cell cell[N];  // after resolve(); -1: left out
  int64_t key[N];
  T value[N];

  // Whether start() does it all.
  __device__ static bool decodes(const Problem& p) {
    return p.place_table != nullptr || p.dst_keys != 1 || p.src_keys != 0;
  }
  __device__ void start(const Problem& p, int64_t first, int64_t step, int64_t total, bool& bad) {
    const int64_t columns = p.free.count * p.row;
    const bool decoded = decodes(p);
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int64_t at = first + u * step;
      cell[u] = -1;
      if (at >= total) continue;
      int64_t position = at, column = 0;
      if (columns != 1) {
        position = total <= INT32_MAX ? p.column_divider.quotient(static_cast<uint32_t>(at))
                                      : at / columns;
        column = at - position * columns;
      }
      const int64_t src = columns == 1 ? 0 : column_at(p, column).src;
      if (decoded) {
        const Item item = decode_any(p, position, bad);
        if (item.place < 0) continue;
        cell[u] = static_cast<Cell>(item.place * columns + column);
        value[u] = load_value<T>(p, item.src + src);
        continue;
      }
      int64_t offsets[3] = {};
      walk_to(p.walk, position, 3, offsets);
      key[u] = p.keys[0].is_int32
                   ? static_cast<int64_t>(
                         __ldg(reinterpret_cast<const int32_t*>(p.keys[0].data) + offsets[2]))
                   : static_cast<int64_t>(
                         __ldg(reinterpret_cast<const long long*>(p.keys[0].data) + offsets[2]));
      value[u] = load_value<T>(p, offsets[1] + src);
      cell[u] = static_cast<Cell>(outer_of(p, position) * p.keys[0].extent * columns + column);
    }
  }
  __device__ void resolve(const Problem& p, bool& bad) {
    if (decodes(p)) return;
#pragma unroll
    for (int u = 0; u < N; ++u) {
      if (cell[u] < 0) continue;
      cell[u] = is_kept(key[u], p, bad)
                    ? static_cast<Cell>(cell[u] + key[u] * (p.free.count * p.row))
                    : -1;
    }
  }
};

// Any walk and any columns.
template <class T, int Unroll, class Wants, class F>
__device__ inline void for_each_walked_update(const Problem& p, bool& bad, Wants wants, F&& f) {
  const int64_t total = p.outer_count * p.item_count * p.free.count * p.row;
  for (int64_t first = global_thread(); first < total; first += Unroll * grid_threads()) {
    UpdateBatch<T, Unroll> batch;
    batch.start(p, first, grid_threads(), total, bad);
    batch.resolve(p, bad);
#pragma unroll
    for (int u = 0; u < Unroll; ++u) {
      if (batch.cell[u] >= 0 && wants(batch.cell[u])) f(batch.cell[u], batch.value[u]);
    }
  }
}

// Calls f(cell, value) for every element that is kept and wanted, in no particular order.
template <class T, int Unroll = 4, class Wants, class F>
__device__ inline void for_each_wanted_update(const Problem& p, Flag* flag, Wants wants, F&& f) {
  bool bad = false;
  const bool simple = p.free.count * p.row == 1 && is_simple(p);
  if (simple && p.keys[0].is_int32)
    for_each_simple_update<T, Unroll, int32_t>(p, bad, wants, f);
  else if (simple)
    for_each_simple_update<T, Unroll, long long>(p, bad, wants, f);
  else
    for_each_walked_update<T, 4>(p, bad, wants, f);
  if (bad) mark_bad(flag);
}
template <class T, int Unroll = 4, class F>
__device__ inline void for_each_update(const Problem& p, Flag* flag, F&& f) {
  for_each_wanted_update<T, Unroll>(p, flag, AllCells{}, f);
}

inline int64_t cell_count(const Problem& p) { return p.places * p.columns(); }

// Where a cell lies in the destination.
__device__ inline int64_t offset_of_cell(const Problem& p, int64_t cell) {
  const int64_t columns = p.free.count * p.row;
  if (columns == 1) return offset_of_place(p, cell);
  const int64_t place = cell / columns;
  return offset_of_place(p, place) + column_at(p, cell - place * columns).dst;
}

}  // namespace sow::detail::cuda
