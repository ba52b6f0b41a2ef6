// SPDX-License-Identifier: Apache-2.0
// Folds segments: a group of lanes takes a segment and a tile of columns, accumulators in
// registers.
//
// A Fold policy says what happens to values:
//   Stored           an element as it lies in memory
//   Acc              what a thread accumulates over a chunk at most
//   Partial          what chunks are merged in
//   start()          an Acc of no value; start_partial() a Partial
//   add(acc, v)      one more value
//   to_partial(acc)  a chunk's
//   merge(p, q)      the values of q come after those of p
//   finish(acc, old, count, out)   the result, or false where only the long accumulator can tell
//   Long             the long accumulator, where kRepairs
//   kLongRows         whether long rows of it are folded by fold_rows.cuh
#pragma once

#include "cuda/fold/fold_rows.cuh"

namespace sow::detail::cuda {

// Adds items [begin, begin + count) to acc, for the V columns from `column` on. Called by whole
// warps: the lanes of a group fetch the items together and hand them around. `count` is 0 for idle
// groups.
template <class Fold, int V>
__device__ inline void fold_items(const FoldArgs& a, const Fold& fold, int64_t begin, int count,
                                  int64_t column, bool active, typename Fold::Acc (&acc)[V]) {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  constexpr int kUnroll = 8;
  if (a.segments.payload) {
    const uint32_t* values = static_cast<const uint32_t*>(a.segments.items) + begin;
    if (active) {
      for (int i = 0; i < count; ++i) fold.add(acc[0], from_payload<Stored>(values[i]));
    }
    return;
  }
  const Stored* from = reinterpret_cast<const Stored*>(a.src) + column;
  if (a.lanes < kUnroll) {  // too few to help each other
    if (!active) return;
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      Packed value[4];
#pragma unroll
      for (int u = 0; u < 4; ++u)
        value[u] = *reinterpret_cast<const Packed*>(from + item_at(a.segments, begin + i + u));
#pragma unroll
      for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int k = 0; k < V; ++k) fold.add(acc[k], value[u].at[k]);
      }
    }
    for (; i < count; ++i) {
      const Packed value = *reinterpret_cast<const Packed*>(from + item_at(a.segments, begin + i));
#pragma unroll
      for (int k = 0; k < V; ++k) fold.add(acc[k], value.at[k]);
    }
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % 32, in_group = lane % a.lanes,
            first_lane = lane - in_group;
  const int most = __reduce_max_sync(~0u, count);
  for (int base = 0; base < most; base += a.lanes) {
    int64_t mine = 0;
    if (base + in_group < count) mine = item_at(a.segments, begin + base + in_group);
    const int here = min(a.lanes, most - base);
    for (int j = 0; j < here; j += kUnroll) {
      Packed value[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t item = __shfl_sync(~0u, mine, first_lane + j + u);
        if (active && j + u < here && base + j + u < count)
          value[u] = *reinterpret_cast<const Packed*>(from + item);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (!(active && j + u < here && base + j + u < count)) continue;
#pragma unroll
        for (int k = 0; k < V; ++k) fold.add(acc[k], value[u].at[k]);
      }
    }
  }
}

