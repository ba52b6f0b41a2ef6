// Groups items by place in two steps: they are dealt out to buckets of neighbouring places, and a
// block counts and places those of a bucket in shared memory. Buckets with too many items are
// shared among blocks.
#include "cuda/group.h"

#include <algorithm>

#include "cuda/segments.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kGroupThreads = 512;
constexpr int kEach = 16;                          // items of a thread and tile
constexpr int kGroupTile = kGroupThreads * kEach;  // also the items of a chunk of a big bucket
constexpr int kLeastBucket = 12000;  // items of an average bucket at least, so twice that at most
constexpr int kMostBuckets = 4096, kMostLocalBits = 12;
constexpr int kStaged = 24576;       // items of a bucket that are put in order in shared memory, where they fit
constexpr int kMostAlone = 1 << 15;  // items of a bucket that one block takes

struct Big {
  uint32_t bucket, first_chunk;
};

struct GroupArgs {
  Problem p;
  int bits = 0;  // of a place in its bucket
  int buckets = 1;
  uint32_t staged = 0;  // items there is room for in shared memory
  uint32_t* counts = nullptr;               // [bucket], zero at first
  uint32_t* begins = nullptr;               // [bucket + 1]
  uint32_t* cursors = nullptr;              // [bucket]
  unsigned long long* big_count = nullptr;  // buckets << 32 | chunks, zero at first
  Big* bigs = nullptr;
  uint32_t* at_place =
      nullptr;  // [place], zero at first: of big buckets, the items and then the next one's place
  uint16_t* locals = nullptr;  // dealt out: places in their buckets
  uint32_t* dealt = nullptr;
  uint32_t* items = nullptr;
  Head* heads = nullptr;
  LongSegment* longs = nullptr;
  SegmentCounts* segments = nullptr;
  Flag* flag = nullptr;
};

template <bool Plain>
__global__ void __launch_bounds__(kGroupThreads, 2)
    count_items(const __grid_constant__ GroupArgs a) {
  extern __shared__ uint32_t histogram[];
  constexpr int kUnroll = 8;
  for (int b = static_cast<int>(threadIdx.x); b < a.buckets; b += kGroupThreads) histogram[b] = 0;
  __syncthreads();
  const int64_t count = a.p.outer_count * a.p.item_count, step = grid_threads();
  bool bad = false;
  for (int64_t first = global_thread(); first < count; first += kUnroll * step) {
    uint32_t place[kUnroll], src[kUnroll];
    read_items<Plain>(a.p, first, step, count, place, src, bad);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (place[u] != kNowhere) atomicAdd(histogram + (place[u] >> a.bits), 1u);
    }
  }
  if (bad) mark_bad(a.flag);
  __syncthreads();
  for (int b = static_cast<int>(threadIdx.x); b < a.buckets; b += kGroupThreads) {
    if (histogram[b] != 0) atomicAdd(a.counts + b, histogram[b]);
  }
}

// What comes before this thread's value in the block; `total` is the sum of all. By all threads.
__device__ inline uint32_t scan_block(uint32_t value, uint32_t& total) {
  __shared__ uint32_t sums[32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / 32;
  uint32_t before = 0;
  total = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) before = total;
    total += sums[w];
  }
  return before + sum - value;
}

__device__ inline uint32_t chunks_of(uint32_t count) {
  return (count + kGroupTile - 1) / kGroupTile;
}

__global__ void __launch_bounds__(1024) place_buckets(const __grid_constant__ GroupArgs a) {
  constexpr int kMine = kMostBuckets / 1024;
  uint32_t count[kMine], sum = 0, total;
#pragma unroll
  for (int k = 0; k < kMine; ++k) {
    const int b = static_cast<int>(threadIdx.x) * kMine + k;
    count[k] = b < a.buckets ? a.counts[b] : 0;
    sum += count[k];
  }
  uint32_t begin = scan_block(sum, total);
#pragma unroll
  for (int k = 0; k < kMine; ++k) {
    const int b = static_cast<int>(threadIdx.x) * kMine + k;
    if (b >= a.buckets) break;
    a.begins[b] = a.cursors[b] = begin;
    begin += count[k];
    if (count[k] > kMostAlone) {
      const unsigned long long before = atomicAdd(a.big_count, (1ull << 32) + chunks_of(count[k]));
      a.bigs[before >> 32] = {static_cast<uint32_t>(b), static_cast<uint32_t>(before)};
    }
  }
  if (threadIdx.x == 0) a.begins[a.buckets] = total;
}

