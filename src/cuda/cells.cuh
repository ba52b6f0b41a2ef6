// Private cells: one for each place and column, filled in any order by atomic operations, then
// finished one by one. Nothing of the destination is touched before every key was seen to be good.
#pragma once

#include "cuda/decode.cuh"
#include "cuda/strategy.h"

namespace sow::detail::cuda {

// One dimension of items, one key each, nothing else: keys and values are two runs of memory.
inline bool is_simple(const Problem& p) {
  return p.spelled_place == nullptr && p.outer_count == 1 && p.walk.rank == 1 && p.dst_keys == 1 && p.src_keys == 0;
}

// The place (or -1) and the source's offset of a position.
__device__ inline int64_t place_of(const Problem& p, bool simple, int64_t position, int64_t& src, bool& bad) {
  if (!simple) {
    const Item item = decode(p, position, bad);
    src = item.src;
    return item.place;
  }
  src = position * p.walk.axis[0].stride[1];
  int64_t key = read_key(p.keys[0], position * p.walk.axis[0].stride[2]);
  return resolve(key, p.keys[0].extent, p.bounds, bad) ? key : -1;
}

// Where a place lies in the destination.
__device__ inline int64_t offset_of_place(const Problem& p, int64_t place) {
  int64_t offset = 0;
  for (int k = p.dst_keys - 1; k >= 0; --k) {
    if (k == 0 && p.outer_count == 1) return offset + place * p.keys[0].scale;
    const int64_t rest = place / p.keys[k].extent;
    offset += (place - rest * p.keys[k].extent) * p.keys[k].scale;
    place = rest;
  }
  int64_t at[1] = {};
  walk_to(p.walk, place * p.item_count, 1, at);
  return offset + at[0];
}

// Calls f(cell, source's offset of the element) for every element that is kept. Several keys are
// loaded before the first is used. Everything a thread of the grid does, in no particular order.
template <class F>
__device__ inline void for_each_update(const Problem& p, bool simple, Flag* flag, F&& f) {
  constexpr int kUnroll = 4;
  const int64_t total = p.outer_count * p.item_count * p.row, step = grid_threads();
  bool bad = false;
  for (int64_t first = global_thread(); first < total; first += kUnroll * step) {
    int64_t place[kUnroll], src[kUnroll];
    int64_t column[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = first + u * step;
      place[u] = -1;
      column[u] = 0;
      if (at >= total) continue;
      int64_t position = at;
      if (p.row != 1) {
        position = at / p.row;
        column[u] = at - position * p.row;
      }
      place[u] = place_of(p, simple, position, src[u], bad);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (place[u] >= 0) f(place[u] * p.row + column[u], src[u] + column[u] * p.row_src);
    }
  }
  if (bad) mark_bad(flag);
}

inline int64_t cell_count(const Problem& p) { return p.places * p.row; }

}  // namespace sow::detail::cuda
