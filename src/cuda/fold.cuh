// Folds segments: one group of lanes a segment and tile of columns, accumulators in registers.
//
// A Fold policy says what happens to values:
//   Stored           an element as it lies in memory
//   Acc              what a thread accumulates
//   start()          an Acc of no value
//   add(acc, v)      one more value
//   merge(acc, b)    the values of b come after those of acc
//   finish(acc, old, count, out)   the result, or false where only repair(...) can tell
//   repair           a wider accumulator (Long) with start, add, merge, finish
#pragma once

#include "cuda/decode.cuh"
#include "cuda/segments.h"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

struct FoldArgs {
  Problem p;
  Segments segments;
  int lanes = 1;          // of a group; a power of two up to 32
  int64_t tiles = 1;      // of columns
  void* partials = nullptr;
  const Flag* flag = nullptr;
};

__device__ inline int64_t ordered_position(const Segments& s, int64_t i) {
  if (s.order == nullptr) return i;
  return s.wide ? static_cast<int64_t>(static_cast<const uint64_t*>(s.order)[i])
                : static_cast<int64_t>(static_cast<const uint32_t*>(s.order)[i]);
}

template <class Fold, int V>
__device__ inline Pack<typename Fold::Stored, V> load_source(const Problem& p, int64_t src, int64_t column) {
  using Stored = typename Fold::Stored;
  if (p.src == nullptr) {
    Pack<Stored, V> out;
#pragma unroll
    for (int k = 0; k < V; ++k) out.at[k] = *reinterpret_cast<const Stored*>(p.scalar);
    return out;
  }
  const Stored* from = reinterpret_cast<const Stored*>(p.src) + src + column * p.row_src;
  return *reinterpret_cast<const Pack<Stored, V>*>(from);
}

// Adds items [begin, end) of the order to acc, for the V columns from `column` on.
template <class Fold, int V>
__device__ inline void fold_items(const FoldArgs& a, const Fold& fold, int64_t begin, int64_t end, int64_t column,
                                  typename Fold::Acc (&acc)[V]) {
  constexpr int kUnroll = 4;
  int64_t i = begin;
  for (; i + kUnroll <= end; i += kUnroll) {
    int64_t src[kUnroll];
    Pack<typename Fold::Stored, V> value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) src[u] = decode_src(a.p, ordered_position(a.segments, i + u));
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) value[u] = load_source<Fold, V>(a.p, src[u], column);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int k = 0; k < V; ++k) fold.add(acc[k], value[u].at[k]);
    }
  }
  for (; i < end; ++i) {
    const int64_t src = decode_src(a.p, ordered_position(a.segments, i));
    const auto value = load_source<Fold, V>(a.p, src, column);
#pragma unroll
    for (int k = 0; k < V; ++k) fold.add(acc[k], value.at[k]);
  }
}

// One column of one segment again, exactly, by a single thread. Seldom called, so never inlined.
template <class Fold>
__device__ __noinline__ typename Fold::Stored repair_column(const FoldArgs& a, const Fold& fold, Segment s,
                                                            int64_t column, typename Fold::Stored old) {
  typename Fold::Long sum;
  for (int64_t i = s.begin; i < s.end; ++i) {
    const int64_t src = decode_src(a.p, ordered_position(a.segments, i));
    fold.add(sum, load_source<Fold, 1>(a.p, src, column).at[0]);
  }
  return fold.finish_long(sum, old, s.end - s.begin);
}

// Segments of one chunk at most.
template <class Fold, int V>
__global__ void __launch_bounds__(kThreads) fold_short(const __grid_constant__ FoldArgs a,
                                                       const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  if (is_bad(a.flag)) return;
  const int64_t units = static_cast<int64_t>(a.segments.counts->shorts) * a.tiles;
  const int64_t groups = grid_threads() / a.lanes;
  for (int64_t unit = global_thread() / a.lanes; unit < units; unit += groups) {
    const int64_t which = a.tiles == 1 ? unit : unit / a.tiles;
    const int64_t tile = a.tiles == 1 ? 0 : unit - which * a.tiles;
    const int64_t column = (tile * a.lanes + threadIdx.x % a.lanes) * V;
    if (column >= a.p.row) continue;
    const Segment s = a.segments.shorts[which];
    typename Fold::Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
    fold_items<Fold, V>(a, fold, s.begin, s.end, column, acc);
    const int64_t dst = decode_dst(a.p, ordered_position(a.segments, s.begin));
    Stored* place = reinterpret_cast<Stored*>(a.p.dst) + dst + column * a.p.row_dst;
    using Packed = Pack<Stored, V>;
    Packed result = *reinterpret_cast<const Packed*>(place);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Stored old = result.at[k];
      if (fold.finish(acc[k], old, s.end - s.begin, result.at[k])) continue;
      if constexpr (Fold::kRepairs) result.at[k] = repair_column<Fold>(a, fold, s, column + k, old);
    }
    *reinterpret_cast<Packed*>(place) = result;
  }
}

