// SPDX-License-Identifier: Apache-2.0
// Folds long rows in sorted order: 8, 16 or 32 lanes take a segment, 16 bytes of a row each where
// rows are aligned, so that a warp has rows of several segments in flight.
#pragma once

#include "cuda/fold/fold_prefetched.cuh"
#include "cuda/sum/row_sums.cuh"

namespace sow::detail::cuda {

inline constexpr int kRowThreads = 128;
// Registers are what keeps rows from being in flight: with more blocks than these they spill.
inline constexpr int kRowBlocks = 9;
template <class Packed>
inline constexpr int kRowsPrefetched = sizeof(Packed) == 16 ? 4 : 8;

// A row is read once.
template <class Packed>
__device__ inline Packed load_once(const Packed* from) {
  if constexpr (sizeof(Packed) == 16) {
    uint4 bits;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(from));
    return bit_cast<Packed>(bits);
  } else {
    return *from;
  }
}

// Which segment and which columns a lane of a group takes; free dimensions and tiles are outermost.
// The list is as long as it may become, so that nobody has to wait for its length before reading.
struct RowUnit {
  Head head{0, 0, 0};
  int64_t tile = 0;
  bool active = false;  // whether this lane has columns
  int64_t
      src = 0,
      dst = 0;  // of its first column: from an item's offset, and from the destination's beginning
};

// Even: places that lie evenly, of one tile each, which is nearly always so.
template <int V, int Lanes, bool Even>
__device__ inline RowUnit row_unit(const FoldArgs& a, const Problem& p, int64_t unit) {
  RowUnit u;
  const int64_t tiles = Even ? 1 : a.row_tiles * a.free.count, most = a.segments.most_shorts;
  if (unit >= most * tiles) return u;
  u.tile = tiles == 1 ? 0 : unit / most;
  const int64_t which = unit - u.tile * most;
  const Head head = a.segments.heads[which];
  if (which < static_cast<int64_t>(a.segments.counts->shorts)) u.head = head;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  if constexpr (Even) {
    u.src = lane * V;
    u.active = u.src < a.row && u.head.count != 0;
    u.dst = u.src + u.head.place * a.place_step;
  } else {
    const int64_t free = a.row_tiles == 1 ? u.tile : u.tile / a.row_tiles;
    const int64_t in_row = ((u.tile - free * a.row_tiles) * Lanes + lane) * V;
    u.active = in_row < a.row && u.head.count != 0;
    if (!u.active) return u;
    const TilePlace at = tile_place(a, free, in_row);
    u.src = at.src;
    u.dst = at.dst + offset_of_place(p, static_cast<int64_t>(u.head.place));
  }
  return u;
}

template <class Fold, int V, int Lanes, bool Even>
__global__ void __launch_bounds__(kRowThreads, kRowBlocks)
    fold_heads(const __grid_constant__ FoldArgs a, const __grid_constant__ Problem p,
               const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  constexpr int kUnroll = kRowsPrefetched<Packed>;
  const int in_warp = static_cast<int>(threadIdx.x) % 32, lane = in_warp % Lanes,
            first = in_warp - lane;
  const auto find = [&] { return row_unit<V, Lanes, Even>(a, p, global_thread() / Lanes); };
  uint32_t begin, count;
  bool active;
  const char* from;
  Packed* place = nullptr;
  {
    const bool bad = is_bad(a.flag);
    const RowUnit u = find();
    begin = u.head.begin;
    count = bad ? 0 : u.head.count;
    active = u.active && count != 0;
    from = a.src + u.src * static_cast<int64_t>(sizeof(Stored));
    if (active) {
      place = reinterpret_cast<Packed*>(reinterpret_cast<Stored*>(a.dst) + u.dst);
      // It is needed last, and registers are short.
      asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
    }
  }
  const uint32_t most = __reduce_max_sync(~0u, count);
  RowSums<Fold, V> sums(fold);
#pragma unroll 1
  for (uint32_t base = 0; base < most; base += Lanes) {
    const uint32_t mine = base + lane < count ? item32(a.segments, begin + base + lane) : 0;
#pragma unroll 1
    for (uint32_t j = 0; j < Lanes && base + j < most; j += kUnroll) {
      Packed value[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const uint32_t item = __shfl_sync(~0u, mine, first + j + i);
        if (active && base + j + i < count) {
          value[i] = load_once(reinterpret_cast<const Packed*>(from + static_cast<uint64_t>(item) *
                                                                          a.segments.item_bytes));
        }
      }
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        if (active && base + j + i < count) sums.add(fold, value[i]);
      }
    }
  }
  bool conclusive = true;
  if (active) {
    const Packed old = *place;
    Packed result;
    conclusive = sums.finish(fold, old, count, result);
    if (conclusive) *place = result;
  }
  if constexpr (Fold::kRepairs) {
    const uint32_t left =
        __ballot_sync(~0u, !conclusive) >> first & (Lanes == 32 ? ~0u : (1u << Lanes % 32) - 1);
    if (left != 0 && lane == 0) {
      const RowUnit u = find();
      a.repairs[atomicAdd(a.any_inconclusive, 1u)] = {u.head, left, u.tile};
    }
  }
}

// What fold_heads left: sums that know what they lost, and where those cannot tell either, long
// ones.
template <class Fold, int V, int Lanes>
__global__ void __launch_bounds__(kRowThreads)
    repair_heads(const __grid_constant__ FoldArgs a, const __grid_constant__ Problem p,
                 const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  if (is_bad(a.flag)) return;
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const int64_t left = *a.any_inconclusive;
  for (int64_t entry = global_thread() / Lanes; entry < left; entry += grid_threads() / Lanes) {
    const Inconclusive u = a.repairs[entry];
    if (!((u.lanes >> lane) & 1)) continue;
    const int64_t free = a.row_tiles == 1 ? u.tile : u.tile / a.row_tiles;
    const TilePlace at = tile_place(a, free, ((u.tile - free * a.row_tiles) * Lanes + lane) * V);
    const uint32_t* items = static_cast<const uint32_t*>(a.segments.items) + u.head.begin;
    const char* from = a.src + at.src * static_cast<int64_t>(sizeof(Stored));
    const int count = static_cast<int>(u.head.count);
    const auto row = [&](int i) {
      return reinterpret_cast<const Packed*>(from + static_cast<uint64_t>(items[i]) *
                                                        a.segments.item_bytes);
    };
    Packed* place =
        reinterpret_cast<Packed*>(reinterpret_cast<Stored*>(a.dst) +
                                  offset_of_place(p, static_cast<int64_t>(u.head.place)) + at.dst);
    const Packed old = *place;
    typename Fold::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const Packed value = *row(i);
#pragma unroll
      for (int k = 0; k < V; ++k) fold.add(acc[k], value.at[k]);
    }
    Packed result;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (fold.finish(acc[k], old.at[k], count, result.at[k])) continue;
      typename Fold::Long sum;
      for (int i = 0; i < count; ++i) fold.add(sum, row(i)->at[k]);
      result.at[k] = fold.finish_long(sum, old.at[k], count);
    }
    *place = result;
  }
}

}  // namespace sow::detail::cuda
