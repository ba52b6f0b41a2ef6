// A whole outer position in one block: its items are grouped by place in shared memory and folded at
// once. One launch does a small problem, error report included; many outer positions are as many blocks.
// Where the order of updates matters items are sorted, otherwise they are chained in a hash table.
#pragma once

#include <algorithm>

#include "cuda/failure.cuh"
#include "cuda/folds.h"
#include "cuda/segments.h"

namespace sow::detail::cuda {

struct BlockArgs {
  Problem p;
  int size = 0;        // items, rounded up to a power of two
  bool values = false;  // single elements are kept in shared memory
  bool alone = false;  // one block: it looks for bad keys itself
  bool checked = false;
  const Flag* flag = nullptr;
  KeyReporter reporter;
};

inline constexpr int kItemBits = 12;
inline constexpr int kMostBlockItems = 2048;
inline constexpr int kBlockThreads = 512;  // at most: several blocks share a processor, and hide each other's waits
inline constexpr unsigned long long kNoItem = ~0ull;

// Bitonic; what has no place comes last.
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
      __syncthreads();
    }
  }
}

template <class Stored>
__device__ inline Stored block_value(const BlockArgs& a, const Stored* values, int64_t first, unsigned long long key,
                                     int64_t column) {
  const int item = static_cast<int>(key & ((1 << kItemBits) - 1));
  if (a.values) return values[item];
  if (a.p.src == nullptr) return *reinterpret_cast<const Stored*>(a.p.scalar);
  return reinterpret_cast<const Stored*>(a.p.src)[decode_src(a.p, first + item) + column];
}

// Folds the run of equal places that begins at keys[e], for one column.
template <class Fold>
__device__ inline void fold_run(const BlockArgs& a, const Fold& fold, const unsigned long long* keys,
                                const typename Fold::Stored* values, int64_t first, int e, int64_t place, Column at) {
  using Stored = typename Fold::Stored;
  Stored* const to = reinterpret_cast<Stored*>(a.p.dst) + offset_of_place(a.p, place) + at.dst;
  const Stored old = *to;
  const unsigned long long run = keys[e] >> kItemBits;
  typename Fold::Acc acc = fold.start();
  typename Fold::Partial total = fold.start_partial();
  int end = e;
  for (; end < a.size && keys[end] >> kItemBits == run && keys[end] != kNoItem; ++end) {
    if (end > e && (end - e) % kChunk == 0) {
      if constexpr (Fold::kOrdered) {
        if (end - e == kChunk) total = fold.first_chunk(fold.to_partial(acc), old);
        else fold.merge(total, fold.to_partial(acc));
      } else {
        fold.merge(total, fold.to_partial(acc));
      }
      acc = fold.start();
    }
    fold.add(acc, block_value(a, values, first, keys[end], at.src));
  }
  const int count = end - e;
  Stored result;
  bool settled;
  if (count <= kChunk) {
    settled = fold.finish(acc, old, count, result);
  } else {
    fold.merge(total, fold.to_partial(acc));
    settled = fold.finish_partial(total, old, count, result);
  }
  if constexpr (Fold::kRepairs) {
    if (!settled) {
      typename Fold::Long sum;
      for (int i = e; i < end; ++i) fold.add(sum, block_value(a, values, first, keys[i], at.src));
      result = fold.finish_long(sum, old, count);
    }
  }
  *to = result;
}

// Chains: slot[h] holds a place and the item that came to it last; next[item] the one before.
struct Chains {
  unsigned long long* places;
  int* heads;
  int* next;
  int slots;  // a power of two, at least twice the items

  __device__ void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < slots; i += static_cast<int>(blockDim.x)) {
      places[i] = kNoItem;
      heads[i] = -1;
    }
  }
  // With `last` only the largest item of a place is kept.
  __device__ void add(unsigned long long place, int item, bool last) const {
    int at = static_cast<int>((place * 0x9e3779b97f4a7c15ull) >> 40) & (slots - 1);
    while (true) {
      const unsigned long long found = atomicCAS(places + at, kNoItem, place);
      if (found == kNoItem || found == place) break;
      at = (at + 1) & (slots - 1);
    }
    next[item] = -1;
    if (last) atomicMax(heads + at, item);
    else next[item] = atomicExch(heads + at, item);
  }
};

