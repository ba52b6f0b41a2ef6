// SPDX-License-Identifier: Apache-2.0
// What kernels that fold segments share: their arguments, and where a lane's columns lie.
#pragma once

#include "cuda/common/decode.cuh"
#include "cuda/common/vector.cuh"
#include "cuda/fold/folds.h"
#include "cuda/sort/segments.cuh"

namespace sow::detail::cuda {

struct FoldArgs {
  char* dst = nullptr;
  const char* src = nullptr;
  Segments segments;
  Walk free;
  int64_t row = 1, row_dst = 0, row_src = 0;
  int64_t place_step = 0;  // elements from a place to the next one, where they lie evenly; else 0
  int lanes = 1;           // of a group; a power of two up to 32
  int64_t row_tiles = 1;   // tiles of columns in a row
  void* partials = nullptr;
  uint32_t* inconclusive = nullptr;  // one bit per lane of a unit: left for repair_short
  uint32_t* any_inconclusive = nullptr;
  Inconclusive* repairs = nullptr;  // left for repair_heads, as many as any_inconclusive counts
  const Flag* flag = nullptr;

  __device__ int64_t columns() const { return free.count * row; }
};

__device__ inline int64_t item_at(const Segments& s, int64_t i) {
  return s.is_64_bit ? static_cast<const int64_t*>(s.items)[i]
                     : static_cast<int64_t>(static_cast<const uint32_t*>(s.items)[i]);
}

__device__ inline uint32_t item32(const Segments& s, int64_t i) {
  return static_cast<const uint32_t*>(s.items)[i];
}

template <class Stored>
__device__ inline Stored from_payload(uint32_t bits) {
  if constexpr (sizeof(Stored) == 4)
    return bit_cast<Stored>(bits);
  else if constexpr (sizeof(Stored) == 2)
    return bit_cast<Stored>(static_cast<uint16_t>(bits));
  else if constexpr (sizeof(Stored) == 1)
    return bit_cast<Stored>(static_cast<uint8_t>(bits));
  else
    return Stored{};  // wider elements never travel with their keys
}

// One value of item i, `column` elements from the start of its row.
template <class Stored>
__device__ inline Stored load_one(const FoldArgs& a, int64_t i, int64_t column) {
  if (a.segments.payload)
    return from_payload<Stored>(static_cast<const uint32_t*>(a.segments.items)[i]);
  if (a.segments.long_rows) {
    const char* row = a.src + static_cast<uint64_t>(item32(a.segments, i)) * a.segments.item_bytes;
    return reinterpret_cast<const Stored*>(row)[column];
  }
  return reinterpret_cast<const Stored*>(a.src)[item_at(a.segments, i) + column];
}

// A tile of V columns a lane: where it begins, in elements from an item's own offsets.
struct TilePlace {
  int64_t dst, src, column;  // column: of all columns
};
__device__ inline TilePlace tile_place(const FoldArgs& a, int64_t free, int64_t in_row) {
  int64_t at[2] = {in_row * a.row_dst, in_row * a.row_src};
  if (a.free.rank != 0) walk_to(a.free, free, 2, at);
  return {at[0], at[1], free * a.row + in_row};
}

// Which segment (or chunk) of `count` and which tile a unit is; free dimensions are outermost.
struct Unit {
  int64_t which, free, in_row;
};
__device__ inline Unit unit_of(const FoldArgs& a, int64_t unit, int64_t count, int lane_columns) {
  const int64_t group = a.row_tiles == 1 ? unit : unit / a.row_tiles;
  const int64_t free = a.free.rank == 0 ? 0 : group / count;
  return {group - free * count, free,
          ((unit - group * a.row_tiles) * a.lanes + static_cast<int>(threadIdx.x) % a.lanes) *
              lane_columns};
}

__device__ inline int64_t long_count(const FoldArgs& a) {
  return static_cast<int64_t>(a.segments.counts->longs >> kChunkBits);
}
__device__ inline int64_t chunk_count(const FoldArgs& a) {
  return static_cast<int64_t>(a.segments.counts->longs & ((1ull << kChunkBits) - 1));
}

// The items of a chunk of the longer segments.
struct ChunkPlace {
  int64_t begin;
  int count;
};
__device__ inline ChunkPlace find_chunk(const FoldArgs& a, int64_t chunk) {
  int64_t low = 0, high = long_count(a);  // the last segment that begins at or before this chunk
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (a.segments.longs[middle].first_chunk <= chunk ? low : high) = middle;
  }
  const LongSegment s = a.segments.longs[low];
  const int64_t skipped = (chunk - s.first_chunk) * kChunk;
  return {s.begin + skipped,
          static_cast<int>(min(static_cast<int64_t>(kChunk), s.count - skipped))};
}

}  // namespace sow::detail::cuda
