// SPDX-License-Identifier: Apache-2.0
// Single elements: a group of items in one block. Items that meet are chained by place in shared
// memory; who is first in its chain folds it, and places that too many items met are folded by
// warps.
#pragma once

#include "cuda/block/block_args.cuh"
#include "cuda/common/vector.cuh"

namespace sow::detail::cuda {

inline constexpr int kMostWalked = 16;  // items of a chain that one thread folds
inline constexpr int kMostHot = kMostBlockItems / (kMostWalked + 1) + 1;

// The exact sum of a place's items. Not inlined, because it is seldom needed and large; it takes no
// structures, which would have to lie in memory for it.
template <class Fold>
__device__ __noinline__ typename Fold::Stored repair_place(const Fold& fold,
                                                           const unsigned long long* links,
                                                           const typename Fold::Stored* values,
                                                           int items, unsigned long long place,
                                                           int count, typename Fold::Stored old) {
  typename Fold::Long sum;
  for (int i = 0; i < items; ++i) {
    if (links[i] >> kItemBits == place) fold.add(sum, values[i]);
  }
  return fold.finish_long(sum, old, count);
}

// An item that meets nobody; false where only the long accumulator can tell.
template <class Fold>
__device__ inline bool fold_one(const Fold& fold, typename Fold::Stored value,
                                typename Fold::Stored old, typename Fold::Stored& result) {
  if constexpr (Overwriting<Fold>) {
    result = value;
    return true;
  } else if constexpr (requires { fold.finish_unique(value, old, result); }) {
    return fold.finish_unique(value, old, result);
  } else {
    typename Fold::Acc acc = fold.start();
    fold.add(acc, value);
    return fold.finish(acc, old, 1, result);
  }
}

// The items of the chain from `item` on by one thread; false where they are too many.
template <class Fold>
__device__ inline bool fold_chain(const Fold& fold, const Chains& chains,
                                  const typename Fold::Stored* values, int items, int item,
                                  typename Fold::Stored old, typename Fold::Stored& result) {
  int count = 0;
  if constexpr (Overwriting<Fold>) {
    int last = item;
    for (int i = item; i != Chains::kEnd; i = chains.after(i)) {
      if (++count > kMostWalked) return false;
      last = max(last, i);
    }
    result = values[last];
  } else {
    typename Fold::Acc acc = fold.start();
    if constexpr (Fold::kOrdered) {
      int at = item;
      for (int i = item; i != Chains::kEnd; i = chains.after(i)) {
        if (++count > kMostWalked) return false;
        at = min(at, i);
      }
      fold.add(acc, values[at]);
      for (int n = 1; n < count; ++n) {
        at = chains.smallest_after(at, item);
        fold.add(acc, values[at]);
      }
    } else {
      for (int i = item; i != Chains::kEnd; i = chains.after(i)) {
        if (++count > kMostWalked) return false;
        fold.add(acc, values[i]);
      }
    }
    const bool conclusive = fold.finish(acc, old, count, result);
    if constexpr (Fold::kRepairs) {
      if (!conclusive)
        result = repair_place(fold, chains.links, values, items, chains.links[item] >> kItemBits,
                              count, old);
    }
  }
  return true;
}

// Values travel between lanes as words.
template <class T, class Shuffle>
__device__ inline T shuffled(const T& value, Shuffle shuffle) {
  struct alignas(alignof(T) > 4 ? alignof(T) : 4) Padded {
    T value;
  };
  struct Words {
    uint32_t at[sizeof(Padded) / 4];
  };
  Words words = bit_cast<Words>(Padded{value});
  for (uint32_t& word : words.at) word = shuffle(word);
  return bit_cast<Padded>(words).value;
}

// Every item of the place, in their order; all lanes of the warp do the same.
template <class Fold>
__device__ inline typename Fold::Stored fold_in_order(const Fold& fold,
                                                      const unsigned long long* links,
                                                      const typename Fold::Stored* values,
                                                      int items, unsigned long long place,
                                                      typename Fold::Stored old) {
  typename Fold::Acc acc = fold.start();
  typename Fold::Partial total = fold.start_partial();
  int count = 0;
  for (int base = 0; base < items; base += 32) {
    const int i = base + static_cast<int>(threadIdx.x) % 32;
    const bool here = i < items && links[i] >> kItemBits == place;
    const typename Fold::Stored mine = values[min(i, items - 1)];
    for (uint32_t lanes = __ballot_sync(~0u, here); lanes != 0; lanes &= lanes - 1) {
      if (count > 0 && count % kChunk == 0) {
        if (count == kChunk)
          total = fold.first_chunk(fold.to_partial(acc), old);
        else
          fold.merge(total, fold.to_partial(acc));
        acc = fold.start();
      }
      const int lane = __ffs(static_cast<int>(lanes)) - 1;
      fold.add(acc, shuffled(mine, [&](uint32_t word) { return __shfl_sync(~0u, word, lane); }));
      ++count;
    }
  }
  typename Fold::Stored result;
  if (count <= kChunk) {
    fold.finish(acc, old, count, result);
  } else {
    fold.merge(total, fold.to_partial(acc));
    fold.finish_partial(total, old, count, result);
  }
  return result;
}

// A place that many items met, by a warp.
template <class Fold>
__device__ __noinline__ void fold_hot(const Fold& fold, const unsigned long long* links,
                                      const typename Fold::Stored* values, int items,
                                      unsigned long long place, typename Fold::Stored* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (Overwriting<Fold>) {
    int last = 0;
    for (int i = lane; i < items; i += 32) {
      if (links[i] >> kItemBits == place) last = i;
    }
    last = __reduce_max_sync(~0u, last);
    if (lane == 0) *to = values[last];
  } else if constexpr (Fold::kOrdered) {
    const typename Fold::Stored result = fold_in_order(fold, links, values, items, place, *to);
    __syncwarp();
    if (lane == 0) *to = result;
  } else {
    static_assert(kMostBlockItems / 32 <= kChunk);
    typename Fold::Acc acc = fold.start();
    int count = 0;
    for (int i = lane; i < items; i += 32) {
      if (links[i] >> kItemBits != place) continue;
      fold.add(acc, values[i]);
      ++count;
    }
    typename Fold::Partial total = fold.to_partial(acc);
    for (int step = 16; step > 0; step /= 2) {
      fold.merge(total,
                 shuffled(total, [&](uint32_t word) { return __shfl_down_sync(~0u, word, step); }));
    }
    count = static_cast<int>(__reduce_add_sync(~0u, static_cast<unsigned>(count)));
    if (lane != 0) return;
    const typename Fold::Stored old = *to;
    typename Fold::Stored result;
    const bool conclusive = fold.finish_partial(total, old, count, result);
    if constexpr (Fold::kRepairs) {
      if (!conclusive) result = repair_place(fold, links, values, items, place, count, old);
    }
    *to = result;
  }
}

struct GroupBase {
  int64_t dst = 0, src = 0, key = 0;
};

// Where a group of a plain problem begins.
__device__ inline GroupBase group_base(const BlockArgs& a) {
  if (gridDim.x == 1) return {};
  if (a.even) return {blockIdx.x * a.group_dst, blockIdx.x * a.group_src, blockIdx.x * a.group_key};
  int64_t at[3] = {};
  walk_to(a.p.walk, static_cast<int64_t>(blockIdx.x) * a.items, 3, at);
  return {at[0], at[1], at[2]};
}

// A thread's U items: places (-1: none), their offsets in the destination, and values.
template <class Stored, bool Plain, int U>
struct OwnItems;

template <class Stored, int U>
struct OwnItems<Stored, true, U> {
  GroupBase base;
  int64_t key[U];
  int32_t place[U];
  Stored value[U];