// Segments of one chunk at most. What is inconclusive is left as it was, and a bit set for it.
template <class Fold, int V>
__global__ void __launch_bounds__(kThreads)
    fold_short(const __grid_constant__ FoldArgs a, const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  using Packed = Pack<Stored, V>;
  if (is_bad(a.flag)) return;
  const int64_t segments = static_cast<int64_t>(a.segments.counts->shorts);
  const int64_t lanes_total = segments * a.row_tiles * a.free.count * a.lanes;
  for (int64_t lane = global_thread(); lane - threadIdx.x % 32 < lanes_total;
       lane += grid_threads()) {
    Segment s{0, 0, 0};
    TilePlace at{0, 0, 0};
    bool active = false;
    if (lane < lanes_total) {
      const Unit unit = unit_of(a, lane / a.lanes, segments, V);
      s = a.segments.shorts[unit.which];
      active = unit.in_row < a.row && s.count != 0;
      if (active) at = tile_place(a, unit.free, unit.in_row);
    }
    typename Fold::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
    fold_items<Fold, V>(a, fold, s.begin, s.count, at.src, active, acc);
    bool conclusive = true;
    if (active) {
      Packed* place = reinterpret_cast<Packed*>(reinterpret_cast<Stored*>(a.dst) + s.dst + at.dst);
      const Packed old = *place;
      Packed result;
#pragma unroll
      for (int k = 0; k < V; ++k)
        conclusive = fold.finish(acc[k], old.at[k], s.count, result.at[k]) && conclusive;
      if (conclusive) *place = result;
    }
    if constexpr (Fold::kRepairs) {
      const uint32_t left = __ballot_sync(~0u, !conclusive);
      if (threadIdx.x % 32 == 0) {
        a.inconclusive[lane / 32] = left;
        if (left != 0) *a.any_inconclusive = 1;
      }
    }
  }
}

// What fold_short left, exactly, a thread for its V columns.
template <class Fold, int V>
__global__ void __launch_bounds__(kThreads)
    repair_short(const __grid_constant__ FoldArgs a, const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  if (is_bad(a.flag) || *a.any_inconclusive == 0) return;
  const int64_t segments = static_cast<int64_t>(a.segments.counts->shorts);
  const int64_t lanes_total = segments * a.row_tiles * a.free.count * a.lanes;
  for (int64_t lane = global_thread(); lane < lanes_total; lane += grid_threads()) {
    if (!((a.inconclusive[lane / 32] >> (lane % 32)) & 1)) continue;
    const Unit unit = unit_of(a, lane / a.lanes, segments, V);
    const Segment s = a.segments.shorts[unit.which];
    const TilePlace at = tile_place(a, unit.free, unit.in_row);
    Stored* place = reinterpret_cast<Stored*>(a.dst) + s.dst + at.dst;
    for (int k = 0; k < V; ++k) {
      typename Fold::Long sum;
      for (int i = 0; i < s.count; ++i) fold.add(sum, load_one<Stored>(a, s.begin + i, at.src + k));
      place[k] = fold.finish_long(sum, place[k], s.count);
    }
  }
}

// Elements that travelled with their keys need no list: the first of each run of equal keys folds
// it. Runs of more than a chunk are listed for fold_chunks. With Repair only what was left is
// folded, exactly.
template <class Fold, bool Repair>
__global__ void __launch_bounds__(kThreads)
    fold_runs(const __grid_constant__ FoldArgs a, const __grid_constant__ Problem p,
              const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  if (is_bad(a.flag) || (Repair && *a.any_inconclusive == 0)) return;
  const uint32_t* keys = static_cast<const uint32_t*>(a.segments.keys);
  const uint32_t* values = static_cast<const uint32_t*>(a.segments.items);
  const int64_t count = p.outer_count * p.item_count;
  for (int64_t i = global_thread(); i - threadIdx.x % 32 < count; i += grid_threads()) {
    bool conclusive = true;
    const uint32_t key = i < count ? keys[i] : 0;
    bool head = i < count && static_cast<int64_t>(key) < p.places && (i == 0 || keys[i - 1] != key);
    if (Repair) head = head && ((a.inconclusive[i / 32] >> (i % 32)) & 1);
    if (head) {
      typename Fold::Acc acc = fold.start();
      int64_t j = i;
      for (; j < count && j - i <= kChunk && keys[j] == key; ++j) {
        if (!Repair) fold.add(acc, from_payload<Stored>(values[j]));
      }
      const int64_t dst = offset_of_place(p, key);
      Stored* place = reinterpret_cast<Stored*>(a.dst) + dst;
      const Stored old = *place;
      Stored result;
      if constexpr (Repair) {
        typename Fold::Long sum;
        for (int64_t k = i; k < j; ++k) fold.add(sum, from_payload<Stored>(values[k]));
        *place = fold.finish_long(sum, old, j - i);
      } else if (j - i > kChunk) {
        add_long(i, end_of_run(keys, i, count) - i, dst, const_cast<LongSegment*>(a.segments.longs),
                 const_cast<SegmentCounts*>(a.segments.counts));
      } else {
        conclusive = fold.finish(acc, old, j - i, result);
        if (conclusive) *place = result;
      }
    }
    if constexpr (!Repair && Fold::kRepairs) {
      const uint32_t left = __ballot_sync(~0u, !conclusive);
      if (threadIdx.x % 32 == 0) {
        a.inconclusive[i / 32] = left;
        if (left != 0) *a.any_inconclusive = 1;
      }
    }
  }
}