// A tile is put in order of its buckets in shared memory, so that what is written lies side by
// side.
template <bool Plain>
__global__ void __launch_bounds__(kGroupThreads, 2)
    deal_items(const __grid_constant__ GroupArgs a) {
  extern __shared__ uint32_t memory[];
  uint32_t* places = memory;
  uint32_t* sources = places + kGroupTile;
  uint32_t* counts = sources + kGroupTile;  // and then where a bucket's items begin in the tile
  uint32_t* bases = counts + a.buckets;     // from there to where they are written
  if (is_bad(a.flag)) return;
  const int me = static_cast<int>(threadIdx.x);
  const int64_t total = a.p.outer_count * a.p.item_count,
                tile = static_cast<int64_t>(blockIdx.x) * kGroupTile;
  for (int b = me; b < a.buckets; b += kGroupThreads) counts[b] = 0;
  __syncthreads();
  constexpr int kHalf = kEach / 2;
  uint32_t place[2][kHalf], src[2][kHalf], rank[2][kHalf];
  bool bad = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    read_items<Plain>(a.p, tile + me + h * (kGroupTile / 2), kGroupThreads, total, place[h], src[h],
                      bad);
#pragma unroll
    for (int u = 0; u < kHalf; ++u) {
      if (place[h][u] != kNowhere) rank[h][u] = atomicAdd(counts + (place[h][u] >> a.bits), 1u);
    }
  }
  __syncthreads();
  uint32_t kept = 0;
  for (int first = 0; first < a.buckets; first += kGroupThreads) {
    const int b = first + me;
    const uint32_t count = b < a.buckets ? counts[b] : 0;
    uint32_t here;
    const uint32_t begin = kept + scan_block(count, here);
    kept += here;
    if (count != 0) bases[b] = atomicAdd(a.cursors + b, count) - begin;
    if (b < a.buckets) counts[b] = begin;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int h = i / kHalf, u = i % kHalf;
    if (place[h][u] == kNowhere) continue;
    const uint32_t at = counts[place[h][u] >> a.bits] + rank[h][u];
    places[at] = place[h][u];
    // Worked out once more rather than kept: registers are short.
    sources[at] =
        Plain ? static_cast<uint32_t>((tile + me + i * kGroupThreads) * a.p.walk.axis[0].stride[1])
              : src[h][u];
  }
  __syncthreads();
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < kept; i += kGroupThreads) {
    const uint32_t at = bases[places[i] >> a.bits] + i;
    a.locals[at] = static_cast<uint16_t>(places[i] & ((1u << a.bits) - 1));
    a.dealt[at] = sources[i];
  }
}

// Counts of a bucket's places become where their items begin, and segments are listed. By all
// threads.
template <class Counts>
__device__ inline void list_bucket(const GroupArgs& a, uint32_t bucket, Counts&& counts) {
  __shared__ unsigned long long base;
  const uint32_t size = 1u << a.bits, first_place = bucket << a.bits;
  uint32_t before = a.begins[bucket];
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
}

// Calls f(local, item) for a run of dealt items, several of which are on their way before the first is used. Without
// Items the items are not read.
template <bool Items, class F>
__device__ inline void for_each_dealt(const GroupArgs& a, uint32_t begin, uint32_t count, F&& f) {
  constexpr int kUnroll = 8;
  for (uint32_t first = threadIdx.x; first < count; first += kUnroll * kGroupThreads) {
    uint32_t local[kUnroll], item[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const uint32_t at = begin + min(first + u * kGroupThreads, count - 1);
      local[u] = a.locals[at];
      item[u] = Items ? a.dealt[at] : 0;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u * kGroupThreads < count) f(local[u], item[u]);
    }
  }
}

__global__ void __launch_bounds__(kGroupThreads)
    group_buckets(const __grid_constant__ GroupArgs a) {
  extern __shared__ uint32_t memory[];
  uint32_t* counts = memory;
  uint32_t* staged = memory + (1u << a.bits);
  if (is_bad(a.flag)) return;
  const uint32_t begin = a.begins[blockIdx.x], count = a.begins[blockIdx.x + 1] - begin;
  if (count == 0 || count > kMostAlone) return;
  for (uint32_t i = threadIdx.x; i < 1u << a.bits; i += kGroupThreads) counts[i] = 0;
  __syncthreads();
  for_each_dealt<false>(a, begin, count, [&](uint32_t local, uint32_t) { atomicAdd(counts + local, 1u); });
  __syncthreads();
  list_bucket(a, blockIdx.x, counts);
  const bool stages = count <= a.staged;
  for_each_dealt<true>(a, begin, count, [&](uint32_t local, uint32_t item) {
    const uint32_t at = atomicAdd(counts + local, 1u);
    if (stages) staged[at - begin] = item;
    else a.items[at] = item;
  });
  __syncthreads();
  for (uint32_t i = threadIdx.x; stages && i < count; i += kGroupThreads)
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
    const uint32_t begin = a.begins[big.bucket] + (chunk - big.first_chunk) * kGroupTile;
    f(big.bucket, begin, min(static_cast<uint32_t>(kGroupTile), a.begins[big.bucket + 1] - begin));
  }
}