  // Everything is in flight before anything is looked at.
  __device__ void fetch(const BlockArgs& a) {
    base = group_base(a);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int i = static_cast<int>(threadIdx.x + u * blockDim.x);
      const int64_t at = base.key + i * a.key_step;
      if (i >= a.items) continue;
      // Read once: what is kept in the cache is what updates meet in.
      key[u] = a.is_int32
                   ? static_cast<int64_t>(__ldcs(reinterpret_cast<const int32_t*>(a.keys) + at))
                   : static_cast<int64_t>(__ldcs(reinterpret_cast<const long long*>(a.keys) + at));
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int i = static_cast<int>(threadIdx.x + u * blockDim.x);
      if (i >= a.items) continue;
      using Word = WordOf<static_cast<int>(sizeof(Stored))>;
      value[u] = a.src == nullptr ? *reinterpret_cast<const Stored*>(a.p.scalar)
                                  : bit_cast<Stored>(__ldcs(reinterpret_cast<const Word*>(a.src) +
                                                            base.src + i * a.src_step));
    }
  }
  __device__ void find(const BlockArgs& a, bool& bad) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      place[u] = -1;
      if (static_cast<int>(threadIdx.x + u * blockDim.x) >= a.items) continue;
      if (resolve(key[u], a.extent, a.bounds, bad)) place[u] = static_cast<int32_t>(key[u]);
    }
  }
  __device__ Stored* at_place(const BlockArgs& a, int64_t where) const {
    return reinterpret_cast<Stored*>(a.dst) + base.dst + where * a.scale;
  }
  __device__ Stored* at(const BlockArgs& a, int u) const { return at_place(a, place[u]); }
};

