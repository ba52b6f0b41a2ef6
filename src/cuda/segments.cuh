// Finding runs of equal keys on the device.
#pragma once

#include "cuda/decode.cuh"
#include "cuda/segments.h"

namespace sow::detail::cuda {

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

__device__ inline void add_long(int64_t begin, int64_t count, int64_t dst, LongSegment* longs, SegmentCounts* counts) {
  const unsigned long long chunks = static_cast<unsigned long long>((count + kChunk - 1) / kChunk);
  // One addition for both numbers, so that the list is in the order of the chunks.
  const unsigned long long before = atomicAdd(&counts->longs, (1ull << kChunkBits) + chunks);
  longs[before >> kChunkBits] = {begin, dst, count, static_cast<int64_t>(before & ((1ull << kChunkBits) - 1))};
}

}  // namespace sow::detail::cuda
