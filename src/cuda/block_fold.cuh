// A whole outer position in one block. One launch does a small problem, error report included; many outer
// positions are as many blocks. Items that meet nobody are done at once; the others are chained by place in
// shared memory, or sorted where their order counts, and folded.
#pragma once

#include <algorithm>

#include "cuda/failure.cuh"
#include "cuda/folds.h"
#include "cuda/segments.h"

namespace sow::detail::cuda {

struct BlockArgs {
  Problem p;
  int size = 0;        // items, rounded up to a power of two
  int bits = 0;        // of the table that tells who meets somebody; a power of two, 0: everybody is sorted
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
      if (gap > 32 || (last && run >= 64) || (last && run == size)) __syncthreads();
      else __syncwarp();
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
__device__ inline void fold_run(const BlockArgs& a, const Fold& fold, const unsigned long long* keys, int items,
                                const typename Fold::Stored* values, int64_t first, int e, int64_t place, Column at) {
  using Stored = typename Fold::Stored;
  Stored* const to = reinterpret_cast<Stored*>(a.p.dst) + offset_of_place(a.p, place) + at.dst;
  const Stored old = *to;
  const unsigned long long run = keys[e] >> kItemBits;
  typename Fold::Acc acc = fold.start();
  typename Fold::Partial total = fold.start_partial();
  int end = e;
  for (; end < items && keys[end] >> kItemBits == run; ++end) {
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

// Items in chains by where their places hash to, newest first: a link is the item's place and the next item.
struct Chains {
  static constexpr int kEnd = (1 << kItemBits) - 1;
  unsigned long long* links;  // [item]; kNoItem: in no chain
  uint32_t* heads;            // [slots]
  int slots;                  // a power of two

  __device__ void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < slots; i += static_cast<int>(blockDim.x)) heads[i] = kEnd;
  }
  __device__ uint32_t slot(unsigned long long place) const {
    return static_cast<uint32_t>((place * 0x9e3779b97f4a7c15ull) >> 44) & static_cast<uint32_t>(slots - 1);
  }
  __device__ void add(unsigned long long place, int item) const {
    links[item] = (place << kItemBits) | atomicExch(heads + slot(place), static_cast<uint32_t>(item));
  }
  // The first from `item` on that has the place, or kEnd.
  __device__ int find(unsigned long long place, int item) const {
    while (item != kEnd && links[item] >> kItemBits != place) item = static_cast<int>(links[item] & kEnd);
    return item;
  }
  __device__ int first(unsigned long long place) const { return find(place, static_cast<int>(heads[slot(place)])); }
  __device__ int after(int item) const {
    const unsigned long long link = links[item];
    return find(link >> kItemBits, static_cast<int>(link & kEnd));
  }
};

// Folds the items of a place, for one column; the order is that of their chain, so it must be free. Of an
// overwriting fold the last item is the one that counts.
template <class Fold>
__device__ inline void fold_chain(const BlockArgs& a, const Fold& fold, const Chains& chains, int item,
                                  const typename Fold::Stored* values, int64_t first, int64_t place, Column at) {
  using Stored = typename Fold::Stored;
  Stored* const to = reinterpret_cast<Stored*>(a.p.dst) + offset_of_place(a.p, place) + at.dst;
  const auto value_of = [&](int i) { return block_value(a, values, first, static_cast<unsigned>(i), at.src); };
  if constexpr (requires { typename Fold::Overwrites; }) {
    int last = item;
    for (int i = item; i != Chains::kEnd; i = chains.after(i)) last = max(last, i);
    *to = value_of(last);
  } else {
    const Stored old = *to;
    typename Fold::Acc acc = fold.start();
    typename Fold::Partial total = fold.start_partial();
    int count = 0;
    for (int i = item; i != Chains::kEnd; i = chains.after(i), ++count) {
      if (count > 0 && count % kChunk == 0) {
        fold.merge(total, fold.to_partial(acc));
        acc = fold.start();
      }
      fold.add(acc, value_of(i));
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
        for (int i = item; i != Chains::kEnd; i = chains.after(i)) fold.add(sum, value_of(i));
        result = fold.finish_long(sum, old, count);
      }
    }
    *to = result;
  }
}

// One item alone.
template <class Fold>
__device__ inline typename Fold::Stored fold_one(const Fold& fold, typename Fold::Stored value, typename Fold::Stored old) {
  typename Fold::Acc acc = fold.start();
  fold.add(acc, value);
  typename Fold::Stored result;
  const bool settled = fold.finish(acc, old, 1, result);
  if constexpr (Fold::kRepairs) {
    if (!settled) {
      typename Fold::Long sum;
      fold.add(sum, value);
      result = fold.finish_long(sum, old, 1);
    }
  }
  return result;
}

// Which places were met, and which more than once; with more places than bits, some seem to be.
struct Meetings {
  uint32_t* once;
  uint32_t* twice;
  int bits;
  bool hashed;

