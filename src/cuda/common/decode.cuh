// SPDX-License-Identifier: Apache-2.0
// Positions to offsets on the device: the one place where index types, wrapping and bounds are
// handled there.
#pragma once

#include "cuda/plan/problem.h"

namespace sow::detail::cuda {

// A position decoded: element offsets, and the place it may meet others in. A dropped or bad one
// has place -1.
struct Item {
  int64_t dst, src, place;
};

__device__ inline int64_t read_key(const KeyOperand& key, int64_t offset) {
  return key.is_int32 ? static_cast<int64_t>(reinterpret_cast<const int32_t*>(key.data)[offset])
                      : reinterpret_cast<const int64_t*>(key.data)[offset];
}

// False where the key is left out; `bad` is set where the contract calls that an error.
__device__ inline bool resolve(int64_t& key, int64_t extent, Bounds bounds, bool& bad) {
  if (key < 0) key += extent;
  if (bounds == Bounds::promise) return true;
  if (key >= 0 && key < extent) return true;
  if (bounds == Bounds::clip && extent > 0) {
    key = key < 0 ? 0 : extent - 1;
    return true;
  }
  bad = bad || bounds != Bounds::drop;
  return false;
}

// Adds the offsets of `position` to out[0 .. slots).
template <int Slots>
__device__ inline void walk_to(const Walk& walk, int64_t position, int slots,
                               int64_t (&out)[Slots]) {
  if (walk.rank == 1) {
#pragma unroll
    for (int k = 0; k < Slots; ++k) {
      if (k < slots) out[k] += position * walk.axis[0].stride[k];
    }
    return;
  }
  if (walk.fits_31_bits) {
    uint32_t rest = static_cast<uint32_t>(position);
    for (int i = walk.rank - 1; i >= 0; --i) {
      const WalkAxis& axis = walk.axis[i];
      const uint32_t next = axis.divider.quotient(rest);
      const int64_t at = rest - next * axis.divider.divisor;
      rest = next;
#pragma unroll
      for (int k = 0; k < Slots; ++k) {
        if (k < slots) out[k] += at * axis.stride[k];
      }
    }
    return;
  }
  int64_t rest = position;
  for (int i = walk.rank - 1; i >= 0; --i) {
    const WalkAxis& axis = walk.axis[i];
    const int64_t next = rest / axis.size;
    const int64_t at = rest - next * axis.size;
    rest = next;
#pragma unroll
    for (int k = 0; k < Slots; ++k) {
      if (k < slots) out[k] += at * axis.stride[k];
    }
  }
}

// A column's offsets from its position's: columns are free x row.
struct Column {
  int64_t dst, src;
};
__device__ inline Column column_at(const Problem& p, int64_t column) {
  if (p.free.rank == 0) return {column * p.row_dst, column * p.row_src};
  const int64_t free = column / p.row, in_row = column - free * p.row;
  int64_t at[2] = {in_row * p.row_dst, in_row * p.row_src};
  walk_to(p.free, free, 2, at);
  return {at[0], at[1]};
}
__device__ inline Column free_at(const Problem& p, int64_t free) {
  int64_t at[2] = {};
  if (p.free.rank != 0) walk_to(p.free, free, 2, at);
  return {at[0], at[1]};
}

__device__ inline int64_t outer_of(const Problem& p, int64_t position) {
  if (p.outer_count == 1) return 0;
  if (p.walk.fits_31_bits) return p.item_divider.quotient(static_cast<uint32_t>(position));
  return position / p.item_count;
}

__device__ inline Item decode(const Problem& p, int64_t position, bool& bad) {
  if (p.place_table != nullptr) {
    const int64_t place = p.place_table[position];
    return {p.dst_table[position], p.src_table[position], place};
  }
  int64_t at[kSlots] = {};
  const int keys = p.dst_keys + p.src_keys;
  walk_to(p.walk, position, 2 + keys, at);
  Item item{at[0], at[1], outer_of(p, position)};
  bool kept = true;
#pragma unroll
  for (int k = 0; k < kMaxKeys; ++k) {
    if (k >= keys) break;
    const KeyOperand& operand = p.keys[k];
    int64_t key = read_key(operand, at[2 + k]);
    kept = resolve(key, operand.extent, p.bounds, bad) && kept;
    if (!kept) continue;
    if (k < p.dst_keys) {
      item.dst += key * operand.scale;
      item.place = item.place * operand.extent + key;
    } else {
      item.src += key * operand.scale;
    }
  }
  if (!kept) item.place = -1;
  return item;
}

// One side's offset alone, of a position that is known to be kept. Not inlined: folds call it where
// the quick way below does not do, and their registers are needed elsewhere.
__device__ __noinline__ static int64_t walk_side(const Problem& p, int64_t position, bool source) {
  int64_t at[kSlots] = {};
  const int keys = p.dst_keys + p.src_keys;
  walk_to(p.walk, position, 2 + keys, at);
  int64_t offset = at[source ? 1 : 0];
  bool bad = false;
#pragma unroll
  for (int k = 0; k < kMaxKeys; ++k) {
    if (k >= keys || (k >= p.dst_keys) != source) continue;
    int64_t key = read_key(p.keys[k], at[2 + k]);
    resolve(key, p.keys[k].extent, p.bounds, bad);
    offset += key * p.keys[k].scale;
  }
  return offset;
}

__device__ inline int64_t decode_src(const Problem& p, int64_t position) {
  if (p.src_table != nullptr) return p.src_table[position];
  if (p.src_keys == 0 && p.walk.rank == 1) return position * p.walk.axis[0].stride[1];
  return walk_side(p, position, true);
}

__device__ inline int64_t decode_dst(const Problem& p, int64_t position) {
  if (p.dst_table != nullptr) return p.dst_table[position];
  return walk_side(p, position, false);
}

// Where a place lies in the destination; not for problems that are materialised.
__device__ inline int64_t offset_of_place(const Problem& p, int64_t place) {
  int64_t offset = 0;
  for (int k = p.dst_keys - 1; k >= 0; --k) {
    if (k == 0 && p.outer_count == 1) return offset + place * p.keys[0].scale;
    const int64_t rest = place / p.keys[k].extent;
    offset += (place - rest * p.keys[k].extent) * p.keys[k].scale;
    place = rest;
  }
  if (p.outer_count == 1) return offset;
  int64_t at[1] = {};
  walk_to(p.walk, place * p.item_count, 1, at);
  return offset + at[0];
}

// One dimension of items, one key each, nothing else: keys and values are two runs of memory.
__device__ inline bool is_simple(const Problem& p) {
  return p.place_table == nullptr && p.outer_count == 1 && p.walk.rank == 1 && p.dst_keys == 1 &&
         p.src_keys == 0;
}

// The place (or -1) and the source's offset of a position.
__device__ inline int64_t place_of(const Problem& p, bool simple, int64_t position, int64_t& src,
                                   bool& bad) {
  if (!simple) {
    const Item item = decode(p, position, bad);
    src = item.src;
    return item.place;
  }
  src = position * p.walk.axis[0].stride[1];
  // Read once: what is kept in the cache is what updates meet in.
  const int64_t at = position * p.walk.axis[0].stride[2];
  int64_t key =
      p.keys[0].is_int32
          ? static_cast<int64_t>(__ldcs(reinterpret_cast<const int32_t*>(p.keys[0].data) + at))
          : static_cast<int64_t>(__ldcs(reinterpret_cast<const long long*>(p.keys[0].data) + at));
  return resolve(key, p.keys[0].extent, p.bounds, bad) ? key : -1;
}

// As decode, not inlined: kernels that decode several positions at a time would grow too large.
__device__ __noinline__ static Item decode_any(const Problem& p, int64_t position, bool& bad) {
  return decode(p, position, bad);
}

// Positions first, first + step, ... of which those below `count` are asked for; the others get
// place -1. All keys are in flight before the first is looked at.
template <int N>
__device__ inline void decode_batch(const Problem& p, int64_t first, int64_t step, int64_t count,
                                    Item (&item)[N], bool& bad) {
  if (p.place_table != nullptr || p.dst_keys != 1 || p.src_keys != 0) {
#pragma unroll
    for (int u = 0; u < N; ++u) {
      item[u] = {0, 0, -1};
      if (first + u * step < count) item[u] = decode_any(p, first + u * step, bad);
    }
    return;
  }
  int64_t at_key[N], key[N];
#pragma unroll
  for (int u = 0; u < N; ++u) {
    const int64_t position = min(first + u * step, count - 1);
    int64_t at[3] = {};
    walk_to(p.walk, position, 3, at);
    item[u] = {at[0], at[1], outer_of(p, position)};
    at_key[u] = at[2];
  }
  // Read once: what is kept in the cache is what updates meet in.
  const KeyOperand& operand = p.keys[0];
  if (operand.is_int32) {
#pragma unroll
    for (int u = 0; u < N; ++u)
      key[u] = __ldcs(reinterpret_cast<const int32_t*>(operand.data) + at_key[u]);
  } else {
#pragma unroll
    for (int u = 0; u < N; ++u)
      key[u] = __ldcs(reinterpret_cast<const long long*>(operand.data) + at_key[u]);
  }
#pragma unroll
  for (int u = 0; u < N; ++u) {
    const bool asked = first + u * step < count;
    bool wrong = false;
    const bool kept = resolve(key[u], operand.extent, p.bounds, wrong) && asked;
    bad = bad || (wrong && asked);
    item[u].dst += key[u] * operand.scale;
    item[u].place = kept ? item[u].place * operand.extent + key[u] : -1;
  }
}

__device__ inline bool is_bad(const Flag* flag) {
  return flag != nullptr && *reinterpret_cast<const volatile uint32_t*>(&flag->bad) != 0;
}
__device__ inline void mark_bad(Flag* flag) { flag->bad = 1; }

inline constexpr int kThreads = 256;

__device__ inline int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t grid_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace sow::detail::cuda