// Chunks of the longer segments: partials[chunk][column].
template <class Fold, int V>
__global__ void __launch_bounds__(kThreads)
    fold_chunks(const __grid_constant__ FoldArgs a, const __grid_constant__ Fold fold) {
  using Partial = typename Fold::Partial;
  if (is_bad(a.flag)) return;
  const int64_t chunks = chunk_count(a);
  const int64_t lanes_total = chunks * a.row_tiles * a.free.count * a.lanes;
  for (int64_t lane = global_thread(); lane - threadIdx.x % 32 < lanes_total;
       lane += grid_threads()) {
    Unit unit{0, 0, 0};
    TilePlace at{0, 0, 0};
    ChunkPlace chunk{0, 0};
    bool active = false;
    if (lane < lanes_total) {
      unit = unit_of(a, lane / a.lanes, chunks, V);
      chunk = find_chunk(a, unit.which);
      active = unit.in_row < a.row;
      if (active) at = tile_place(a, unit.free, unit.in_row);
    }
    typename Fold::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
    fold_items<Fold, V>(a, fold, chunk.begin, chunk.count, at.src, active, acc);
    if (!active) continue;
    Partial* out = static_cast<Partial*>(a.partials) + unit.which * a.columns() + at.column;
#pragma unroll
    for (int k = 0; k < V; ++k) out[k] = fold.to_partial(acc[k]);
  }
}

// The exact sum of one column of one long segment by the whole block.
template <class Fold>
__device__ typename Fold::Stored repair_by_block(const FoldArgs& a, const Fold& fold,
                                                 const LongSegment& s, int64_t column,
                                                 typename Fold::Stored old) {
  using Long = typename Fold::Long;
  constexpr int kWorkers = sizeof(Long) > 128 ? 64 : 128;
  __shared__ alignas(Long) char memory[kWorkers * sizeof(Long)];
  Long* sums = reinterpret_cast<Long*>(memory);
  const int worker = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (worker < kWorkers) {
    Long sum;
    for (int64_t i = worker; i < s.count; i += kWorkers) {
      fold.add(sum, load_one<typename Fold::Stored>(a, s.begin + i, column));
    }
    sums[worker] = sum;
  }
  for (int half = kWorkers / 2; half > 0; half /= 2) {
    __syncthreads();
    if (worker < half) sums[worker].merge(sums[worker + half]);
  }
  __syncthreads();
  return fold.finish_long(sums[0], old, s.count);
}

inline constexpr int kCombineThreads = 1024;