  __device__ void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < bits / 32; i += static_cast<int>(blockDim.x)) once[i] = twice[i] = 0;
  }
  __device__ uint32_t slot(unsigned long long place) const {
    if (!hashed) return static_cast<uint32_t>(place);
    return static_cast<uint32_t>((place * 0x9e3779b97f4a7c15ull) >> 40) & static_cast<uint32_t>(bits - 1);
  }
  __device__ void add(unsigned long long place) const {
    const uint32_t at = slot(place), bit = 1u << (at % 32);
    if ((atomicOr(once + at / 32, bit) & bit) != 0) atomicOr(twice + at / 32, bit);
  }
  __device__ bool alone(unsigned long long place) const {
    const uint32_t at = slot(place);
    return ((twice[at / 32] >> (at % 32)) & 1) == 0;
  }
};

inline constexpr int kItemsPerThread = 4;

// The listed items, in the order of their positions.
template <class Fold>
__device__ inline void fold_sorted(const BlockArgs& a, const Fold& fold, unsigned long long* keys, int count,
                                   const typename Fold::Stored* values, int64_t first, int64_t first_place) {
  const int threads = static_cast<int>(blockDim.x);
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + static_cast<int>(threadIdx.x); i < size; i += threads) keys[i] = kNoItem;
  __syncthreads();
  if (count == 0) return;
  sort_block(keys, size);
  const int64_t columns = a.p.free.count * a.p.row;
  for (int64_t unit = threadIdx.x; unit < count * columns; unit += threads) {
    const int e = static_cast<int>(columns == 1 ? unit : unit / columns);
    const unsigned long long key = keys[e];
    if (e > 0 && keys[e - 1] >> kItemBits == key >> kItemBits) continue;
    fold_run<Fold>(a, fold, keys, count, values, first, e, first_place + static_cast<int64_t>(key >> kItemBits),
                   columns == 1 ? Column{} : column_at(a.p, unit - e * columns));
  }
}

// The chained items; single elements by the thread that has the first of a chain, columns by all.
template <class Fold>
__device__ inline void fold_chained(const BlockArgs& a, const Fold& fold, const Chains& chains,
                                    const unsigned long long (&own)[kItemsPerThread], const bool (&alone)[kItemsPerThread],
                                    const typename Fold::Stored* values, int64_t first, int64_t first_place) {
  const int threads = static_cast<int>(blockDim.x);
  const int64_t columns = a.p.free.count * a.p.row;
  if (columns == 1) {
#pragma unroll
    for (int u = 0; u < kItemsPerThread; ++u) {
      const int i = static_cast<int>(threadIdx.x) + u * threads;
      if (own[u] == kNoItem || alone[u] || chains.first(own[u]) != i) continue;
      fold_chain<Fold>(a, fold, chains, i, values, first, first_place + static_cast<int64_t>(own[u]), Column{});
    }
    return;
  }
  for (int64_t unit = threadIdx.x; unit < a.p.item_count * columns; unit += threads) {
    const int i = static_cast<int>(unit / columns);
    if (chains.links[i] == kNoItem) continue;
    const unsigned long long place = chains.links[i] >> kItemBits;
    if (chains.first(place) != i) continue;
    fold_chain<Fold>(a, fold, chains, i, values, first, first_place + static_cast<int64_t>(place),
                     column_at(a.p, unit - i * columns));
  }
}