__device__ inline int64_t long_count(const FoldArgs& a) {
  return static_cast<int64_t>(a.segments.counts->longs >> kChunkBits);
}
__device__ inline int64_t chunk_count(const FoldArgs& a) {
  return static_cast<int64_t>(a.segments.counts->longs & ((1ull << kChunkBits) - 1));
}

// Chunks of the longer segments: partials[chunk][column].
template <class Fold, int V>
__global__ void __launch_bounds__(kThreads) fold_chunks(const __grid_constant__ FoldArgs a,
                                                        const __grid_constant__ Fold fold) {
  using Acc = typename Fold::Acc;
  if (is_bad(a.flag)) return;
  const int64_t longs = long_count(a), units = chunk_count(a) * a.tiles;
  const int64_t groups = grid_threads() / a.lanes;
  for (int64_t unit = global_thread() / a.lanes; unit < units; unit += groups) {
    const int64_t chunk = a.tiles == 1 ? unit : unit / a.tiles;
    const int64_t tile = a.tiles == 1 ? 0 : unit - chunk * a.tiles;
    const int64_t column = (tile * a.lanes + threadIdx.x % a.lanes) * V;
    if (column >= a.p.row) continue;
    int64_t low = 0, high = longs;  // the last segment that begins at or before this chunk
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (a.segments.longs[middle].first_chunk <= chunk ? low : high) = middle;
    }
    const LongSegment s = a.segments.longs[low];
    const int64_t begin = s.begin + (chunk - s.first_chunk) * kChunk;
    Acc acc[V];
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
    fold_items<Fold, V>(a, fold, begin, min(begin + kChunk, s.end), column, acc);
    Acc* out = static_cast<Acc*>(a.partials) + chunk * a.p.row + column;
#pragma unroll
    for (int k = 0; k < V; ++k) out[k] = acc[k];
  }
}

// The exact sum of one column of one long segment by the whole block.
template <class Fold>
__device__ typename Fold::Stored repair_by_block(const FoldArgs& a, const Fold& fold, const LongSegment& s,
                                                 int64_t column, typename Fold::Stored old) {
  using Long = typename Fold::Long;
  constexpr int kWorkers = sizeof(Long) > 128 ? 64 : 128;
  __shared__ alignas(Long) char memory[kWorkers * sizeof(Long)];
  Long* sums = reinterpret_cast<Long*>(memory);
  const int worker = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (worker < kWorkers) {
    Long sum;
    for (int64_t i = s.begin + worker; i < s.end; i += kWorkers) {
      const int64_t src = decode_src(a.p, ordered_position(a.segments, i));
      fold.add(sum, load_source<Fold, 1>(a.p, src, column).at[0]);
    }
    sums[worker] = sum;
  }
  for (int half = kWorkers / 2; half > 0; half /= 2) {
    __syncthreads();
    if (worker < half) sums[worker].merge(sums[worker + half]);
  }
  __syncthreads();
  return fold.finish_long(sums[0], old, s.end - s.begin);
}

inline constexpr int kCombineThreads = 256;

