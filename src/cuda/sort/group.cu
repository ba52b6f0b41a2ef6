// SPDX-License-Identifier: Apache-2.0
// Groups items by place without a sort: a radix partition into buckets of neighbouring places, then
// a counting sort of each bucket in shared memory. Buckets with too many items are shared among
// blocks.
#include "cuda/sort/group.h"

#include <algorithm>

#include "cuda/partition/bucket_writer.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kGroupThreads = 512;
constexpr int kChunkRecords = 8192;  // of a big bucket
constexpr int kLeastBucket = 12000;  // items of an average bucket at least, so twice that at most
constexpr int kMostLocalBits = 12;
constexpr int kStaged =
    24576;  // items of a bucket that are put in order in shared memory, where they fit
constexpr int kMostOneBlock = 1 << 15;  // records of a bucket that one block takes

struct Big {
  uint32_t bucket, first_chunk;
};

struct GroupArgs {
  Problem p;
  Partition partition;
  uint32_t staged = 0;                      // items there is room for in shared memory
  unsigned long long* big_count = nullptr;  // buckets << 32 | chunks, zero at first
  Big* bigs = nullptr;
  uint32_t* at_place =
      nullptr;  // [place], zero at first: of big buckets, the items and then the next one's place
  uint32_t* items = nullptr;
  Head* heads = nullptr;
  LongSegment* longs = nullptr;
  SegmentCounts* segments = nullptr;
  Flag* flag = nullptr;
};

struct NoTally {
  template <class Source>
  __device__ explicit NoTally(const Source&) {}
  __device__ void see(uint32_t) {}
  __device__ void done() {}
};

// Rows one after another, with a key each.
template <class Key>
struct KeyedRows : KeyRun<Key> {
  uint32_t stride;
  explicit KeyedRows(const Problem& p)
      : KeyRun<Key>(p), stride(static_cast<uint32_t>(p.walk.axis[0].stride[1])) {}
  __device__ void payloads(int64_t first, int64_t, const Key (&)[kPartitionEach],
                           uint32_t (&out)[kPartitionEach]) const {
#pragma unroll
    for (int u = 0; u < kPartitionEach; ++u)
      out[u] = static_cast<uint32_t>(first + u * kPartitionThreads) * stride;
  }
  using Tally = NoTally;
};

// Any others.
template <bool Plain>
struct WalkedRows {
  struct Raw {
    uint32_t place, src;
  };
  using Tally = NoTally;
  Problem p;
  explicit WalkedRows(const Problem& problem) : p(problem) {}
  __device__ void fetch(int64_t first, int64_t count, Raw (&raw)[kPartitionEach], bool& bad) const {
    constexpr int kHalf = kPartitionEach / 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t place[kHalf], src[kHalf];
      read_items<Plain>(p, first + h * kHalf * kPartitionThreads, kPartitionThreads, count, place,
                        src, bad);
#pragma unroll
      for (int u = 0; u < kHalf; ++u) raw[h * kHalf + u] = {place[u], src[u]};
    }
  }
  __device__ uint32_t place(Raw raw, bool&) const { return raw.place; }
  __device__ void payloads(int64_t first, int64_t, const Raw (&raw)[kPartitionEach],
                           uint32_t (&out)[kPartitionEach]) const {
    // Worked out once more where it can be rather than kept: registers are short.
#pragma unroll
    for (int u = 0; u < kPartitionEach; ++u) {
      out[u] =
          Plain ? static_cast<uint32_t>((first + u * kPartitionThreads) * p.walk.axis[0].stride[1])
                : raw[u].src;
    }
  }
};

__device__ inline uint32_t chunks_of(uint32_t count) {
  return (count + kChunkRecords - 1) / kChunkRecords;
}

__global__ void __launch_bounds__(1024) place_buckets(const __grid_constant__ GroupArgs a) {
  const Partition& d = a.partition;
  uint32_t records = 0;
  for (int from = 0; from < d.buckets; from += 1024) {
    const int b = from + static_cast<int>(threadIdx.x);
    const uint32_t count = b < d.buckets ? d.counts[b] : 0;
    uint32_t all;
    const uint32_t before = records + scan_block(count, all);
    records += all;
    if (b >= d.buckets) continue;
    d.begins[b] = bucket_begin(d, b, before);
    if (count > kMostOneBlock) {
      const unsigned long long seen = atomicAdd(a.big_count, (1ull << 32) + chunks_of(count));
      a.bigs[seen >> 32] = {static_cast<uint32_t>(b), static_cast<uint32_t>(seen)};
    }
  }
}