template <class Fold, bool Sorts>
__global__ void __launch_bounds__(kBlockThreads, 2) fold_block(const __grid_constant__ BlockArgs a,
                                                            const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  extern __shared__ unsigned long long memory[];
  __shared__ int listed;
  if (is_bad(a.flag)) return;
  const int threads = static_cast<int>(blockDim.x);
  const int64_t outer = blockIdx.x, first = outer * a.p.item_count, places = a.p.places / a.p.outer_count;
  unsigned long long* keys = memory;
  Stored* values = reinterpret_cast<Stored*>(keys + a.size);
  uint32_t* words = reinterpret_cast<uint32_t*>(values + (a.values ? a.size : 0));
  const Meetings meetings{words, words + a.bits / 32, a.bits, places > a.bits};
  const Chains chains{keys, words + a.bits / 16, a.size};
  meetings.clear();
  if constexpr (!Sorts) chains.clear();
  if (threadIdx.x == 0) listed = 0;
  __syncthreads();
  bool bad = false;
  // Step by step for all items of the thread, so that their loads are on their way together.
  unsigned long long own[kItemsPerThread];
  Item item[kItemsPerThread];
  decode_batch(a.p, first + static_cast<int>(threadIdx.x), threads, first + a.p.item_count, item, bad);
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    own[u] = item[u].place < 0 ? kNoItem : static_cast<unsigned long long>(item[u].place - outer * places);
  }
  Stored value[kItemsPerThread], old[kItemsPerThread];
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    if (a.values && own[u] != kNoItem) value[u] = reinterpret_cast<const Stored*>(a.p.src)[item[u].src];
  }
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    if (a.bits != 0 && own[u] != kNoItem) meetings.add(own[u]);
  }
  if (__syncthreads_or(a.alone && a.checked && bad)) {
    a.reporter.report_by_block();
    return;
  }
  bool alone[kItemsPerThread];
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    alone[u] = a.bits != 0 && own[u] != kNoItem && meetings.alone(own[u]);
    if (!alone[u]) continue;
    const Stored* at = reinterpret_cast<const Stored*>(a.p.dst) + item[u].dst;
    // A part of a sector is written quicker where the rest of it is in the cache: 16.8M scattered elements take
    // 0.74 ms with the old value read before and 0.94 without (H200, 2026-11-15).
    if constexpr (requires { typename Fold::Overwrites; }) asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    else old[u] = *at;
  }
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    const int i = static_cast<int>(threadIdx.x) + u * threads;
    if (own[u] == kNoItem || alone[u]) {
      if (!Sorts && i < a.size) keys[i] = kNoItem;
      continue;
    }
    if constexpr (Sorts) {
      keys[atomicAdd(&listed, 1)] = (own[u] << kItemBits) | static_cast<unsigned>(i);
    } else {
      chains.add(own[u], i);
    }
    if (a.values) values[i] = value[u];
  }
#pragma unroll
  for (int u = 0; u < kItemsPerThread; ++u) {
    if (alone[u]) reinterpret_cast<Stored*>(a.p.dst)[item[u].dst] = fold_one(fold, value[u], old[u]);
  }
  __syncthreads();
  if constexpr (Sorts) fold_sorted(a, fold, keys, listed, values, first, outer * places);
  else fold_chained(a, fold, chains, own, alone, values, first, outer * places);
}

template <class Fold, bool Sorts>
void launch_block(const Launch& launch, const BlockArgs& a, const Fold& fold) {
  using Stored = typename Fold::Stored;
  const size_t chains = Sorts ? 0 : sizeof(uint32_t);
  const size_t bytes = static_cast<size_t>(a.size) * (8 + chains + (a.values ? sizeof(Stored) : 0)) + static_cast<size_t>(a.bits) / 4;
  if (bytes > (47u << 10)) {  // 48 KB with what is not asked for here
    check(cudaFuncSetAttribute(fold_block<Fold, Sorts>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "block");
  }
  const int threads = std::min(std::max(a.size / kItemsPerThread, 32), kBlockThreads);
  fold_block<Fold, Sorts><<<static_cast<unsigned>(a.p.outer_count), threads, bytes, launch.stream>>>(a, fold);
  check_launch("block");
}

template <class Fold>
void run_block(const Launch& launch, BlockArgs a, const Fold& fold) {
  a.values = a.p.columns() == 1 && a.p.src != nullptr;
  if (a.values) {
    // 16 bits an item: few items that meet nobody seem to.
    const int64_t places = a.p.places / a.p.outer_count;
    a.bits = 32;
    while (a.bits < 16 * a.size && a.bits < places) a.bits *= 2;
  }
  // One block is quicker with chains: 1,000 sums take 12 us, and 19 sorted. Side by side few items of a block meet,
  // chains would wait for the destination thread by thread, and 8192 blocks of 2048 sums take 0.86 ms, and 0.74
  // sorted (H200, 2026-11-15). What overwrites waits for nothing.
  if constexpr (Fold::kOrdered) {
    launch_block<Fold, true>(launch, a, fold);
  } else if constexpr (requires { typename Fold::Overwrites; }) {
    launch_block<Fold, false>(launch, a, fold);
  } else {
    if (a.p.outer_count > 1) launch_block<Fold, true>(launch, a, fold);
    else launch_block<Fold, false>(launch, a, fold);
  }
}

}  // namespace sow::detail::cuda
