// SPDX-License-Identifier: Apache-2.0
// What the kernels that fold a group of items in one block share: their arguments, and the chains
// that find the items of a place in shared memory.
#pragma once

#include "cuda/fold/folds.h"
#include "cuda/runtime/failure.cuh"
#include "cuda/sort/segments.h"

namespace sow::detail::cuda {

struct BlockArgs {
  // What single elements of one key each need comes first: a launch fetches its parameters line by
  // line.
  char* dst = nullptr;
  const char* src = nullptr;  // null: the scalar
  const char* keys = nullptr;
  int64_t key_step = 0, src_step = 0, extent = 0, scale = 0;
  const Flag* flag = nullptr;
  int items = 0;       // of a group
  int slots = 0;       // of the chains, a power of two
  int hash_shift = 0;  // 0: places are slots
  int bits = 0;        // that tell who meets somebody, a power of two
  int bit_shift = 0;   // 0: places are bits
  Bounds bounds = Bounds::error;
  bool small = false;     // everything is one group
  bool plain = false;     // a group's items are one dimension, with one key each
  bool is_int32 = false;  // keys
  bool checked = false;   // the kernel looks for bad keys itself
  bool even = false;      // groups are so many elements apart:
  int64_t group_dst = 0, group_src = 0, group_key = 0;
  int64_t groups = 1;
  // Rows: the blocks of a group share its places and its columns.
  int parts = 1, tiles = 1;
  int64_t tile = 1;  // columns
  Problem p;
  KeyReporter reporter;
};

inline constexpr int kItemBits = 12;
inline constexpr int kMostBlockItems = 2048;
inline constexpr unsigned long long kNoItem = ~0ull;

__device__ inline uint32_t hash_of_place(unsigned long long place) {
  return (static_cast<uint32_t>(place) ^ static_cast<uint32_t>(place >> 32)) * 0x9e3779b1u;
}

// Items in chains by where their places hash to, newest first: a link is the item's place and the
// next item.
struct Chains {
  static constexpr int kEnd = (1 << kItemBits) - 1;
  unsigned long long* links;  // [item]; kNoItem: in no chain
  uint32_t* heads;            // [slots]
  int slots, hash_shift;

  __device__ void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < slots; i += static_cast<int>(blockDim.x))
      heads[i] = kEnd;
  }
  __device__ uint32_t slot(unsigned long long place) const {
    return hash_shift == 0 ? static_cast<uint32_t>(place) : hash_of_place(place) >> hash_shift;
  }
  __device__ void add(unsigned long long place, int item) const {
    links[item] =
        (place << kItemBits) | atomicExch(heads + slot(place), static_cast<uint32_t>(item));
  }
  // The first from `item` on that has the place, or kEnd.
  __device__ int find(unsigned long long place, int item) const {
    while (item != kEnd && links[item] >> kItemBits != place)
      item = static_cast<int>(links[item] & kEnd);
    return item;
  }
  __device__ int first(unsigned long long place) const {
    return find(place, static_cast<int>(heads[slot(place)]));
  }
  __device__ int after(int item) const {
    const unsigned long long link = links[item];
    return find(link >> kItemBits, static_cast<int>(link & kEnd));
  }
  // The smallest item of the chain from `first` on that comes after `item`.
  __device__ int smallest_after(int item, int first) const {
    int best = kEnd;
    for (int i = first; i != kEnd; i = after(i)) {
      if (i > item && i < best) best = i;
    }
    return best;
  }
};

template <class Fold>
concept Overwriting = requires {
  typename Fold::Overwrites;
};

}  // namespace sow::detail::cuda