// Counts of a bucket's places become where their items begin, and segments are listed; returns the
// number of items. By all threads.
template <class Counts>
__device__ inline uint32_t list_bucket(const GroupArgs& a, uint32_t bucket, Counts&& counts) {
  __shared__ unsigned long long base;
  const uint32_t size = 1u << a.partition.bits, first_place = bucket << a.partition.bits;
  uint32_t before = a.partition.begins[bucket];
  for (uint32_t first = 0; first < size; first += kGroupThreads) {
    const uint32_t local = first + threadIdx.x, count = local < size ? counts[local] : 0;
    uint32_t items, listed;
    const uint32_t begin = before + scan_block(count, items),
                   slot = scan_block(count != 0 ? 1 : 0, listed);
    before += items;
    if (threadIdx.x == 0 && listed != 0)
      base = atomicAdd(&a.segments->shorts, static_cast<unsigned long long>(listed));
    __syncthreads();
    if (local < size) counts[local] = begin;
    if (count == 0) continue;
    const uint32_t place = first_place + local;
    a.heads[base + slot] = {begin, count > kChunk ? 0 : count, place};
    if (count > kChunk) add_long(begin, count, offset_of_place(a.p, place), a.longs, a.segments);
  }
  __syncthreads();
  return before - a.partition.begins[bucket];
}

// Calls f(local, item) for a run of records, several of which are in flight before the first is
// used.
template <class F>
__device__ inline void for_each_record(const GroupArgs& a, uint32_t begin, uint32_t count, F&& f) {
  constexpr int kUnroll = 8;
  const uint2* records = reinterpret_cast<const uint2*>(a.partition.records + begin);
  const uint32_t local = (1u << a.partition.bits) - 1;
  for (uint32_t first = threadIdx.x; first < count; first += kUnroll * kGroupThreads) {
    uint2 record[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      record[u] = records[min(first + u * kGroupThreads, count - 1)];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u * kGroupThreads < count && (record[u].x & kPadding) == 0)
        f(record[u].x & local, record[u].y);
    }
  }
}

__global__ void __launch_bounds__(kGroupThreads)
    group_buckets(const __grid_constant__ GroupArgs a) {
  extern __shared__ uint32_t memory[];
  uint32_t* counts = memory;
  uint32_t* staged = memory + (1u << a.partition.bits);
  if (is_bad(a.flag)) return;
  const uint32_t begin = a.partition.begins[blockIdx.x], count = a.partition.counts[blockIdx.x];
  if (count == 0 || count > kMostOneBlock) return;
  for (uint32_t i = threadIdx.x; i < 1u << a.partition.bits; i += kGroupThreads) counts[i] = 0;
  __syncthreads();
  for_each_record(a, begin, count,
                  [&](uint32_t local, uint32_t) { atomicAdd(counts + local, 1u); });
  __syncthreads();
  const uint32_t items = list_bucket(a, blockIdx.x, counts);
  const bool stages = items <= a.staged;
  for_each_record(a, begin, count, [&](uint32_t local, uint32_t item) {
    const uint32_t at = atomicAdd(counts + local, 1u);
    if (stages)
      staged[at - begin] = item;
    else
      a.items[at] = item;
  });
  __syncthreads();
  for (uint32_t i = threadIdx.x; stages && i < items; i += kGroupThreads)
    a.items[begin + i] = staged[i];
}

// Calls f(bucket, begin, count) for the chunks of big buckets.
template <class F>
__device__ inline void for_each_chunk(const GroupArgs& a, F&& f) {
  const unsigned long long all = *a.big_count;
  for (uint32_t chunk = blockIdx.x; chunk < static_cast<uint32_t>(all); chunk += gridDim.x) {
    uint32_t low = 0, high = static_cast<uint32_t>(
                          all >> 32);  // the last bucket that begins at or before this chunk
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      (a.bigs[middle].first_chunk <= chunk ? low : high) = middle;
    }
    const Big big = a.bigs[low];
    const uint32_t skipped = (chunk - big.first_chunk) * kChunkRecords;
    f(big.bucket, a.partition.begins[big.bucket] + skipped,
      min(static_cast<uint32_t>(kChunkRecords), a.partition.counts[big.bucket] - skipped));
  }
}

// A chunk's items of each place are counted; Places: they are put where the others of their place
// are, otherwise only their number is added up.
template <bool Places>
__global__ void __launch_bounds__(kGroupThreads) group_chunks(const __grid_constant__ GroupArgs a) {
  extern __shared__ uint32_t counts[];
  if (is_bad(a.flag)) return;
  for_each_chunk(a, [&](uint32_t bucket, uint32_t begin, uint32_t count) {
    for (uint32_t i = threadIdx.x; i < 1u << a.partition.bits; i += kGroupThreads) counts[i] = 0;
    __syncthreads();
    for_each_record(a, begin, count,
                    [&](uint32_t local, uint32_t) { atomicAdd(counts + local, 1u); });
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 1u << a.partition.bits; i += kGroupThreads) {
      if (counts[i] != 0)
        counts[i] = atomicAdd(a.at_place + (bucket << a.partition.bits) + i, counts[i]);
    }
    __syncthreads();
    if constexpr (Places) {
      for_each_record(a, begin, count, [&](uint32_t local, uint32_t item) {
        a.items[atomicAdd(counts + local, 1u)] = item;
      });
      __syncthreads();
    }
  });
}

