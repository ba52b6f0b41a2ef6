// Folds rows in sorted order, as fold_stream does, where rows are aligned to 16 bytes: every lane of a warp
// sends for one row with a single instruction, into shared memory, and a tile of rows is on its way while
// the one before is folded. A warp takes the segments that begin in its range of tiles.
#pragma once

#include "cuda/fold_stream.cuh"

namespace sow::detail::cuda {

inline constexpr int kBulkThreads = 128, kBulkWarps = kBulkThreads / 32;
inline constexpr int kBulkTiles = 8;  // of a range
inline constexpr int kBulkArchitecture = 90;  // older ones have no bulk copies

__device__ inline uint32_t shared_address(const void* at) { return static_cast<uint32_t>(__cvta_generic_to_shared(at)); }

// One warp's barrier for one tile: it opens when all bytes of the tile have come.
struct TileBarrier {
  unsigned long long word;

  __device__ void open() { asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&word)) : "memory"); }
  __device__ void expect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(&word)), "r"(bytes) : "memory");
  }
  __device__ void copy(void* to, const void* from, uint32_t bytes) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(&word))
                 : "memory");
  }
  __device__ void await(uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(&word)),
        "r"(parity)
        : "memory");
  }
};

// What is known of a tile once its rows were sent for.
struct BulkTile {
  int begin, end;  // its items that are folded
  uint32_t heads;
  int64_t dst;     // this lane's place, where it is a head
};

// What a warp carries from tile to tile: whether the last item belongs to a segment of its own, and its key.
struct BulkCarry {
  bool live;
  uint32_t key;
};

template <class Fold, int V>
struct BulkWalk {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  static constexpr int kBytes = 32 * static_cast<int>(sizeof(Packed));  // of a row's share

