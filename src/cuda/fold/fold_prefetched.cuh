// SPDX-License-Identifier: Apache-2.0
// Folds the chunks of long segments of rows: one warp per chunk, rows prefetched to shared memory
// by asynchronous copies.
#pragma once

#include "cuda/fold/fold_args.cuh"

namespace sow::detail::cuda {

inline constexpr int kPrefetchThreads = 128, kPrefetchWarps = kPrefetchThreads / 32;
// Items in flight: 64 KB per processor at least.
template <class Packed>
inline constexpr int kPrefetched = sizeof(Packed) == 16 ? 8 : 16;

// A lane's share of a row of a chunk, copied on its own through shared memory: no other lane reads
// it.
template <class Packed>
__device__ inline void prefetch_copy(Packed* to, const Packed* from) {
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (sizeof(Packed) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from),
                 "n"(sizeof(Packed))
                 : "memory");
  }
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// For i in [0, count): use(i, slot), with issue(i, slot) Distance calls before. By whole warps.
template <int Distance, class Issue, class Use>
__device__ inline void run_prefetched(int count, Issue&& issue, Use&& use) {
  for (int i = 0; i < Distance; ++i) {
    if (i < count) issue(i, i);
    commit_copies();
  }
  for (int i = 0; i < count; ++i) {
    const int slot = i % Distance;
    asm volatile("cp.async.wait_group %0;" ::"n"(Distance - 1) : "memory");
    use(i, slot);
    if (i + Distance < count) issue(i + Distance, slot);
    commit_copies();
  }
}

// Where this lane's columns of a tile of columns lie.
struct LaneColumns {
  TilePlace at;
  bool active;
};
template <int V>
__device__ inline LaneColumns lane_columns(const FoldArgs& a, int64_t tile) {
  const int64_t free = a.row_tiles == 1 ? tile : tile / a.row_tiles;
  const int64_t in_row =
      ((tile - free * a.row_tiles) * 32 + static_cast<int>(threadIdx.x) % 32) * V;
  if (in_row >= a.row) return {{0, 0, 0}, false};
  return {tile_place(a, free, in_row), true};
}

// partials[chunk][column].
template <class Fold, int V>
__global__ void __launch_bounds__(kPrefetchThreads, 8)
    prefetch_chunks(const __grid_constant__ FoldArgs a, const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  __shared__ Packed ring[kPrefetchWarps][kPrefetched<Packed>][32];
  if (is_bad(a.flag)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t chunks = chunk_count(a), units = chunks * a.row_tiles * a.free.count;
  for (int64_t unit = global_thread() / 32; unit < units; unit += grid_threads() / 32) {
    const int64_t columns = unit / chunks, which = unit - columns * chunks;
    const ChunkPlace chunk = find_chunk(a, which);
    const LaneColumns c = lane_columns<V>(a, columns);
    const char* from = a.src + c.at.src * static_cast<int64_t>(sizeof(Stored));
    typename Fold::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
    uint32_t item = 0;
    const auto issue = [&](int i, int slot) {
      if (i % 32 == 0 && i + lane < chunk.count) item = item32(a.segments, chunk.begin + i + lane);
      const uint32_t offset = __shfl_sync(~0u, item, i % 32);
      if (c.active) {
        prefetch_copy(&ring[warp][slot][lane],
                      reinterpret_cast<const Packed*>(from + static_cast<uint64_t>(offset) *
                                                                 a.segments.item_bytes));
      }
    };
    const auto use = [&](int, int slot) {
      const Packed value = ring[warp][slot][lane];
#pragma unroll
      for (int k = 0; k < V; ++k) fold.add(acc[k], value.at[k]);
    };
    run_prefetched<kPrefetched<Packed>>(chunk.count, issue, use);
    if (!c.active) continue;
    auto* out =
        static_cast<typename Fold::Partial*>(a.partials) + which * a.columns() + c.at.column;
#pragma unroll
    for (int k = 0; k < V; ++k) out[k] = fold.to_partial(acc[k]);
  }
}

}  // namespace sow::detail::cuda
