// Private cells: one for each place and column, filled in any order by atomic operations, then
// finished one by one. Nothing of the destination is touched before every key was seen to be good.
#pragma once

#include "cuda/decode.cuh"
#include "cuda/strategy.h"

namespace sow::detail::cuda {

template <class T>
__device__ inline T load_value(const Problem& p, int64_t src) {
  return p.src == nullptr ? *reinterpret_cast<const T*>(p.scalar) : reinterpret_cast<const T*>(p.src)[src];
}

// Calls f(cell, value) for every element that is kept, in no particular order. Several keys and values
// are on their way before the first is used.
template <class T, class F>
__device__ inline void for_each_update(const Problem& p, Flag* flag, F&& f) {
  constexpr int kUnroll = 4;
  const int64_t columns = p.free.count * p.row, step = grid_threads();
  const int64_t total = p.outer_count * p.item_count * columns;
  const bool simple = is_simple(p);
  bool bad = false;
  for (int64_t first = global_thread(); first < total; first += kUnroll * step) {
    int64_t cell[kUnroll], src[kUnroll];
    T value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = first + u * step;
      cell[u] = -1;
      if (at >= total) continue;
      if (columns == 1) {
        cell[u] = place_of(p, simple, at, src[u], bad);
      } else {
        const int64_t position = at / columns, column = at - position * columns;
        const int64_t place = place_of(p, simple, position, src[u], bad);
        if (place >= 0) cell[u] = place * columns + column;
        src[u] += column_at(p, column).src;
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (cell[u] >= 0) value[u] = load_value<T>(p, src[u]);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (cell[u] >= 0) f(cell[u], value[u]);
    }
  }
  if (bad) mark_bad(flag);
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
