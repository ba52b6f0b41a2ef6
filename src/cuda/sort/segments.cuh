// SPDX-License-Identifier: Apache-2.0
// Reads items on the device, and finds runs of equal keys.
#pragma once

#include "cuda/common/decode.cuh"
#include "cuda/sort/segments.h"

namespace sow::detail::cuda {

// One dimension of items, and no keys on the source's side.
inline bool is_plain(const Problem& p) {
  return !p.materialised && p.outer_count == 1 && p.walk.rank == 1 && p.src_keys == 0;
}

inline constexpr uint32_t kNowhere = UINT32_MAX;

// Positions first, first + step, ...: places (kNowhere: dropped or beyond) and the sources'
// offsets. All keys of an operand are in flight before the first is looked at.
template <bool Plain, int N>
__device__ inline void read_items(const Problem& p, int64_t first, int64_t step, int64_t count,
                                  uint32_t (&place)[N], uint32_t (&src)[N], bool& bad) {
  if constexpr (!Plain) {
#pragma unroll
    for (int u = 0; u < N; ++u) {
      Item item{0, 0, -1};
      if (first + u * step < count) item = decode_any(p, first + u * step, bad);
      place[u] = item.place < 0 ? kNowhere : static_cast<uint32_t>(item.place);
      src[u] = static_cast<uint32_t>(item.src);
    }
    return;
  }
  const WalkAxis& axis = p.walk.axis[0];
#pragma unroll
  for (int u = 0; u < N; ++u) {
    place[u] = first + u * step < count ? 0 : kNowhere;
    src[u] = static_cast<uint32_t>((first + u * step) * axis.stride[1]);
  }
  for (int k = 0; k < p.dst_keys; ++k) {
    const KeyOperand& operand = p.keys[k];
    int64_t key[N];
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int64_t at = min(first + u * step, count - 1) * axis.stride[2 + k];
      key[u] = operand.is_int32
                   ? static_cast<int64_t>(reinterpret_cast<const int32_t*>(operand.data)[at])
                   : reinterpret_cast<const int64_t*>(operand.data)[at];
    }
#pragma unroll
    for (int u = 0; u < N; ++u) {
      bool wrong = false;
      const bool kept = resolve(key[u], operand.extent, p.bounds, wrong) && place[u] != kNowhere;
      bad = bad || (wrong && first + u * step < count);
      place[u] =
          kept ? place[u] * static_cast<uint32_t>(operand.extent) + static_cast<uint32_t>(key[u])
               : kNowhere;
    }
  }
}

// The first index after `at` whose key differs, by galloping: most segments are short.
template <class U>
__device__ inline int64_t end_of_run(const U* keys, int64_t at, int64_t count) {
  const U key = keys[at];
  int64_t low = at, step = 1;  // keys[low] == key
  while (low + step < count && keys[low + step] == key) {
    low += step;
    step *= 2;
  }
  int64_t high = min(low + step, count);  // keys[high] != key, or the end
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (keys[middle] == key ? low : high) = middle;
  }
  return high;
}

__device__ inline void add_long(int64_t begin, int64_t count, int64_t dst, LongSegment* longs,
                                SegmentCounts* counts) {
  const unsigned long long chunks = static_cast<unsigned long long>((count + kChunk - 1) / kChunk);
  // One addition for both numbers, so that the list is in the order of the chunks.
  const unsigned long long before = atomicAdd(&counts->longs, (1ull << kChunkBits) + chunks);
  longs[before >> kChunkBits] = {begin, dst, count,
                                 static_cast<int64_t>(before & ((1ull << kChunkBits) - 1))};
}

}  // namespace sow::detail::cuda
