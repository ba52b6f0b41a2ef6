// Folds rows in sorted order without a list of segments: a warp takes the segments that begin in its tile
// of keys, one after another.
#pragma once

#include "cuda/fold_args.cuh"

namespace sow::detail::cuda {

inline constexpr int kStreamThreads = 128, kStreamWarps = kStreamThreads / 32;
inline constexpr int kStreamTile = 32;
// Items on their way: 64 KB a processor at least.
template <class Packed>
inline constexpr int kAhead = sizeof(Packed) == 16 ? 8 : 16;

// A lane's share of a row of a chunk, copied on its own through shared memory: no other lane reads it.
template <class Packed>
__device__ inline void copy_ahead(Packed* to, const Packed* from) {
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (sizeof(Packed) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from), "n"(sizeof(Packed)) : "memory");
  }
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// For i in [0, count): use(i, slot), with issue(i, slot) Ahead calls before. By whole warps.
template <int Ahead, class Issue, class Use>
__device__ inline void run_ahead(int count, Issue&& issue, Use&& use) {
  for (int i = 0; i < Ahead; ++i) {
    if (i < count) issue(i, i);
    commit_copies();
  }
  for (int i = 0; i < count; ++i) {
    const int slot = i % Ahead;
    asm volatile("cp.async.wait_group %0;" ::"n"(Ahead - 1) : "memory");
    use(i, slot);
    if (i + Ahead < count) issue(i + Ahead, slot);
    commit_copies();
  }
}

// The segments that begin in a tile, as a run of sorted items.
struct StreamTile {
  int64_t first;         // the tile's first item
  int begin;             // of the run, from `first` on
  int count;             // its items
  uint32_t heads;        // which of the tile's items begin a segment
  int64_t dst;           // this lane's place, where it is a head
};

// Longer segments are listed, by the warps of `lists`, and left out.
__device__ inline StreamTile read_tile(const FoldArgs& a, const Problem& p, int64_t tile, bool lists) {
  const uint32_t* keys = static_cast<const uint32_t*>(a.segments.keys);
  const int64_t count = p.outer_count * p.item_count;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t none = UINT32_MAX;
  const auto key_at = [&](int64_t i) { return i >= 0 && i < count ? keys[i] : none; };
  StreamTile t;
  t.first = tile * kStreamTile;
  const int64_t mine = t.first + lane;
  const uint32_t key = key_at(mine), next_key = key_at(mine + kStreamTile), far_key = key_at(mine + kChunk);
  const uint32_t key_before = key_at(t.first - 1);
  const uint32_t left = __shfl_up_sync(~0u, key, 1);
  const bool kept = key < p.places && key != none;
  const bool head = kept && key != (lane == 0 ? key_before : left);
  const bool is_long = head && far_key == key;
  t.heads = __ballot_sync(~0u, head);
  t.count = 0;
  t.dst = head ? offset_of_place(p, static_cast<int64_t>(key)) : 0;
  if (t.heads == 0) return t;
  if (is_long && lists) {
    add_long(mine, end_of_run(keys, mine, count) - mine, t.dst, const_cast<LongSegment*>(a.segments.longs),
             const_cast<SegmentCounts*>(a.segments.counts));
  }
  t.begin = __ffs(static_cast<int>(t.heads)) - 1;
  // Only the last head of a tile can be that of a long segment.
  const uint32_t long_heads = __ballot_sync(~0u, is_long);
  int end = __popc(__ballot_sync(~0u, kept));
  if (long_heads != 0) {
    end = __ffs(static_cast<int>(long_heads)) - 1;
  } else if (end == kStreamTile) {
    const uint32_t last = __shfl_sync(~0u, key, kStreamTile - 1);
    int more = __popc(__ballot_sync(~0u, next_key == last));
    while (more > 0) {
      end += more;
      more = more < kStreamTile ? 0 : __popc(__ballot_sync(~0u, key_at(mine + end) == last));
    }
  }
  t.count = end - t.begin;
  return t;
}

// Where this lane's columns of a tile of columns lie.
struct StreamColumns {
  TilePlace at;
  bool active;
};
template <int V>
__device__ inline StreamColumns stream_columns(const FoldArgs& a, int64_t tile) {
  const int64_t free = a.row_tiles == 1 ? tile : tile / a.row_tiles;
  const int64_t in_row = ((tile - free * a.row_tiles) * 32 + static_cast<int>(threadIdx.x) % 32) * V;
  if (in_row >= a.row) return {{0, 0, 0}, false};
  return {tile_place(a, free, in_row), true};
}

// Adds the rows of `count` sorted items, eight on their way at a time. By whole warps.
template <class Fold, int V>
__device__ inline void fold_rows(const Fold& fold, const typename Fold::Stored* from, const uint32_t* items, int count,
                                 bool active, typename Fold::Acc (&acc)[V]) {
  using Packed = Pack<typename Fold::Stored, V>;
  constexpr int kUnroll = 8;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int base = 0; base < count; base += 32) {
    const int here = min(32, count - base);
    const uint32_t mine = lane < here ? items[base + lane] : 0;
    for (int j = 0; j < here; j += kUnroll) {
      Packed value[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const uint32_t item = __shfl_sync(~0u, mine, j + u);
        if (active && j + u < here) value[u] = *reinterpret_cast<const Packed*>(from + item);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (j + u >= here) break;
#pragma unroll
        for (int k = 0; k < V; ++k) fold.add(acc[k], value[u].at[k]);
      }
    }
  }
}