// Merges the partials of each long segment. `cols` threads take neighbouring columns, the others
// share the chunks among them; where the order matters, one thread takes all chunks of a column.
template <class Fold>
__global__ void __launch_bounds__(kCombineThreads)
    combine_chunks(const __grid_constant__ FoldArgs a, const __grid_constant__ Fold fold,
                   int cols) {
  using Partial = typename Fold::Partial;
  using Stored = typename Fold::Stored;
  __shared__ alignas(Partial) char memory[kCombineThreads * sizeof(Partial)];
  __shared__ bool inconclusive[32];
  Partial* shared = reinterpret_cast<Partial*>(memory);
  if (is_bad(a.flag)) return;
  const int64_t columns = a.columns(), column_groups = (columns + cols - 1) / cols;
  const int64_t units = long_count(a) * column_groups;
  const int lane = static_cast<int>(threadIdx.x) % cols,
            worker = static_cast<int>(threadIdx.x) / cols;
  const int workers = kCombineThreads / cols;
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const LongSegment s = a.segments.longs[unit / column_groups];
    const int64_t first_column = unit % column_groups * cols, column = first_column + lane;
    const int64_t chunks = (s.count + kChunk - 1) / kChunk;
    const Partial* partials =
        static_cast<const Partial*>(a.partials) + s.first_chunk * columns + column;
    Stored* const places = reinterpret_cast<Stored*>(a.dst) + s.dst;
    const auto place_at = [&](int64_t c) { return tile_place(a, c / a.row, c % a.row); };
    Partial sum = fold.start_partial();
    __syncthreads();
    if constexpr (Fold::kOrdered) {
      // Chunks come through shared memory, because one thread alone would wait for each load.
      for (int64_t first = 0; first < chunks; first += workers) {
        if (column < columns && first + worker < chunks)
          shared[threadIdx.x] = partials[(first + worker) * columns];
        __syncthreads();
        if (worker == 0 && column < columns) {
          for (int w = 0; w < workers && first + w < chunks; ++w) {
            if (first + w == 0)
              sum = fold.first_chunk(shared[lane], places[place_at(column).dst]);
            else
              fold.merge(sum, shared[w * cols + lane]);
          }
        }
        __syncthreads();
      }
    } else {
      if (column < columns) {
        // Several in flight: a hot place has thousands of chunks.
        constexpr int kUnroll = 8;
        int64_t c = worker;
        for (; c + (kUnroll - 1) * workers < chunks; c += kUnroll * workers) {
          Partial some[kUnroll];
#pragma unroll
          for (int u = 0; u < kUnroll; ++u) some[u] = partials[(c + u * workers) * columns];
#pragma unroll
          for (int u = 0; u < kUnroll; ++u) fold.merge(sum, some[u]);
        }
        for (; c < chunks; c += workers) fold.merge(sum, partials[c * columns]);
      }
      shared[threadIdx.x] = sum;
      int busy = workers;  // most places have few chunks
      while (busy / 2 >= chunks) busy /= 2;
      for (int half = busy / 2; half > 0; half /= 2) {
        __syncthreads();
        if (worker < half) fold.merge(shared[threadIdx.x], shared[threadIdx.x + half * cols]);
      }
      __syncthreads();
      sum = shared[lane];
    }
    if (worker == 0) {
      inconclusive[lane] = false;
      if (column < columns) {
        Stored* place = places + place_at(column).dst;
        Stored result;
        if (fold.finish_partial(sum, *place, s.count, result))
          *place = result;
        else
          inconclusive[lane] = true;
      }
    }
    __syncthreads();
    if constexpr (Fold::kRepairs) {
      for (int c = 0; c < cols; ++c) {
        if (!inconclusive[c]) continue;
        const TilePlace at = place_at(first_column + c);
        const Stored result = repair_by_block<Fold>(a, fold, s, at.src, places[at.dst]);
        __syncthreads();
        if (threadIdx.x == 0) places[at.dst] = result;
      }
    }
  }
}

// -- launching

// How many elements a lane takes at once: as many as are aligned, within 16 bytes.
template <class Fold>
int pack_size(const Problem& p) {
  constexpr int width = static_cast<int>(sizeof(typename Fold::Stored));
  return row_alignment(p) / width >= Fold::kPack ? Fold::kPack : 1;
}