// Merges the partials of each long segment. `cols` threads take neighbouring columns, the others
// share the chunks among them; where the order matters, one thread takes all chunks of a column.
template <class Fold>
__global__ void __launch_bounds__(kCombineThreads) combine_chunks(const __grid_constant__ FoldArgs a,
                                                                  const __grid_constant__ Fold fold, int cols) {
  using Acc = typename Fold::Acc;
  using Stored = typename Fold::Stored;
  __shared__ alignas(Acc) char memory[kCombineThreads * sizeof(Acc)];
  __shared__ bool unsettled[kCombineThreads];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  if (is_bad(a.flag)) return;
  const int64_t column_groups = (a.p.row + cols - 1) / cols;
  const int64_t units = long_count(a) * column_groups;
  const int lane = static_cast<int>(threadIdx.x) % cols, worker = static_cast<int>(threadIdx.x) / cols;
  const int workers = kCombineThreads / cols;
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const LongSegment s = a.segments.longs[unit / column_groups];
    const int64_t column = unit % column_groups * cols + lane;
    const int64_t chunks = (s.end - s.begin + kChunk - 1) / kChunk;
    const Acc* partials = static_cast<const Acc*>(a.partials) + s.first_chunk * a.p.row + column;
    Acc acc = fold.start();
    __syncthreads();
    if constexpr (Fold::kOrdered) {
      // Chunks come through shared memory, because one thread alone would wait for each load.
      for (int64_t first = 0; first < chunks; first += workers) {
        if (column < a.p.row && first + worker < chunks) shared[threadIdx.x] = partials[(first + worker) * a.p.row];
        __syncthreads();
        if (worker == 0 && column < a.p.row) {
          for (int w = 0; w < workers && first + w < chunks; ++w) {
            if (first + w == 0) acc = fold.first_chunk(shared[lane], *(reinterpret_cast<const Stored*>(a.p.dst) +
                decode_dst(a.p, ordered_position(a.segments, s.begin)) + column * a.p.row_dst));
            else fold.merge(acc, shared[w * cols + lane]);
          }
        }
        __syncthreads();
      }
    } else {
      if (column < a.p.row) {
        for (int64_t c = worker; c < chunks; c += workers) fold.merge(acc, partials[c * a.p.row]);
      }
      shared[threadIdx.x] = acc;
      for (int half = workers / 2; half > 0; half /= 2) {
        __syncthreads();
        if (worker < half) fold.merge(shared[threadIdx.x], shared[threadIdx.x + half * cols]);
      }
      __syncthreads();
      acc = shared[lane];
    }
    const int64_t dst = decode_dst(a.p, ordered_position(a.segments, s.begin));
    if (worker == 0) {
      unsettled[lane] = false;
      if (column < a.p.row) {
        Stored* place = reinterpret_cast<Stored*>(a.p.dst) + dst + column * a.p.row_dst;
        Stored result;
        if (fold.finish_combined(acc, *place, s.end - s.begin, result)) *place = result;
        else unsettled[lane] = true;
      }
    }
    __syncthreads();
    if constexpr (Fold::kRepairs) {
      for (int c = 0; c < cols; ++c) {
        if (!unsettled[c]) continue;
        const int64_t column_c = unit % column_groups * cols + c;
        Stored* place = reinterpret_cast<Stored*>(a.p.dst) + dst + column_c * a.p.row_dst;
        const Stored result = repair_by_block<Fold>(a, fold, s, column_c, *place);
        __syncthreads();
        if (threadIdx.x == 0) *place = result;
      }
    }
  }
}

// -- launching ---------------------------------------------------------------------------------------

template <class Fold>
size_t partial_bytes(const Problem& p, const Segments& bounds) {
  return static_cast<size_t>(bounds.most_chunks * p.row) * sizeof(typename Fold::Acc);
}

// How many elements a lane takes at once: as many as are aligned, within 16 bytes.
template <class Fold>
int pack_size(const Problem& p) {
  constexpr int width = static_cast<int>(sizeof(typename Fold::Stored));
  const int bytes = p.src == nullptr ? row_alignment_dst(p) : row_alignment(p);
  return bytes / width >= Fold::kPack ? Fold::kPack : 1;
}

template <class Fold, int V>
void launch_folds(const Launch& launch, FoldArgs a, const Fold& fold) {
  const int64_t packs = (a.p.row + V - 1) / V;
  while (a.lanes < 32 && a.lanes < packs) a.lanes *= 2;
  a.tiles = (packs + a.lanes - 1) / a.lanes;
  const int most = 32 * launch.device.processors;
  if (a.segments.most_shorts > 0) {
    const int blocks = blocks_for(a.segments.most_shorts * a.tiles, kThreads / a.lanes, most);
    fold_short<Fold, V><<<blocks, kThreads, 0, launch.stream>>>(a, fold);
  }
  if (a.segments.most_longs == 0) return;
  const int blocks = blocks_for(a.segments.most_chunks * a.tiles, kThreads / a.lanes, most);
  fold_chunks<Fold, V><<<blocks, kThreads, 0, launch.stream>>>(a, fold);
  int cols = 1;
  while (cols < 32 && cols < a.p.row) cols *= 2;
  const int64_t units = a.segments.most_longs * ((a.p.row + cols - 1) / cols);
  combine_chunks<Fold><<<blocks_for(units, 1, 4 * launch.device.processors), kCombineThreads, 0, launch.stream>>>(
      a, fold, cols);
}

template <class Fold>
void run_fold(const Launch& launch, const Segments& segments, char* partials, const Fold& fold) {
  FoldArgs a;
  a.p = launch.problem;
  a.segments = segments;
  a.partials = partials;
  a.flag = launch.flag;
  if (pack_size<Fold>(a.p) == Fold::kPack && Fold::kPack > 1) launch_folds<Fold, Fold::kPack>(launch, a, fold);
  else launch_folds<Fold, 1>(launch, a, fold);
  check_launch("fold");
}

}  // namespace sow::detail::cuda