template <class Stored, int U>
struct OwnItems<Stored, false, U> {
  int64_t place[U], dst[U];
  Stored value[U];

  __device__ void fetch(const BlockArgs&) {}
  __device__ void find(const BlockArgs& a, bool& bad) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int i = static_cast<int>(threadIdx.x + u * blockDim.x);
      place[u] = -1;
      if (i >= a.items) continue;
      const Item item = decode_any(a.p, static_cast<int64_t>(blockIdx.x) * a.items + i, bad);
      place[u] = item.place;
      dst[u] = item.dst;
      if (item.place < 0) continue;
      value[u] = a.src == nullptr ? *reinterpret_cast<const Stored*>(a.p.scalar)
                                  : reinterpret_cast<const Stored*>(a.src)[item.src];
    }
  }
  __device__ Stored* at(const BlockArgs& a, int u) const {
    return reinterpret_cast<Stored*>(a.dst) + dst[u];
  }
};

// What the kernels below have in shared memory.
template <class Stored>
struct BlockMemory {
  Stored* values;  // [item]
  Chains chains;

  __device__ BlockMemory(const BlockArgs& a, unsigned long long* memory)
      : values(reinterpret_cast<Stored*>(memory + a.items + a.items % 2)),
        chains{memory, reinterpret_cast<uint32_t*>(values + (a.items + 15) / 16 * 16), a.slots,
               a.hash_shift} {}
};

template <class Fold, bool Plain, int U>
__device__ inline void read_old(const BlockArgs& a,
                                const OwnItems<typename Fold::Stored, Plain, U>& own,
                                typename Fold::Stored (&old)[U]) {
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (own.place[u] < 0) continue;
    // A part of a sector is written quicker where the rest of it is in the cache: 16.8M scattered
    // elements take 0.74 ms with the old value read before and 0.94 without (H200, 2026-11-15).
    if constexpr (Overwriting<Fold>)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(own.at(a, u)));
    else
      old[u] = *own.at(a, u);
  }
}

// Places that too many items met for one thread.
template <class Stored>
struct HotPlaces {
  int count;
  int items[kMostHot];
  Stored* places[kMostHot];
};

// The chain of an item that is first in it; true where it is left to a warp.
template <class Fold>
__device__ inline bool fold_first(const BlockArgs& a, const Fold& fold,
                                  const BlockMemory<typename Fold::Stored>& memory, int item,
                                  typename Fold::Stored old, typename Fold::Stored* at,
                                  HotPlaces<typename Fold::Stored>& hot) {
  typename Fold::Stored result;
  if (fold_chain(fold, memory.chains, memory.values, a.items, item, old, result)) {
    *at = result;
    return false;
  }
  const int slot = atomicAdd(&hot.count, 1);
  hot.items[slot] = item;
  hot.places[slot] = at;
  return true;
}

// By the whole block, each thread of which says whether it left any.
template <class Fold>
__device__ inline void fold_hot_places(const BlockArgs& a, const Fold& fold,
                                       const BlockMemory<typename Fold::Stored>& memory,
                                       const HotPlaces<typename Fold::Stored>& hot, bool any) {
  if (!__syncthreads_or(any)) return;
  for (int h = static_cast<int>(threadIdx.x) / 32; h < hot.count;
       h += static_cast<int>(blockDim.x) / 32) {
    const unsigned long long* const links = memory.chains.links;
    fold_hot(fold, links, memory.values, a.items, links[hot.items[h]] >> kItemBits, hot.places[h]);
  }
}

