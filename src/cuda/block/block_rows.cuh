// SPDX-License-Identifier: Apache-2.0
// Rows of few items: every block reads all keys of its group, sorts the items of its share of the
// places, and folds its share of their columns.
#pragma once

#include <algorithm>

#include "cuda/block/block_args.cuh"

namespace sow::detail::cuda {

inline constexpr int kRowsThreads = 512;
inline constexpr int kRowsItems = kMostBlockItems / kRowsThreads;  // a thread's

// Bitonic. A warp's pairs lie side by side, so near ones need no barrier of the block.
__device__ inline void sort_block(unsigned long long* keys, int size) {
  for (int run = 2; run <= size; run *= 2) {
    for (int gap = run / 2; gap > 0; gap /= 2) {
      for (int t = static_cast<int>(threadIdx.x); t < size / 2; t += static_cast<int>(blockDim.x)) {
        const int low = 2 * t - (t & (gap - 1)), high = low + gap;
        const unsigned long long a = keys[low], b = keys[high];
        if ((a > b) == ((low & run) == 0)) {
          keys[low] = b;
          keys[high] = a;
        }
      }
      const bool last = gap == 1;
      if (gap > 32 || (last && run >= 64) || (last && run == size))
        __syncthreads();
      else
        __syncwarp();
    }
  }
}

// The first index after `at` whose place differs, by galloping: most runs are short.
__device__ inline int end_of_places(const unsigned long long* keys, int at, int count) {
  const unsigned long long place = keys[at] >> kItemBits;
  int low = at, step = 1;
  while (low + step < count && keys[low + step] >> kItemBits == place) {
    low += step;
    step *= 2;
  }
  int high = min(low + step, count);
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (keys[middle] >> kItemBits == place ? low : high) = middle;
  }
  return high;
}

// A run of equal places in the sorted keys.
struct PlaceRun {
  int begin, end;
};

// A column of a run: where it goes, and its values.
template <class Stored>
struct RunColumn {
  const BlockArgs& a;
  const unsigned long long* keys;
  int64_t first;  // position of the group's first item
  Column at;

  __device__ Stored* place(const PlaceRun& run) const {
    return reinterpret_cast<Stored*>(a.dst) +
           offset_of_place(a.p, static_cast<int64_t>(keys[run.begin] >> kItemBits)) + at.dst;
  }
  __device__ Stored value(int k) const {
    if (a.src == nullptr) return *reinterpret_cast<const Stored*>(a.p.scalar);
    const int64_t position = first + static_cast<int64_t>(keys[k] & ((1 << kItemBits) - 1));
    return reinterpret_cast<const Stored*>(a.src)[decode_src(a.p, position) + at.src];
  }
};

// Adds values begin, begin + step, ... before end; several are in flight.
template <class Fold>
__device__ inline void add_values(const Fold& fold, const RunColumn<typename Fold::Stored>& column,
                                  int begin, int end, int step, typename Fold::Acc& acc) {
  constexpr int kUnroll = 8;
  for (int k = begin; k < end; k += kUnroll * step) {
    typename Fold::Stored some[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (k + u * step < end) some[u] = column.value(k + u * step);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (k + u * step < end) fold.add(acc, some[u]);
    }
  }
}

template <class Fold>
__device__ __noinline__ typename Fold::Stored repair_run(const Fold& fold,
                                                         RunColumn<typename Fold::Stored> column,
                                                         PlaceRun run, typename Fold::Stored old) {
  typename Fold::Long sum;
  for (int k = run.begin; k < run.end; ++k) fold.add(sum, column.value(k));
  return fold.finish_long(sum, old, run.end - run.begin);
}

inline constexpr int kLongRun =
    32;  // items of a run that a thread folds for a column; of more, all threads do

// By one thread.
template <class Fold>
__device__ inline void fold_run(const Fold& fold, const RunColumn<typename Fold::Stored>& column,
                                const PlaceRun& run) {
  typename Fold::Stored* const to = column.place(run);
  if constexpr (Overwriting<Fold>) {
    *to = column.value(run.end - 1);
  } else {
    const typename Fold::Stored old = *to;
    typename Fold::Acc acc = fold.start();
    add_values(fold, column, run.begin, run.end, 1, acc);
    typename Fold::Stored result;
    const bool conclusive = fold.finish(acc, old, run.end - run.begin, result);
    if constexpr (Fold::kRepairs) {
      if (!conclusive) result = repair_run(fold, column, run, old);
    }
    *to = result;
  }
}