  const FoldArgs& a;
  const Problem& p;
  const Fold& fold;
  Packed* rows;  // [2][32][32]
  TileBarrier* barriers;
  uint32_t used = 0;  // which phase each barrier is in
  int64_t columns = 0;
  uint32_t bytes = 0;
  bool active = false;           // whether this lane has columns
  const Stored* from = nullptr;  // the first column of the share
  Stored* to = nullptr;
  // The segment that is being folded.
  bool open = false;
  uint32_t first = 0;
  int count = 0;
  Packed* place = nullptr;
  Packed old;
  typename Fold::Acc acc[V];

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // Sends for the rows of a tile; past the range only those that continue the last segment.
  __device__ BulkTile fetch(int64_t tile, bool in_range, BulkCarry& carry, int stage) {
    const uint32_t* keys = static_cast<const uint32_t*>(a.segments.keys);
    const int64_t total = p.outer_count * p.item_count, i = tile * 32 + lane();
    const uint32_t key = i < total ? keys[i] : UINT32_MAX;
    const uint32_t far_key = in_range && i + kChunk < total ? keys[i + kChunk] : UINT32_MAX;
    const uint32_t item = i < total ? narrow_item(a.segments, i) : 0;
    const uint32_t left = __shfl_up_sync(~0u, key, 1);
    const bool kept = i < total && key < p.places;
    const bool head = in_range && kept && key != (lane() == 0 ? carry.key : left);
    BulkTile t;
    t.heads = __ballot_sync(~0u, head);
    const uint32_t longs = __ballot_sync(~0u, head && far_key == key);
    t.dst = head ? offset_of_place(p, static_cast<int64_t>(key)) : 0;
    if (head && far_key == key && columns == 0) {
      add_long(i, end_of_run(keys, i, total) - i, t.dst, const_cast<LongSegment*>(a.segments.longs),
               const_cast<SegmentCounts*>(a.segments.counts));
    }
    t.begin = carry.live ? 0 : t.heads == 0 ? 32 : __ffs(static_cast<int>(t.heads)) - 1;
    t.end = __popc(__ballot_sync(~0u, kept && (in_range || key == carry.key)));
    if (longs != 0) t.end = __ffs(static_cast<int>(longs)) - 1;  // only the last head can be long
    t.end = max(t.end, t.begin);
    carry.live = t.begin < t.end && t.end == 32;
    carry.key = __shfl_sync(~0u, key, 31);
    if (t.begin == t.end) return t;
    __syncwarp();  // the stage was read by all
    if (lane() == 0) barriers[stage].expect(static_cast<uint32_t>(t.end - t.begin) * bytes);
    __syncwarp();
    if (lane() >= t.begin && lane() < t.end) {
      barriers[stage].copy(rows + (stage * 32 + lane()) * 32, from + item, bytes);
      if (head) {
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(to + t.dst), "r"(bytes)
                     : "memory");
      }
    }
    return t;
  }

  __device__ void take_columns(int64_t tile) {
    columns = tile;
    const int64_t free = a.row_tiles == 1 ? tile : tile / a.row_tiles;
    const int64_t in_row = (tile - free * a.row_tiles) * 32 * V;
    const TilePlace at = tile_place(a, free, in_row);
    from = reinterpret_cast<const Stored*>(a.src) + at.src;
    to = reinterpret_cast<Stored*>(a.dst) + at.dst;
    active = in_row + lane() * V < a.row;
    bytes = static_cast<uint32_t>(min(static_cast<int64_t>(kBytes), (a.row - in_row) * static_cast<int64_t>(sizeof(Stored))));
  }

  __device__ void start(const BulkTile& t, int64_t tile, int at) {
    open = true;
    first = static_cast<uint32_t>(tile * 32 + at);
    count = 0;
    place = reinterpret_cast<Packed*>(to + __shfl_sync(~0u, t.dst, at)) + lane();
    if (active) old = *place;
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
  }

  __device__ void finish() {
    if (!open) return;
    open = false;
    bool settled = true;
    Packed result;
#pragma unroll
    for (int k = 0; k < V; ++k) settled = fold.finish(acc[k], old.at[k], count, result.at[k]) && settled;
    if (active && settled) *place = result;
    if constexpr (Fold::kRepairs) {
      const uint32_t left = __ballot_sync(~0u, active && !settled);
      if (left != 0 && lane() == 0) a.repairs[atomicAdd(a.any_unsettled, 1u)] = {first, left, columns};
    }
  }

  __device__ void add(const Packed& value) {
#pragma unroll
    for (int k = 0; k < V; ++k) fold.add(acc[k], value.at[k]);
  }

  // Folds a tile that was sent for.
  __device__ void consume(const BulkTile& t, int64_t tile, bool goes_on, int stage) {
    if (t.begin == t.end) return goes_on ? void() : finish();
    barriers[stage].await((used >> stage) & 1);
    used ^= 1u << stage;
    const Packed* mine = rows + stage * 32 * 32 + lane();
    for (int at = t.begin; at < t.end;) {
      if ((t.heads >> at) & 1) {
        finish();
        start(t, tile, at);
      }
      const uint32_t later = at < 31 ? t.heads >> (at + 1) : 0;
      const int end = later == 0 ? t.end : min(t.end, at + __ffs(static_cast<int>(later)));
      count += end - at;
      for (; at + 4 <= end; at += 4) {
        Packed value[4];
#pragma unroll
        for (int u = 0; u < 4; ++u) value[u] = mine[(at + u) * 32];
#pragma unroll
        for (int u = 0; u < 4; ++u) add(value[u]);
      }
      for (; at < end; ++at) add(mine[at * 32]);
    }
    if (!goes_on) finish();
  }

  // The segments that begin in `tiles` tiles from `tile` on.
  __device__ void run(int64_t tile, int64_t last, int64_t tiles) {
    const uint32_t* keys = static_cast<const uint32_t*>(a.segments.keys);
    BulkCarry carry{false, tile == 0 ? UINT32_MAX : keys[tile * 32 - 1]};
    BulkTile now = fetch(tile, true, carry, 0);
    for (int stage = 0;; stage ^= 1, ++tile) {
      const bool goes_on = carry.live, more = tile + 1 < last || (goes_on && tile + 1 < tiles);
      BulkTile next = {0, 0, 0, 0};
      if (more) next = fetch(tile + 1, tile + 1 < last, carry, stage ^ 1);
      consume(now, tile, goes_on, stage);
      if (!more) break;
      now = next;
    }
    finish();
  }
};

template <class Fold, int V>
__global__ void __launch_bounds__(kBulkThreads) fold_bulk(const __grid_constant__ FoldArgs a, const __grid_constant__ Problem p,
                                                          const __grid_constant__ Fold fold) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Walk = BulkWalk<Fold, V>;
  extern __shared__ __align__(128) unsigned char bulk_memory[];
  __shared__ TileBarrier barriers[kBulkWarps][2];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (is_bad(a.flag)) return;
  if (Walk::lane() == 0) {
    barriers[warp][0].open();
    barriers[warp][1].open();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();
  Walk walk{a, p, fold, reinterpret_cast<typename Walk::Packed*>(bulk_memory + warp * 2 * 32 * Walk::kBytes), barriers[warp]};
  const int64_t tiles = (p.outer_count * p.item_count + 31) / 32, ranges = (tiles + kBulkTiles - 1) / kBulkTiles;
  const int64_t units = ranges * a.row_tiles * a.free.count;
  for (int64_t unit = global_thread() / 32; unit < units; unit += grid_threads() / 32) {
    const int64_t columns = a.row_tiles * a.free.count == 1 ? 0 : unit / ranges;
    const int64_t tile = (unit - columns * ranges) * kBulkTiles;
    walk.take_columns(columns);
    walk.run(tile, min(tile + kBulkTiles, tiles), tiles);
  }
#endif
}

}  // namespace sow::detail::cuda