template <class Fold>
void launch_combine(const Launch& launch, const FoldArgs& a, const Fold& fold) {
  const int64_t columns = a.free.count * a.row;
  int cols = 1;
  while (cols < 32 && cols < columns) cols *= 2;
  const int64_t units = a.segments.most_longs * ((columns + cols - 1) / cols);
  combine_chunks<Fold>
      <<<blocks_for(units, 1, 2 * launch.device.processors), kCombineThreads, 0, launch.stream>>>(
          a, fold, cols);
}

// Chunks are read 16 bytes per lane where that can be, even if some lanes have nothing to do then.
template <class Fold, int V>
void launch_chunks(const Launch& launch, FoldArgs a, const Fold& fold) {
  constexpr int kPerLane = 16 / static_cast<int>(sizeof(typename Fold::Stored));
  const int most = 8 * launch.device.processors;
  const auto blocks = [&](int columns) {
    a.row_tiles = (a.row + 32 * columns - 1) / (32 * columns);
    return blocks_for(a.segments.most_chunks * a.row_tiles * a.free.count, kPrefetchWarps, most);
  };
  if (row_alignment(launch.problem) == 16) {
    const int most_packed = blocks(kPerLane);
    prefetch_chunks<Fold, kPerLane><<<most_packed, kPrefetchThreads, 0, launch.stream>>>(a, fold);
  } else {
    const int packed = blocks(V);
    prefetch_chunks<Fold, V><<<packed, kPrefetchThreads, 0, launch.stream>>>(a, fold);
  }
}

template <class Fold, int V, int Lanes>
void launch_rows(const Launch& launch, FoldArgs a, const Fold& fold) {
  const Problem& p = launch.problem;
  a.row_tiles = (a.row + Lanes * V - 1) / (Lanes * V);
  const int64_t units = a.segments.most_shorts * a.row_tiles * a.free.count;
  // Blocks of their own rather than a loop: the next one's rows are in flight before the last
  // have come.
  const int blocks = blocks_for(units, kRowThreads / Lanes);
  if (Fold::kRepairs)
    check(cudaMemsetAsync(a.any_inconclusive, 0, sizeof(uint32_t), launch.stream), "fold");
  const bool even = a.place_step != 0 && a.row_tiles * a.free.count == 1;
  if (even)
    fold_heads<Fold, V, Lanes, true><<<blocks, kRowThreads, 0, launch.stream>>>(a, p, fold);
  else
    fold_heads<Fold, V, Lanes, false><<<blocks, kRowThreads, 0, launch.stream>>>(a, p, fold);
  if constexpr (Fold::kRepairs) {
    // Usually there is nothing to do.
    repair_heads<Fold, V, Lanes>
        <<<std::min(blocks, 8 * launch.device.processors), kRowThreads, 0, launch.stream>>>(a, p,
                                                                                            fold);
  }
  if (a.segments.most_longs == 0) return;
  launch_chunks<Fold, V>(launch, a, fold);
  launch_combine(launch, a, fold);
}

// 16 bytes per lane where rows are aligned to them, and as few lanes as cover the row.
template <class Fold>
void launch_rows(const Launch& launch, const FoldArgs& a, const Fold& fold) {
  constexpr int kWidth = static_cast<int>(sizeof(typename Fold::Stored)), kPerLane = 16 / kWidth;
  const int64_t bytes = launch.problem.row * kWidth, aligned = row_alignment(launch.problem);
  if (aligned == 16 || kWidth == 16) {
    if (bytes <= 8 * 16) return launch_rows<Fold, kPerLane, 8>(launch, a, fold);
    if (bytes <= 16 * 16) return launch_rows<Fold, kPerLane, 16>(launch, a, fold);
    return launch_rows<Fold, kPerLane, 32>(launch, a, fold);
  }
  if constexpr (kWidth <= 8) {
    if (aligned == 8 || kWidth == 8) return launch_rows<Fold, 8 / kWidth, 32>(launch, a, fold);
  }
  if constexpr (kWidth <= 4) return launch_rows<Fold, 4 / kWidth, 32>(launch, a, fold);
}