// One group, or few: all items are chained. Step by step for all items of a thread, so that their
// loads are in flight together.
template <class Fold, bool Plain, int Threads, int U>
__global__ void __launch_bounds__(Threads)
    fold_elements(const __grid_constant__ BlockArgs a, const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  extern __shared__ unsigned long long shared[];
  if (is_bad(a.flag)) return;
  const BlockMemory<Stored> memory(a, shared);
  const Chains& chains = memory.chains;
  __shared__ HotPlaces<Stored> hot;
  OwnItems<Stored, Plain, U> own;
  own.fetch(a);
  chains.clear();
  if (threadIdx.x == 0) hot.count = 0;
  __syncthreads();
  bool bad = false;
  own.find(a, bad);
  Stored old[U];
  read_old<Fold>(a, own, old);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const int i = static_cast<int>(threadIdx.x + u * blockDim.x);
    if (i >= a.items) continue;
    if (own.place[u] < 0) {
      chains.links[i] = kNoItem;
      continue;
    }
    chains.add(static_cast<unsigned long long>(own.place[u]), i);
    memory.values[i] = own.value[u];
  }
  if (__syncthreads_or(a.checked && bad)) {
    a.reporter.report_by_block();
    return;
  }
  bool any = false;
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const int i = static_cast<int>(threadIdx.x + u * blockDim.x);
    if (own.place[u] < 0 || chains.first(static_cast<unsigned long long>(own.place[u])) != i)
      continue;
    Stored result;
    if (chains.after(i) == Chains::kEnd && fold_one(fold, own.value[u], old[u], result))
      *own.at(a, u) = result;
    else
      any = fold_first(a, fold, memory, i, old[u], own.at(a, u), hot) || any;
  }
  fold_hot_places(a, fold, memory, hot, any);
}

// Which places of a group were met, and which more than once; with more places than bits, some seem
// to be.
struct Repeats {
  uint32_t* once;
  uint32_t* twice;
  int shift;  // 0: places are bits

  __device__ uint32_t bit_of(int32_t place) const {
    return shift == 0 ? static_cast<uint32_t>(place)
                      : static_cast<uint32_t>(place) * 0x9e3779b1u >> shift;
  }
  __device__ void add(int32_t place) const {
    const uint32_t at = bit_of(place), bit = 1u << (at % 32);
    if ((atomicOr(once + at / 32, bit) & bit) != 0) atomicOr(twice + at / 32, bit);
  }
  __device__ bool is_unique(int32_t place) const {
    const uint32_t at = bit_of(place);
    return ((twice[at / 32] >> (at % 32)) & 1) == 0;
  }
};

// Many groups: most items meet nobody, and only the others are chained.
template <class Fold, int Threads, int U, int Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    fold_groups(const __grid_constant__ BlockArgs a, const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  extern __shared__ unsigned long long shared[];
  const BlockMemory<Stored> memory(a, shared);
  const Chains& chains = memory.chains;
  uint32_t* const words = chains.heads + a.slots;
  const Repeats repeats{words, words + a.bits / 32, a.bit_shift};
  __shared__ HotPlaces<Stored> hot;
  OwnItems<Stored, true, U> own;
  const bool off = is_bad(a.flag);  // in flight with the keys
  own.fetch(a);
  chains.clear();
  if (threadIdx.x == 0) hot.count = 0;
  for (int i = static_cast<int>(threadIdx.x); i < a.bits / 16; i += static_cast<int>(blockDim.x))
    words[i] = 0;
  if (off) return;
  __syncthreads();
  bool bad = false;
  own.find(a, bad);
  Stored old[U];
  read_old<Fold>(a, own, old);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (own.place[u] >= 0) repeats.add(own.place[u]);
  }
  __syncthreads();
  uint32_t left = 0;
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const int i = static_cast<int>(threadIdx.x + u * blockDim.x);
    if (i >= a.items) continue;
    Stored result;
    const bool kept = own.place[u] >= 0;
    if (!kept ||
        (repeats.is_unique(own.place[u]) && fold_one(fold, own.value[u], old[u], result))) {
      chains.links[i] = kNoItem;
      if (kept) *own.at(a, u) = result;
      continue;
    }
    chains.add(static_cast<unsigned long long>(own.place[u]), i);
    memory.values[i] = own.value[u];
    left |= 1u << u;
  }
  if (!__syncthreads_or(left != 0)) return;
  // A loop of its own, in which little is alive: it calls what is large.
  bool any = false;
#pragma unroll 1
  for (; left != 0; left &= left - 1) {
    const int i = static_cast<int>(threadIdx.x) +
                  (__ffs(static_cast<int>(left)) - 1) * static_cast<int>(blockDim.x);
    const unsigned long long place = chains.links[i] >> kItemBits;
    if (chains.first(place) != i) continue;
    Stored* const at = own.at_place(a, static_cast<int64_t>(place));
    Stored before{};
    if constexpr (!Overwriting<Fold>) before = *at;
    any = fold_first(a, fold, memory, i, before, at, hot) || any;
  }
  fold_hot_places(a, fold, memory, hot, any);
}

}  // namespace sow::detail::cuda