__global__ void __launch_bounds__(kGroupThreads) list_bigs(const __grid_constant__ GroupArgs a) {
  if (is_bad(a.flag)) return;
  const uint32_t bigs = static_cast<uint32_t>(*a.big_count >> 32);
  for (uint32_t k = blockIdx.x; k < bigs; k += gridDim.x) {
    const uint32_t bucket = a.bigs[k].bucket;
    list_bucket(a, bucket, a.at_place + (bucket << a.partition.bits));
  }
}

// The bits of a place in its bucket.
int choose_bits(const Problem& p) {
  const int64_t most = std::min<int64_t>(kMostBuckets, p.positions() / kLeastBucket);
  int bits = 0;
  while (bits < kMostLocalBits && ((p.places - 1) >> bits) + 1 > most) ++bits;
  return bits;
}

GroupArgs args_of(const Problem& p) {
  GroupArgs a;
  a.p = p;
  a.partition = plan_partition(p.positions(), p.places, choose_bits(p));
  return a;
}

void carve(Carver& carver, GroupArgs& a, size_t& zeros) {
  carve_zeros(carver, a.partition);
  a.big_count = carver.take<unsigned long long>(1);
  a.at_place = carver.take<uint32_t>(static_cast<int64_t>(a.partition.buckets) << a.partition.bits);
  zeros = carver.used();
  a.bigs = carver.take<Big>(a.partition.room / kMostOneBlock + 1);
  carve_records(carver, a.partition);
  a.items = carver.take<uint32_t>(a.partition.room);
}

}  // namespace

bool can_group(const Problem& p) {
  // Fewer are sorted as quickly, and many items a place or many places a bucket would make big ones
  // the rule.
  if (p.reduce == Reduce::mul || p.reduce == Reduce::assign) return false;
  return p.positions() >= (1 << 19) && p.positions() < (1 << 30) &&
         p.positions() <= 64 * p.places && ((p.places - 1) >> choose_bits(p)) < kMostBuckets;
}

size_t group_workspace(const Problem& p) {
  GroupArgs a = args_of(p);
  Carver carver(nullptr);
  size_t zeros;
  carve(carver, a, zeros);
  return carver.used();
}

const uint32_t* group_items(const Launch& launch, char* workspace, Head* heads, LongSegment* longs,
                            SegmentCounts* counts) {
  GroupArgs a = args_of(launch.problem);
  a.heads = heads;
  a.longs = longs;
  a.segments = counts;
  a.flag = a.partition.flag = launch.flag;
  Carver carver(workspace);
  size_t zeros;
  carve(carver, a, zeros);
  check(cudaMemsetAsync(workspace, 0, zeros, launch.stream), "group");
  const size_t local = size_t{4} << a.partition.bits;
  const size_t room = static_cast<size_t>(launch.device.shared_bytes) - 1024 - local;
  a.staged = static_cast<uint32_t>(std::min<size_t>(kStaged, room / 4));
  const size_t bucket = local + 4 * a.staged;
  const auto place = [&] { place_buckets<<<1, 1024, 0, launch.stream>>>(a); };
  if (!is_plain(a.p))
    launch_partition(launch, WalkedRows<false>(a.p), a.partition, place);
  else if (a.p.dst_keys != 1)
    launch_partition(launch, WalkedRows<true>(a.p), a.partition, place);
  else if (a.p.keys[0].is_int32)
    launch_partition(launch, KeyedRows<int32_t>(a.p), a.partition, place);
  else
    launch_partition(launch, KeyedRows<long long>(a.p), a.partition, place);
  const int bigs =
      std::min(2 * launch.device.processors, blocks_for(a.partition.count, kChunkRecords));
  launch_with_shared<group_buckets>(launch, a.partition.buckets, kGroupThreads, bucket, a);
  launch_with_shared<group_chunks<false>>(launch, bigs, kGroupThreads, local, a);
  list_bigs<<<bigs, kGroupThreads, 0, launch.stream>>>(a);
  launch_with_shared<group_chunks<true>>(launch, bigs, kGroupThreads, local, a);
  check_launch("group");
  return a.items;
}

}  // namespace sow::detail::cuda