// Folds a chain, for one column; the order of its items is whatever it happened to be.
template <class Fold>
__device__ inline void fold_chain(const BlockArgs& a, const Fold& fold, const Chains& chains, int head,
                                  const typename Fold::Stored* values, int64_t first, int64_t place, Column at) {
  using Stored = typename Fold::Stored;
  Stored* const to = reinterpret_cast<Stored*>(a.p.dst) + offset_of_place(a.p, place) + at.dst;
  const Stored old = *to;
  typename Fold::Acc acc = fold.start();
  typename Fold::Partial total = fold.start_partial();
  int count = 0;
  for (int item = head; item >= 0; item = chains.next[item]) {
    if (count > 0 && count % kChunk == 0) {
      fold.merge(total, fold.to_partial(acc));
      acc = fold.start();
    }
    fold.add(acc, block_value(a, values, first, static_cast<unsigned>(item), at.src));
    ++count;
  }
  Stored result;
  bool settled;
  if (count <= kChunk) {
    settled = fold.finish(acc, old, count, result);
  } else {
    fold.merge(total, fold.to_partial(acc));
    settled = fold.finish_partial(total, old, count, result);
  }
  if constexpr (Fold::kRepairs) {
    if (!settled) {
      typename Fold::Long sum;
      for (int item = head; item >= 0; item = chains.next[item]) {
        fold.add(sum, block_value(a, values, first, static_cast<unsigned>(item), at.src));
      }
      result = fold.finish_long(sum, old, count);
    }
  }
  *to = result;
}

template <class Fold>
__global__ void __launch_bounds__(kBlockThreads) fold_block(const __grid_constant__ BlockArgs a,
                                                   const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  extern __shared__ unsigned long long memory[];
  if (is_bad(a.flag)) return;
  const int slots = 2 * a.size;
  unsigned long long* keys = memory;  // sorted, or the chains' places
  const Chains chains{keys, reinterpret_cast<int*>(keys + slots), reinterpret_cast<int*>(keys + slots) + slots, slots};
  Stored* values = Fold::kOrdered ? reinterpret_cast<Stored*>(keys + a.size)
                                  : reinterpret_cast<Stored*>(chains.next + a.size);
  if constexpr (!Fold::kOrdered) {
    chains.clear();
    __syncthreads();
  }
  const int64_t outer = blockIdx.x, first = outer * a.p.item_count, places = a.p.places / a.p.outer_count;
  const bool simple = is_simple(a.p);
  bool bad = false;
  for (int i = static_cast<int>(threadIdx.x); i < a.size; i += static_cast<int>(blockDim.x)) {
    int64_t src = 0, place = -1;
    if (i < a.p.item_count) place = place_of(a.p, simple, first + i, src, bad);
    const unsigned long long own = static_cast<unsigned long long>(place - outer * places);
    if constexpr (Fold::kOrdered) keys[i] = place < 0 ? kNoItem : (own << kItemBits) | static_cast<unsigned>(i);
    else if (place >= 0) chains.add(own, i, Fold::kLast);
    if (a.values && place >= 0) values[i] = reinterpret_cast<const Stored*>(a.p.src)[src];
  }
  if (__syncthreads_or(a.alone && a.checked && bad)) {
    a.reporter.report_by_block();
    return;
  }
  const int64_t columns = a.p.free.count * a.p.row;
  if constexpr (Fold::kOrdered) {
    sort_block(keys, a.size);
    for (int64_t unit = threadIdx.x; unit < a.size * columns; unit += blockDim.x) {
      const int e = static_cast<int>(columns == 1 ? unit : unit / columns);
      const unsigned long long key = keys[e];
      if (key == kNoItem) break;
      if (e > 0 && keys[e - 1] >> kItemBits == key >> kItemBits) continue;
      const int64_t place = outer * places + static_cast<int64_t>(key >> kItemBits);
      fold_run<Fold>(a, fold, keys, values, first, e, place, columns == 1 ? Column{} : column_at(a.p, unit - e * columns));
    }
  } else {
    for (int64_t unit = threadIdx.x; unit < slots * columns; unit += blockDim.x) {
      const int slot = static_cast<int>(columns == 1 ? unit : unit / columns);
      if (chains.heads[slot] < 0) continue;
      const int64_t place = outer * places + static_cast<int64_t>(keys[slot]);
      fold_chain<Fold>(a, fold, chains, chains.heads[slot], values, first, place,
                       columns == 1 ? Column{} : column_at(a.p, unit - slot * columns));
    }
  }
}

template <class Fold>
void run_block(const Launch& launch, BlockArgs a, const Fold& fold) {
  a.values = a.p.columns() == 1 && a.p.src != nullptr;
  const size_t each = Fold::kOrdered ? 8 : 2 * (8 + 4) + 4;
  const size_t bytes = static_cast<size_t>(a.size) * (each + (a.values ? sizeof(typename Fold::Stored) : 0));
  if (bytes > (48u << 10)) {
    check(cudaFuncSetAttribute(fold_block<Fold>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "block");
  }
  const int threads = std::min(std::max(a.size / 4, 32), kBlockThreads);
  fold_block<Fold><<<static_cast<unsigned>(a.p.outer_count), threads, bytes, launch.stream>>>(a, fold);
  check_launch("block");
}

}  // namespace sow::detail::cuda
