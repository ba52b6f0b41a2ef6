// SPDX-License-Identifier: Apache-2.0
// Reads updates as (cell, value) pairs for kernels that accumulate by atomic operations: as
// UpdateBatch, where cells may be numbered as the destination lies (memory_order.h).
#pragma once

#include "cuda/common/updates.cuh"

namespace sow::detail::cuda {

// Updates of one thread by their numbers (position x column): start() asks for all their keys and
// values, resolve() looks at the keys. Neighbouring threads take neighbouring columns.
template <class T, int N, class Cell>
struct CellBatch {
  Cell cell[N];  // after resolve(); -1: left out
  int64_t key[N];
  T value[N];

  // Whether start() does it all.
  __device__ static bool decodes(const Problem& p) { return p.dst_keys != 1 || p.src_keys != 0; }

  __device__ void start(const Problem& p, bool by_offset, int64_t first, int64_t step,
                        int64_t total, bool& bad) {
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
        cell[u] = static_cast<Cell>(by_offset ? item.dst : item.place * columns + column);
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
      cell[u] = static_cast<Cell>(
          by_offset ? offsets[0] : outer_of(p, position) * p.keys[0].extent * columns + column);
    }
  }
  __device__ void resolve(const Problem& p, bool by_offset, bool& bad) {
    if (decodes(p)) return;
    const int64_t step = by_offset ? p.keys[0].scale : p.free.count * p.row;
#pragma unroll
    for (int u = 0; u < N; ++u) {
      if (cell[u] < 0) continue;
      cell[u] = is_kept(key[u], p, bad) ? static_cast<Cell>(cell[u] + key[u] * step) : -1;
    }
  }
};

// The same where single elements and their keys are two runs of memory, whose cells are their keys:
// few instructions matter more than anything else in a small problem.
struct SimpleUpdates {
  const char* keys;
  const char* values;  // null: the problem's scalar
  int key_step, value_step;
  int count;
  bool is_int32;
};

// Whether they are, with numbers that fit.
inline bool has_simple_updates(const Problem& p) {
  const auto is_short = [](int64_t step) { return step >= 0 && step <= INT32_MAX; };
  return !p.materialised && p.columns() == 1 && p.outer_count == 1 && p.walk.rank == 1 &&
         p.dst_keys == 1 && p.src_keys == 0 && p.places <= INT32_MAX &&
         p.positions() <= INT32_MAX / 2 && is_short(p.walk.axis[0].stride[1]) &&
         is_short(p.walk.axis[0].stride[2]);
}
inline SimpleUpdates simple_updates(const Problem& p) {
  return {p.keys[0].data,
          p.src,
          static_cast<int>(p.walk.axis[0].stride[2]),
          static_cast<int>(p.walk.axis[0].stride[1]),
          static_cast<int>(p.positions()),
          p.keys[0].is_int32};
}

template <class T, int N>
struct SimpleBatch {
  int cell[N];  // after resolve(); -1: left out
  int64_t key[N];
  T value[N];

  __device__ void start(const SimpleUpdates& s, const Problem& p, int first, int step) {
    using Word = WordOf<static_cast<int>(sizeof(T))>;
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int at = first + u * step;
      if (at >= s.count) continue;
      const int64_t from = static_cast<int64_t>(at) * s.key_step;
      key[u] = s.is_int32
                   ? static_cast<int64_t>(__ldg(reinterpret_cast<const int32_t*>(s.keys) + from))
                   : static_cast<int64_t>(__ldg(reinterpret_cast<const long long*>(s.keys) + from));
      value[u] = s.values == nullptr ? *reinterpret_cast<const T*>(p.scalar)
                                     : bit_cast<T>(__ldg(reinterpret_cast<const Word*>(s.values) +
                                                         static_cast<int64_t>(at) * s.value_step));
    }
  }
  __device__ void resolve(const SimpleUpdates& s, const Problem& p, int first, int step,
                          bool& bad) {
#pragma unroll
    for (int u = 0; u < N; ++u) {
      cell[u] = -1;
      if (first + u * step < s.count && is_kept(key[u], p, bad)) cell[u] = static_cast<int>(key[u]);
    }
  }
};

}  // namespace sow::detail::cuda
