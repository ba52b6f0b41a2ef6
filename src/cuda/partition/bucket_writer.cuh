// SPDX-License-Identifier: Apache-2.0
// The bucket writer of the radix partition: items go to buckets of neighbouring places, in any
// order. A block puts a tile of them in the order of their buckets in shared memory and appends
// each bucket's run to the bucket.
//
// Nobody counts before: every bucket has the same room at first, and only where that was not
// enough, which the first try tells together with all counts, they are written once more to where
// they fit exactly.
//
// A Source says what is partitioned:
//   Raw                                 what is read of an item to find its place
//   fetch(first, count, raw, bad)     kPartitionEach items from `first`, kPartitionThreads apart;
//                                     beyond the last one any
//   place(raw, bad)                   kNowhere: left out
//   payloads(first, count, raw, out)  what travels with them
//   Tally                             made of the source; see(payload) per item, done() at the end
#pragma once

#include "cuda/common/shared_memory.cuh"
#include "cuda/sort/segments.cuh"

namespace sow::detail::cuda {

// Of a tile: two blocks a processor, and no more items than registers hold. Microseconds for 2^26
// items to 1024 buckets: 14 of 512 threads 477, 12 of them 473, 12 of 1024 505, 16 of 1024 485
// (H200, 2026-11-15).
inline constexpr int kPartitionThreads = 512, kPartitionEach = 14;
inline constexpr int kPartitionTile = kPartitionThreads * kPartitionEach;
inline constexpr int kMostBuckets = 4096;

// An item as it lies in a bucket. Runs are filled up to whole sectors of memory with entries that
// have kPadding set: a sector that is written in parts costs several times as much (2^26 items to
// 1024 buckets, H200, 2026-11-15).
struct alignas(8) BucketRecord {
  uint32_t place, payload;
};
inline constexpr uint32_t kPadding = 1u << 31;
inline constexpr uint32_t kSectorRecords = 32 / sizeof(BucketRecord);

struct Partition {
  int bits = 0;  // of a place in its bucket
  int buckets = 1;
  int64_t count = 0;           // of items
  uint32_t unit = 1;           // records that runs are filled up to
  uint32_t capacity = 0;       // records a bucket has room for at first
  int64_t room = 0;            // records in all
  uint32_t* counts = nullptr;  // [2][bucket], zero at first: records the first time, and the second
  uint32_t* overflowed = nullptr;  // zero at first
  uint32_t* begins = nullptr;      // [bucket]
  BucketRecord* records = nullptr;
  Flag* flag = nullptr;
};

inline size_t partition_shared_bytes(const Partition& d) {
  return (static_cast<size_t>(kPartitionTile) + (d.unit - 1) * static_cast<size_t>(d.buckets)) *
             sizeof(BucketRecord) +
         static_cast<size_t>(d.buckets) * 8;
}

inline Partition plan_partition(int64_t count, int64_t places, int bits) {
  Partition d;
  d.bits = bits;
  d.buckets = static_cast<int>(((places - 1) >> bits) + 1);
  d.count = count;
  d.unit = d.buckets <= 1024 ? kSectorRecords : 1;  // 90 KiB of shared memory at most
  const int64_t tiles = (count + kPartitionTile - 1) / kPartitionTile;
  const int64_t runs = std::min(count, tiles * d.buckets), most = count + runs * (d.unit - 1);
  const int64_t expected = std::max(most, count / 8 * 9 + runs * (d.unit / 2));
  d.capacity = static_cast<uint32_t>(expected / d.buckets + 1024) / kSectorRecords * kSectorRecords;
  d.room = std::max(most, static_cast<int64_t>(d.capacity) * d.buckets);
  return d;
}

// Returns nothing that has to be zero at first but these, which come first.
inline void carve_zeros(Carver& carver, Partition& d) {
  d.counts = carver.take<uint32_t>(2 * static_cast<int64_t>(d.buckets));
  d.overflowed = carver.take<uint32_t>(1);
}
inline void carve_records(Carver& carver, Partition& d) {
  d.begins = carver.take<uint32_t>(d.buckets);
  d.records = carver.take<BucketRecord>(d.room);
}

// What comes before this thread's value in the block; `total` is the sum of all. By all threads.
__device__ inline uint32_t scan_block(uint32_t value, uint32_t& total) {
  __shared__ uint32_t sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t sum = value;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  const uint32_t others = lane < static_cast<int>(blockDim.x) / 32 ? sums[lane] : 0;
  total = __reduce_add_sync(~0u, others);
  return __reduce_add_sync(~0u, lane < warp ? others : 0) + sum - value;
}

template <class Source, bool Again>
__device__ inline void partition_tile(const Source& source, const Partition& d, int64_t tile) {
  extern __shared__ BucketRecord staged[];
  __shared__ bool full;
  uint32_t* counts =
      reinterpret_cast<uint32_t*>(staged + kPartitionTile + (d.unit - 1) * d.buckets);
  uint32_t* bases = counts + d.buckets;  // from where a run lies in the tile to where it is written
  const int me = static_cast<int>(threadIdx.x);
  const int64_t first = tile * kPartitionTile + me;
  uint32_t* cursors = d.counts + (Again ? d.buckets : 0);
  for (int b = me; b < d.buckets; b += kPartitionThreads) counts[b] = 0;
  // Once some bucket has no room left, the others are only counted.
  if (me == 0) full = !Again && *reinterpret_cast<const volatile uint32_t*>(d.overflowed) != 0;
  typename Source::Tally tally(source);
  typename Source::Raw raw[kPartitionEach];
  uint32_t place[kPartitionEach], payload[kPartitionEach], ranks[kPartitionEach / 2];
  bool bad = false;
  source.fetch(first, d.count, raw, bad);
#pragma unroll
  for (int u = 0; u < kPartitionEach; ++u) {
    place[u] = source.place(raw[u], bad);
    if (first + u * kPartitionThreads >= d.count) place[u] = kNowhere;
  }
  if (bad) mark_bad(d.flag);
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kPartitionEach; ++u) {
    const uint32_t rank = place[u] != kNowhere ? atomicAdd(counts + (place[u] >> d.bits), 1u) : 0;
    ranks[u / 2] = u % 2 == 0 ? rank : ranks[u / 2] | rank << 16;
  }
  source.payloads(first, d.count, raw, payload);  // not before: registers are short
  __syncthreads();
  // Where runs begin in the tile; where they go is known later, and waited for when the tile is in
  // order.
  uint32_t kept = 0, base = 0, got = 0, taken = 0;
  int mine = -1;
  const auto write_base = [&] {
    if (mine < 0) return;
    bases[mine] = base + got;
    if (!Again && got + taken > d.capacity) full = true;
    mine = -1;
  };
  for (int from = 0; from < d.buckets; from += kPartitionThreads) {
    write_base();
    const int b = from + me;
    const uint32_t count = b < d.buckets ? counts[b] : 0,
                   filled = (count + d.unit - 1) & ~(d.unit - 1);
    if (count != 0) got = atomicAdd(cursors + b, filled);
    uint32_t here;
    const uint32_t begin = kept + scan_block(filled, here);
    kept += here;
    if (b < d.buckets) counts[b] = begin;
    if (count == 0) continue;
    mine = b;
    taken = filled;
    base = (Again ? d.begins[b] : static_cast<uint32_t>(b) * d.capacity) - begin;
    for (uint32_t i = count; i < filled; ++i)
      staged[begin + i] = {kPadding | static_cast<uint32_t>(b) << d.bits, 0};
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kPartitionEach; ++u) {
    if (place[u] == kNowhere) continue;
    const uint32_t rank = u % 2 == 0 ? ranks[u / 2] & 0xffffu : ranks[u / 2] >> 16;
    staged[counts[place[u] >> d.bits] + rank] = {place[u], payload[u]};
    if (!Again) tally.see(payload[u]);
  }
  if (!Again) tally.done();
  write_base();
  __syncthreads();
  if (full) {
    if (me == 0) *d.overflowed = 1;
    return;
  }
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < kept; i += kPartitionThreads) {
    const BucketRecord record = staged[i];
    d.records[bases[(record.place & ~kPadding) >> d.bits] + i] = record;
  }
}