template <class Fold, int V>
void launch_folds(const Launch& launch, FoldArgs a, const Fold& fold) {
  const int64_t packs = (a.row + V - 1) / V;
  while (a.lanes < 32 && a.lanes < packs) a.lanes *= 2;
  a.row_tiles = (packs + a.lanes - 1) / a.lanes;
  const int64_t tiles = a.row_tiles * a.free.count;
  const int most = 64 * launch.device.processors;
  if (a.segments.runs) {
    if constexpr (V == 1 && sizeof(typename Fold::Stored) <= 4) {
      const Problem& p = launch.problem;
      const int blocks = blocks_for(p.positions(), kThreads, most);
      if (Fold::kRepairs)
        check(cudaMemsetAsync(a.any_inconclusive, 0, sizeof(uint32_t), launch.stream), "fold");
      fold_runs<Fold, false><<<blocks, kThreads, 0, launch.stream>>>(a, p, fold);
      if constexpr (Fold::kRepairs)
        fold_runs<Fold, true><<<blocks, kThreads, 0, launch.stream>>>(a, p, fold);
    }
  } else if (a.segments.most_shorts > 0) {
    const int blocks = blocks_for(a.segments.most_shorts * tiles, kThreads / a.lanes, most);
    if (Fold::kRepairs)
      check(cudaMemsetAsync(a.any_inconclusive, 0, sizeof(uint32_t), launch.stream), "fold");
    fold_short<Fold, V><<<blocks, kThreads, 0, launch.stream>>>(a, fold);
    if constexpr (Fold::kRepairs)
      repair_short<Fold, V><<<blocks, kThreads, 0, launch.stream>>>(a, fold);
  }
  if (a.segments.most_longs == 0) return;
  const int blocks = blocks_for(a.segments.most_chunks * tiles, kThreads / a.lanes, most);
  fold_chunks<Fold, V><<<blocks, kThreads, 0, launch.stream>>>(a, fold);
  launch_combine(launch, a, fold);
}

inline int64_t place_step(const Problem& p) {
  if (p.outer_count != 1 || p.dst_keys == 0) return 0;
  for (int k = 0; k + 1 < p.dst_keys; ++k) {
    if (p.keys[k].scale != p.keys[k + 1].scale * p.keys[k + 1].extent) return 0;
  }
  return p.keys[p.dst_keys - 1].scale;
}

template <class Fold>
void run_fold(const Launch& launch, const Segments& segments, const FoldMemory& memory,
              const Fold& fold) {
  static_assert(sizeof(typename Fold::Partial) <= kLargestPartial);
  const Problem& p = launch.problem;
  FoldArgs a;
  a.dst = p.dst;
  a.src = p.src == nullptr ? memory.scalar : p.src;
  a.segments = segments;
  a.free = p.free;
  a.row = p.row;
  a.row_dst = p.row_dst;
  a.row_src = p.src == nullptr ? 0 : p.row_src;
  a.place_step = place_step(p);
  if (p.src == nullptr) {
    for (int i = 0; i < a.free.rank; ++i) a.free.axis[i].stride[1] = 0;
  }
  a.partials = memory.partials;
  a.inconclusive = memory.inconclusive;
  a.any_inconclusive = memory.any_inconclusive;
  a.repairs = memory.repairs;
  a.flag = launch.flag;
  if constexpr (Fold::kLongRows) {
    if (segments.long_rows) {
      launch_rows(launch, a, fold);
      return check_launch("fold");
    }
  }
  if (p.src != nullptr && !segments.payload && pack_size<Fold>(p) == Fold::kPack &&
      Fold::kPack > 1) {
    launch_folds<Fold, Fold::kPack>(launch, a, fold);
  } else {
    launch_folds<Fold, 1>(launch, a, fold);
  }
  check_launch("fold");
}

}  // namespace sow::detail::cuda