// By all threads of the block, for the columns from `from` to `to`: workers share the items, or
// their chunks where the order counts.
template <class Fold>
__device__ inline void fold_long_run(const BlockArgs& a, const Fold& fold,
                                     const unsigned long long* keys, int64_t first,
                                     const PlaceRun& run, int64_t from, int64_t to) {
  using Partial = typename Fold::Partial;
  __shared__ alignas(Partial) char memory[kRowsThreads * sizeof(Partial)];
  Partial* const partials = reinterpret_cast<Partial*>(memory);
  const int count = run.end - run.begin;
  int lanes = 32;
  while (lanes > 1 && lanes / 2 >= to - from) lanes /= 2;
  const int lane = static_cast<int>(threadIdx.x) % lanes,
            worker = static_cast<int>(threadIdx.x) / lanes;
  int workers = 1;
  while (2 * workers * lanes <= static_cast<int>(blockDim.x)) workers *= 2;
  for (int64_t group = from; group < to; group += lanes) {
    const bool active = group + lane < to && worker < workers;
    const RunColumn<typename Fold::Stored> column{a, keys, first,
                                                  active ? column_at(a.p, group + lane) : Column{}};
    typename Fold::Stored* const place = column.place(run);
    typename Fold::Acc acc = fold.start();
    if constexpr (Fold::kOrdered) {
      const int begin = run.begin + worker * kChunk;
      if (active) add_values(fold, column, begin, min(begin + kChunk, run.end), 1, acc);
    } else {
      if (active) add_values(fold, column, run.begin + worker, run.end, workers, acc);
    }
    __syncthreads();
    partials[threadIdx.x] = fold.to_partial(acc);
    __syncthreads();
    if (!Fold::kOrdered) {
      for (int half = workers / 2; half > 0; half /= 2) {
        if (worker < half) fold.merge(partials[threadIdx.x], partials[threadIdx.x + half * lanes]);
        __syncthreads();
      }
    }
    if (!active || worker != 0) continue;
    const typename Fold::Stored old = *place;
    typename Fold::Stored result;
    bool conclusive;
    if constexpr (Fold::kOrdered) {
      Partial total = fold.first_chunk(partials[lane], old);
      for (int c = 1; c * kChunk < count; ++c) fold.merge(total, partials[c * lanes + lane]);
      conclusive = fold.finish_partial(total, old, count, result);
    } else {
      conclusive = fold.finish_partial(partials[lane], old, count, result);
    }
    if constexpr (Fold::kRepairs) {
      if (!conclusive) result = repair_run(fold, column, run, old);
    }
    *place = result;
  }
}

// The sorted items [0, count) for the columns from `from` to `to`.
template <class Fold>
__device__ inline void fold_sorted(const BlockArgs& a, const Fold& fold,
                                   const unsigned long long* keys, int count, int64_t first,
                                   int64_t from, int64_t to) {
  __shared__ PlaceRun longs[kMostBlockItems / kLongRun];
  __shared__ int long_count;
  if (threadIdx.x == 0) long_count = 0;
  __syncthreads();
  const auto columns = static_cast<uint32_t>(to - from),
             units = static_cast<uint32_t>(count) * columns;
  for (uint32_t unit = threadIdx.x; unit < units; unit += blockDim.x) {
    const int e = static_cast<int>(unit / columns);
    const uint32_t column = unit - static_cast<uint32_t>(e) * columns;
    if (e > 0 && keys[e - 1] >> kItemBits == keys[e] >> kItemBits) continue;
    const PlaceRun run{e, end_of_places(keys, e, count)};
    if (!Overwriting<Fold> && run.end - run.begin > kLongRun) {
      if (column == 0) longs[atomicAdd(&long_count, 1)] = run;
      continue;
    }
    fold_run<Fold>(fold, {a, keys, first, column_at(a.p, from + column)}, run);
  }
  if constexpr (!Overwriting<Fold>) {
    __syncthreads();
    for (int i = 0; i < long_count; ++i) fold_long_run(a, fold, keys, first, longs[i], from, to);
  }
}

template <class Fold>
__global__ void __launch_bounds__(kRowsThreads)
    fold_block_rows(const __grid_constant__ BlockArgs a, const __grid_constant__ Fold fold) {
  extern __shared__ unsigned long long memory[];
  __shared__ int listed;
  if (is_bad(a.flag)) return;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int tile = static_cast<int>(blockIdx.x) % a.tiles;
  const int part = static_cast<int>(blockIdx.x) / a.tiles % a.parts;
  const int64_t first = static_cast<int64_t>(blockIdx.x) / a.tiles / a.parts * a.items;
  if (thread == 0) listed = 0;
  __syncthreads();
  bool bad = false;
  Item item[kRowsItems];
  decode_batch(a.p, first + thread, threads, first + a.items, item, bad);
#pragma unroll
  for (int u = 0; u < kRowsItems; ++u) {
    if (item[u].place < 0) continue;
    const auto place = static_cast<unsigned long long>(item[u].place);
    if (static_cast<int>(__umulhi(hash_of_place(place), static_cast<uint32_t>(a.parts))) != part)
      continue;
    memory[atomicAdd(&listed, 1)] =
        (place << kItemBits) | static_cast<unsigned>(thread + u * threads);
  }
  if (__syncthreads_or(a.checked && bad)) {
    a.reporter.report_by_block();
    return;
  }
  const int count = listed;
  if (count == 0) return;
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + thread; i < size; i += threads) memory[i] = kNoItem;
  __syncthreads();
  sort_block(memory, size);
  const int64_t from = tile * a.tile;
  fold_sorted(a, fold, memory, count, first, from, min(from + a.tile, a.p.free.count * a.p.row));
}

}  // namespace sow::detail::cuda