// Most of the time once is enough, so few blocks look whether it was.
template <class Source, bool Again>
__global__ void __launch_bounds__(kPartitionThreads, 2)
    partition_items(const __grid_constant__ Source source, const __grid_constant__ Partition d) {
  if (is_bad(d.flag)) return;
  if constexpr (!Again) {
    partition_tile<Source, false>(source, d, blockIdx.x);
  } else {
    if (*d.overflowed == 0) return;
    const int64_t tiles = (d.count + kPartitionTile - 1) / kPartitionTile;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      partition_tile<Source, true>(source, d, tile);
      __syncthreads();
    }
  }
}

// Where a bucket's records begin: `before` are the records of those before it.
__device__ inline uint32_t bucket_begin(const Partition& d, int bucket, uint32_t before) {
  return *d.overflowed != 0 ? before : static_cast<uint32_t>(bucket) * d.capacity;
}

// A run of keys with nothing else to it.
template <class Key>
struct KeyRun {
  using Raw = Key;
  const char* data;
  int64_t stride;  // bytes
  int64_t extent;
  Bounds bounds;

  explicit KeyRun(const Problem& p)
      : data(p.keys[0].data),
        stride(p.walk.axis[0].stride[2] * static_cast<int64_t>(sizeof(Key))),
        extent(p.keys[0].extent),
        bounds(p.bounds) {}

  __device__ void fetch(int64_t first, int64_t count, Key (&raw)[kPartitionEach], bool&) const {
    const char* from = data + first * stride;
    const int64_t step = kPartitionThreads * stride;
    if (first - threadIdx.x + kPartitionTile <= count) {
#pragma unroll
      for (int u = 0; u < kPartitionEach; ++u)
        raw[u] = __ldcs(reinterpret_cast<const Key*>(from + u * step));
    } else {
#pragma unroll
      for (int u = 0; u < kPartitionEach; ++u) {
        raw[u] = first + u * kPartitionThreads < count
                     ? *reinterpret_cast<const Key*>(from + u * step)
                     : Key(0);
      }
    }
  }
  __device__ uint32_t place(Key raw, bool& bad) const {
    int64_t key = raw;
    if (static_cast<uint64_t>(key) < static_cast<uint64_t>(extent))
      return static_cast<uint32_t>(key);
    return resolve(key, extent, bounds, bad) ? static_cast<uint32_t>(key) : kNowhere;
  }
};

// Both tries; in between the caller's `place` launches what writes begins from counts.
template <class Source, class Place>
void launch_partition(const Launch& launch, const Source& source, const Partition& d,
                      Place&& place) {
  const size_t shared = partition_shared_bytes(d);
  launch_with_shared<partition_items<Source, false>>(launch, blocks_for(d.count, kPartitionTile),
                                                     kPartitionThreads, shared, source, d);
  place();
  launch_with_shared<partition_items<Source, true>>(
      launch, blocks_for(d.count, kPartitionTile, 2 * launch.device.processors), kPartitionThreads,
      shared, source, d);
}

}  // namespace sow::detail::cuda