template <class Fold, int V>
__global__ void __launch_bounds__(kStreamThreads, sizeof(Pack<typename Fold::Stored, V>) == 16 ? 6 : 8)
    fold_stream(const __grid_constant__ FoldArgs a, const __grid_constant__ Problem p, const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  if (is_bad(a.flag)) return;
  const uint32_t* items = static_cast<const uint32_t*>(a.segments.items);
  const int64_t tiles = (p.outer_count * p.item_count + kStreamTile - 1) / kStreamTile;
  const int64_t units = tiles * a.row_tiles * a.free.count;
  for (int64_t unit = global_thread() / 32; unit < units; unit += grid_threads() / 32) {
    const int64_t columns = a.row_tiles * a.free.count == 1 ? 0 : unit / tiles;
    const StreamTile t = read_tile(a, p, unit - columns * tiles, columns == 0);
    const StreamColumns c = stream_columns<V>(a, columns);
    const Stored* from = reinterpret_cast<const Stored*>(a.src) + c.at.src;
    Stored* to = reinterpret_cast<Stored*>(a.dst) + c.at.dst;
    for (uint32_t heads = t.heads; t.count > 0 && heads != 0;) {
      const int head = __ffs(static_cast<int>(heads)) - 1;
      heads &= heads - 1;
      // The last segment may end beyond the tile; a long one is left out.
      const int end = heads != 0 ? __ffs(static_cast<int>(heads)) - 1 : t.begin + t.count, count = end - head;
      if (count <= 0) break;
      Packed* place = reinterpret_cast<Packed*>(to + __shfl_sync(~0u, t.dst, head));
      Packed old;
      if (c.active) old = *place;
      typename Fold::Acc acc[V];
#pragma unroll
      for (int k = 0; k < V; ++k) acc[k] = fold.start();
      fold_rows<Fold, V>(fold, from, items + t.first + head, count, c.active, acc);
      bool settled = true;
      Packed result;
#pragma unroll
      for (int k = 0; k < V; ++k) settled = fold.finish(acc[k], old.at[k], count, result.at[k]) && settled;
      if (c.active && settled) *place = result;
      if constexpr (Fold::kRepairs) {
        const uint32_t left = __ballot_sync(~0u, c.active && !settled);
        if (left != 0 && threadIdx.x % 32 == 0) {
          a.repairs[atomicAdd(a.any_unsettled, 1u)] = {static_cast<uint32_t>(t.first + head), left, columns};
        }
      }
    }
  }
}

// What fold_stream left, exactly: a warp a segment, a lane its V columns.
template <class Fold, int V>
__global__ void __launch_bounds__(kStreamThreads) repair_stream(const __grid_constant__ FoldArgs a,
                                                                const __grid_constant__ Problem p,
                                                                const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  if (is_bad(a.flag)) return;
  const uint32_t* keys = static_cast<const uint32_t*>(a.segments.keys);
  const int64_t count = p.outer_count * p.item_count, left = *a.any_unsettled;
  for (int64_t entry = global_thread() / 32; entry < left; entry += grid_threads() / 32) {
    const Unsettled u = a.repairs[entry];
    if (!((u.lanes >> (threadIdx.x % 32)) & 1)) continue;
    const TilePlace at = stream_columns<V>(a, u.tile).at;
    const uint32_t key = keys[u.head];
    Stored* place = reinterpret_cast<Stored*>(a.dst) + offset_of_place(p, static_cast<int64_t>(key)) + at.dst;
    for (int k = 0; k < V; ++k) {
      typename Fold::Long sum;
      int64_t i = u.head;
      for (; i < count && keys[i] == key; ++i) fold.add(sum, load_one<Stored>(a, i, at.src + k));
      place[k] = fold.finish_long(sum, place[k], i - u.head);
    }
  }
}

// Chunks of the longer segments, by the same stream: partials[chunk][column].
template <class Fold, int V>
__global__ void __launch_bounds__(kStreamThreads, 8) stream_chunks(const __grid_constant__ FoldArgs a,
                                                                    const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  __shared__ Packed ring[kStreamWarps][kAhead<Packed>][32];
  if (is_bad(a.flag)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t chunks = chunk_count(a), units = chunks * a.row_tiles * a.free.count;
  for (int64_t unit = global_thread() / 32; unit < units; unit += grid_threads() / 32) {
    const int64_t columns = unit / chunks, which = unit - columns * chunks;
    const ChunkPlace chunk = find_chunk(a, which);
    const StreamColumns c = stream_columns<V>(a, columns);
    const Stored* from = reinterpret_cast<const Stored*>(a.src) + c.at.src;
    typename Fold::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
    uint32_t item = 0;
    const auto issue = [&](int i, int slot) {
      if (i % 32 == 0 && i + lane < chunk.count) item = narrow_item(a.segments, chunk.begin + i + lane);
      const uint32_t offset = __shfl_sync(~0u, item, i % 32);
      if (c.active) copy_ahead(&ring[warp][slot][lane], reinterpret_cast<const Packed*>(from + offset));
    };
    const auto use = [&](int, int slot) {
      const Packed value = ring[warp][slot][lane];
#pragma unroll
      for (int k = 0; k < V; ++k) fold.add(acc[k], value.at[k]);
    };
    run_ahead<kAhead<Packed>>(chunk.count, issue, use);
    if (!c.active) continue;
    auto* out = static_cast<typename Fold::Partial*>(a.partials) + which * a.columns() + c.at.column;
#pragma unroll
    for (int k = 0; k < V; ++k) out[k] = fold.to_partial(acc[k]);
  }
}

}  // namespace sow::detail::cuda