// A chunk's items of each place are counted; Places: they are put where the others of their place
// are, otherwise only their number is added up.
template <bool Places>
__global__ void __launch_bounds__(kGroupThreads) group_chunks(const __grid_constant__ GroupArgs a) {
  extern __shared__ uint32_t counts[];
  if (is_bad(a.flag)) return;
  for_each_chunk(a, [&](uint32_t bucket, uint32_t begin, uint32_t count) {
    for (uint32_t i = threadIdx.x; i < 1u << a.bits; i += kGroupThreads) counts[i] = 0;
    __syncthreads();
    for_each_dealt<false>(a, begin, count, [&](uint32_t local, uint32_t) { atomicAdd(counts + local, 1u); });
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 1u << a.bits; i += kGroupThreads) {
      if (counts[i] != 0) counts[i] = atomicAdd(a.at_place + (bucket << a.bits) + i, counts[i]);
    }
    __syncthreads();
    if constexpr (Places) {
      for_each_dealt<true>(a, begin, count, [&](uint32_t local, uint32_t item) { a.items[atomicAdd(counts + local, 1u)] = item; });
      __syncthreads();
    }
  });
}

__global__ void __launch_bounds__(kGroupThreads) list_bigs(const __grid_constant__ GroupArgs a) {
  if (is_bad(a.flag)) return;
  const uint32_t bigs = static_cast<uint32_t>(*a.big_count >> 32);
  for (uint32_t k = blockIdx.x; k < bigs; k += gridDim.x) {
    const uint32_t bucket = a.bigs[k].bucket;
    list_bucket(a, bucket, a.at_place + (bucket << a.bits));
  }
}

void choose_buckets(const Problem& p, GroupArgs& a) {
  const int64_t most = std::min<int64_t>(kMostBuckets, p.positions() / kLeastBucket);
  a.bits = 0;
  while (a.bits < kMostLocalBits && ((p.places - 1) >> a.bits) + 1 > most) ++a.bits;
  a.buckets = static_cast<int>(((p.places - 1) >> a.bits) + 1);
}

void carve(Carver& carver, GroupArgs& a, size_t& zeros) {
  const int64_t count = a.p.positions();
  a.counts = carver.take<uint32_t>(a.buckets);
  a.big_count = carver.take<unsigned long long>(1);
  a.at_place = carver.take<uint32_t>(static_cast<int64_t>(a.buckets) << a.bits);
  zeros = carver.used();
  a.begins = carver.take<uint32_t>(a.buckets + 1);
  a.cursors = carver.take<uint32_t>(a.buckets);
  a.bigs = carver.take<Big>(count / kMostAlone + 1);
  a.locals = carver.take<uint16_t>(count);
  a.dealt = carver.take<uint32_t>(count);
  a.items = carver.take<uint32_t>(count);
}

}  // namespace

bool can_group(const Problem& p) {
  // Fewer are sorted as quickly, and many items a place or many places a bucket would make big ones
  // the rule.
  if (p.reduce == Reduce::mul || p.reduce == Reduce::assign) return false;
  GroupArgs a;
  choose_buckets(p, a);
  return p.positions() >= (1 << 19) && p.positions() <= 64 * p.places && a.buckets <= kMostBuckets;
}

size_t group_workspace(const Problem& p) {
  GroupArgs a;
  a.p = p;
  choose_buckets(p, a);
  Carver carver(nullptr);
  size_t zeros;
  carve(carver, a, zeros);
  return carver.used();
}

const uint32_t* group_items(const Launch& launch, char* workspace, Head* heads, LongSegment* longs,
                            SegmentCounts* counts) {
  GroupArgs a;
  a.p = launch.problem;
  choose_buckets(a.p, a);
  a.heads = heads;
  a.longs = longs;
  a.segments = counts;
  a.flag = launch.flag;
  Carver carver(workspace);
  size_t zeros;
  carve(carver, a, zeros);
  check(cudaMemsetAsync(workspace, 0, zeros, launch.stream), "group");
  const size_t histogram = static_cast<size_t>(a.buckets) * 4, local = size_t{4} << a.bits;
  const size_t room = static_cast<size_t>(launch.device.shared_bytes) - 1024 - local;
  a.staged = static_cast<uint32_t>(std::min<size_t>(kStaged, room / 4));
  const size_t tile = 2 * histogram + 8 * kGroupTile, bucket = local + 4 * a.staged;
  const auto count_kernel = is_plain(a.p) ? count_items<true> : count_items<false>;
  const auto deal_kernel = is_plain(a.p) ? deal_items<true> : deal_items<false>;
  check(cudaFuncSetAttribute(deal_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(tile)),
        "group");
  check(cudaFuncSetAttribute(group_buckets, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bucket)),
        "group");
  const int64_t items = a.p.positions();
  const int most = 2 * launch.device.processors,
            bigs = std::min(most, blocks_for(items, kGroupTile));
  count_kernel<<<blocks_for(items, kGroupTile, most), kGroupThreads, histogram, launch.stream>>>(a);
  place_buckets<<<1, 1024, 0, launch.stream>>>(a);
  deal_kernel<<<blocks_for(items, kGroupTile), kGroupThreads, tile, launch.stream>>>(a);
  group_buckets<<<a.buckets, kGroupThreads, bucket, launch.stream>>>(a);
  group_chunks<false><<<bigs, kGroupThreads, local, launch.stream>>>(a);
  list_bigs<<<bigs, kGroupThreads, 0, launch.stream>>>(a);
  group_chunks<true><<<bigs, kGroupThreads, local, launch.stream>>>(a);
  check_launch("group");
  return a.items;
}

}  // namespace sow::detail::cuda
