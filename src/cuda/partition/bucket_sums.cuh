// SPDX-License-Identifier: Apache-2.0
// Exact sums of the buckets that a radix partition made: fixed-point sums in shared memory, or
// integers over the whole range of the type where too many terms lie outside.
#pragma once

#include "cuda/partition/bucket_writer.cuh"
#include "cuda/sum/limbs.cuh"

namespace sow::detail::cuda {

inline constexpr int kFoldThreads = 1024, kPlaceThreads = 1024;
inline constexpr int kMostCellBits = 14;  // of a bucket's places: 128 KiB of fixed-point sums
// That are made while buckets can be larger: partitioning 2^26 updates takes 410 us to 256, 433 to
// 512 and 477 to 1024 (H200, 2026-11-15), and every processor has two to sum.
inline constexpr int kFewBuckets = 256;

struct BucketSumArgs {
  LimbArgs limbs;
  Partition partition;
  uint32_t chunk;    // records of a bucket that one block takes
  uint32_t* chunks;  // the first chunk of a bucket; one more than buckets
  int dense_cells;   // whose sums over the whole range fit shared memory together
};

__device__ inline uint32_t chunks_of(const BucketSumArgs& a, uint32_t records) {
  return (records + a.chunk - 1) / a.chunk;
}
__device__ inline uint32_t chunks_at(const BucketSumArgs& a, int bucket) {
  return a.chunks[bucket + 1] - a.chunks[bucket];
}

// Where buckets and their chunks begin: one block.
static __global__ void __launch_bounds__(kPlaceThreads)
    place_chunks(const __grid_constant__ BucketSumArgs a) {
  const Partition& d = a.partition;
  uint32_t records = 0, chunks = 0;
  for (int from = 0; from < d.buckets; from += kPlaceThreads) {
    const int b = from + static_cast<int>(threadIdx.x);
    const uint32_t count = b < d.buckets ? d.counts[b] : 0, mine = chunks_of(a, count);
    uint32_t all, all_chunks;
    const uint32_t before = records + scan_block(count, all),
                   first = chunks + scan_block(mine, all_chunks);
    records += all;
    chunks += all_chunks;
    if (b >= d.buckets) continue;
    d.begins[b] = bucket_begin(d, b, before);
    a.chunks[b] = first;
  }
  if (threadIdx.x == 0) a.chunks[d.buckets] = chunks;
}

// The bucket of a chunk, or -1 where there are fewer. Where all are of one chunk it is found at
// once.
__device__ inline int bucket_of_chunk(const BucketSumArgs& a, uint32_t chunk) {
  const int buckets = a.partition.buckets, guess = min(static_cast<int>(chunk), buckets - 1);
  const uint32_t all = a.chunks[buckets], first = a.chunks[guess], end = a.chunks[guess + 1];
  if (chunk >= all) return -1;
  if (first <= chunk && chunk < end) return guess;
  int bucket = 0;  // the last one whose first chunk is not beyond this
  for (int step = kMostBuckets / 2; step > 0; step /= 2) {
    if (bucket + step < buckets && a.chunks[bucket + step] <= chunk) bucket += step;
  }
  return bucket;
}

// Buckets of several chunks are summed in global memory.
static __global__ void __launch_bounds__(kThreads)
    clear_shared(const __grid_constant__ BucketSumArgs a) {
  if (is_bad(a.limbs.flag)) return;
  for (int b = static_cast<int>(blockIdx.x); b < a.partition.buckets;
       b += static_cast<int>(gridDim.x)) {
    if (chunks_at(a, b) <= 1) continue;
    const int64_t base = static_cast<int64_t>(b) << a.partition.bits,
                  end = min(base + (int64_t{1} << a.partition.bits), a.limbs.cells);
    for (int64_t i = base + threadIdx.x; i < end; i += kThreads) a.limbs.sums[i] = 0;
  }
}

// Not inlined: few places need it.
template <class T>
__device__ __noinline__ void finish_any(const LimbArgs& a, int64_t cell, int64_t fixed,
                                        uint32_t seen, T old, T* at) {
  finish_or_leave(a, cell, fixed, -1, seen, old, at);
}

// Writes what the fixed-point sums of a bucket decide; `sum(i)` and `is_listed(i)` of its places.
// `flagged`: whether any of them may have flags.
template <class T, class Sum, class Listed>
__device__ inline void finish_bucket(const LimbArgs& a, int64_t base, int cells, bool flagged,
                                     Sum&& sum, Listed&& is_listed) {
  using Bits = typename FloatTraits<T>::Bits;
  constexpr int kUnroll = 4;
  const double unit = scale_factor<T>(a);
  const int64_t step = a.p.keys[0].scale;
  T* const dst = reinterpret_cast<T*>(a.p.dst) + base * step;
  for (int from = static_cast<int>(threadIdx.x); from < cells; from += kUnroll * kFoldThreads) {
    T old[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) old[u] = dst[min(from + u * kFoldThreads, cells - 1) * step];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int i = from + u * kFoldThreads;
      if (i >= cells) break;
      const int64_t fixed = sum(i);
      T* at = dst + i * step;
      if (is_listed(i)) {
        a.sums[base + i] = static_cast<unsigned long long>(fixed);
        continue;
      }
      const uint32_t seen = flagged ? a.flags[base + i] : 0;
      bool done = false;
      if (seen == 0 && Term<T>(old[u]).finite()) {
        T out;
        if (fixed == 0) {
          done = a.p.include_self && bit_cast<Bits>(old[u]) != FloatTraits<T>::kSign;
        } else if (finish_between(a, __ll2double_rd(fixed) * unit, __ll2double_ru(fixed) * unit,
                                  old[u], out)) {
          *at = out;
          done = true;
        }
      }
      if (!done) finish_any(a, base + i, fixed, seen, old[u], at);
    }
  }
}

// One chunk of a bucket per block: fixed-point sums in shared memory, as low and high words.
template <class T>
__global__ void __launch_bounds__(kFoldThreads)
    fold_buckets(const __grid_constant__ BucketSumArgs args) {
  constexpr int kUnroll = 8;
  extern __shared__ uint4 memory4[];
  uint32_t* memory = reinterpret_cast<uint32_t*>(memory4);
  __shared__ bool flagged;  // whether anything was noted of these places
  const LimbArgs& a = args.limbs;
  const Partition& d = args.partition;
  const int bucket = bucket_of_chunk(args, blockIdx.x);
  if (bucket < 0 || is_bad(a.flag) || is_dense(a)) return;
  const int64_t base = static_cast<int64_t>(bucket) << d.bits;
  const int cells = static_cast<int>(min(int64_t{1} << d.bits, a.cells - base));
  uint32_t *low = memory, *high = memory + cells, *listed = memory + 2 * cells;
  const int words = 2 * cells + (cells + 31) / 32;
  for (int i = static_cast<int>(threadIdx.x); 4 * i < words; i += kFoldThreads)
    memory4[i] = make_uint4(0, 0, 0, 0);
  if (threadIdx.x == 0) flagged = false;
  for (int i = 32 * static_cast<int>(threadIdx.x); i < cells; i += 32 * kFoldThreads)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<T*>(a.p.dst) +
                                                  (base + i) * a.p.keys[0].scale));
  __syncthreads();
  const uint32_t skipped = (blockIdx.x - args.chunks[bucket]) * args.chunk;
  const uint32_t count = min(args.chunk, d.counts[bucket] - skipped);
  const uint2* records = reinterpret_cast<const uint2*>(d.records + d.begins[bucket] + skipped);
  const int first = a.head->first, binades = a.binades;
  const auto add = [&](uint2 record) {
    if ((record.x & kPadding) != 0) return;
    const uint32_t cell = record.x - static_cast<uint32_t>(base);
    const T value = bit_cast<T>(static_cast<typename FloatTraits<T>::Bits>(record.y));
    int64_t amount;
    if (!fixed_point_amount(value, first, binades, amount)) {
      flagged = true;
      if (note_outlier(a, base + cell, value) == Noted::entry)
        atomicOr(listed + cell / 32, 1u << cell % 32);
      return;
    }
    const uint32_t word = static_cast<uint32_t>(amount), before = atomicAdd(low + cell, word);
    const uint32_t rest = static_cast<uint32_t>(amount >> 32) + (before + word < before ? 1 : 0);
    if (rest != 0) atomicAdd(high + cell, rest);
  };
  uint32_t from = threadIdx.x;
  for (; from + (kUnroll - 1) * kFoldThreads < count; from += kUnroll * kFoldThreads) {
    uint2 record[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) record[u] = __ldcs(records + from + u * kFoldThreads);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) add(record[u]);
  }
  for (; from < count; from += kFoldThreads) add(__ldcs(records + from));
  __syncthreads();
  const auto sum = [&](int i) {
    return static_cast<int64_t>(static_cast<uint64_t>(high[i]) << 32 | low[i]);
  };
  if (chunks_at(args, bucket) == 1) {
    finish_bucket<T>(a, base, cells, flagged, sum,
                     [&](int i) { return (listed[i / 32] >> i % 32 & 1) != 0; });
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < cells; i += kFoldThreads) {
    if (sum(i) != 0) atomicAdd(a.sums + base + i, static_cast<unsigned long long>(sum(i)));
  }
}

// The places of buckets of several chunks, once rows were given to listed updates.
template <class T>
__global__ void __launch_bounds__(kFoldThreads)
    finish_shared(const __grid_constant__ BucketSumArgs args) {
  const LimbArgs& a = args.limbs;
  if (is_bad(a.flag) || is_dense(a)) return;
  for (int b = static_cast<int>(blockIdx.x); b < args.partition.buckets;
       b += static_cast<int>(gridDim.x)) {
    if (chunks_at(args, b) <= 1) continue;
    const int64_t base = static_cast<int64_t>(b) << args.partition.bits;
    const int cells = static_cast<int>(min(int64_t{1} << args.partition.bits, a.cells - base));
    finish_bucket<T>(
        a, base, cells, true, [&](int i) { return static_cast<int64_t>(a.sums[base + i]); },
        [&](int i) { return a.flags[base + i] >> kRowShift != 0; });
  }
}

// -- sums over the whole range
// -----------------------------------------------------------------------

// Words of a sum of 2^31 terms and its sign. Each begins in the middle of its range, so that it
// seldom overflows.
template <class T>
inline constexpr int kSumWords = (FloatTraits<T>::kRange + 32 + 31) / 32;
inline constexpr int kMostSumWords = kSumWords<float>;
inline constexpr uint32_t kMiddle = 1u << 31;

__device__ inline double exp_of_two(int exponent) {
  return bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

// Adds a finite term to the sum of a cell: words[word][cell], `cells` apart. Who overflows a word
// sees to the next.
template <class T>
__device__ inline void add_to_words(uint32_t* words, int cells, int cell, Term<T> term) {
  const int shift = term.shift();
  const uint64_t amount = term.mantissa() << (shift % 32);
  uint32_t* at = words + (shift / 32) * cells + cell;
  const bool negative = term.negative();
  uint32_t add = static_cast<uint32_t>(amount), rest = static_cast<uint32_t>(amount >> 32);
  for (;;) {
    if (add != 0) {
      const uint32_t before = atomicAdd(at, negative ? 0 - add : add);
      if (negative ? before < add : before + add < before) ++rest;
    }
    if (rest == 0) return;
    add = rest;
    rest = 0;
    at += cells;
  }
}

// Writes a place by its words, `cells` apart.
template <class T>
__device__ inline void finish_words(const LimbArgs& a, int64_t cell, const uint32_t* words,
                                    int cells) {
  const uint32_t seen = a.flags[cell];
  T* at = place_of_cell<T>(a, cell);
  const T old = *at;
  const auto part = [&](int i) { return static_cast<int32_t>(words[i * cells] - kMiddle); };
  uint32_t any = 0;
  double least = 0, most = 0;
#pragma unroll
  for (int i = kSumWords<T> - 1; i >= 0; --i) {
    any |= static_cast<uint32_t>(part(i));
    const double term = part(i) * exp_of_two(32 * i + FloatTraits<T>::kUnitExponent);
    least = __dadd_rd(least, term);
    most = __dadd_ru(most, term);
  }
  if (any == 0) return finish_or_leave(a, cell, 0, -1, seen, old, at);
  const SumFlags flags{(seen & (kTouched - 1)) | SumFlags::kNotMinusZero};
  if (!flags.special() && Term<T>(old).finite() && finish_between(a, least, most, old, *at)) return;
  finish_long(a, flags, old, at, [&](LongAccumulator<T>& sum) {
    for (int i = 0; i < kSumWords<T>; ++i) sum.add_units(part(i), 32 * i);
  });
}

// Too many outliers: every bucket is walked once for as many of its places as have room. Few
// updates of a walk are wanted, so warps put them together before they add.
template <class T>
__global__ void __launch_bounds__(kFoldThreads)
    fold_dense(const __grid_constant__ BucketSumArgs args) {
  constexpr int kUnroll = 8, kWords = kSumWords<T>;
  using Bits = typename FloatTraits<T>::Bits;
  extern __shared__ uint32_t words[];
  __shared__ uint2 waiting_records[kFoldThreads / 32][64];
  const LimbArgs& a = args.limbs;
  const Partition& d = args.partition;
  if (is_bad(a.flag) || !is_dense(a)) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int bucket = static_cast<int>(blockIdx.x); bucket < d.buckets;
       bucket += static_cast<int>(gridDim.x)) {
    const int64_t bucket_base = static_cast<int64_t>(bucket) << d.bits;
    const int cells = static_cast<int>(min(int64_t{1} << d.bits, a.cells - bucket_base));
    const int walks = (cells + args.dense_cells - 1) / args.dense_cells,
              each = (cells + walks - 1) / walks;
    const uint32_t end = d.counts[bucket];
    const uint2* records = reinterpret_cast<const uint2*>(d.records + d.begins[bucket]);
    for (int part = 0; part < cells; part += each) {
      const int count = min(each, cells - part);
      const int64_t base = bucket_base + part;
      for (int i = static_cast<int>(threadIdx.x); i < count * kWords; i += kFoldThreads)
        words[i] = kMiddle;
      __syncthreads();
      int waiting = 0;
      const auto add = [&](int at) {
        const uint2 record = waiting_records[warp][at];
        const T value = bit_cast<T>(static_cast<Bits>(record.y));
        const Term<T> term(value);
        if (term.magnitude() != 0 && term.finite())
          add_to_words(words, count, static_cast<int>(record.x), term);
        else
          note_outlier(a, base + record.x, value);
      };
      for (uint32_t from = static_cast<uint32_t>(warp) * 32; from < end;
           from += kUnroll * kFoldThreads) {
        uint2 record[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const uint32_t at = from + u * kFoldThreads + lane;
          record[u] = at < end ? records[at] : make_uint2(kPadding, 0);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const uint32_t cell =
              record[u].x - static_cast<uint32_t>(base);  // huge where it is padding
          const bool wanted = cell < static_cast<uint32_t>(count);
          const unsigned all = __ballot_sync(~0u, wanted);
          if (wanted)
            waiting_records[warp][waiting + __popc(all & ((1u << lane) - 1))] =
                make_uint2(cell, record[u].y);
          waiting += __popc(all);
          __syncwarp();
          if (waiting < 32) continue;
          waiting -= 32;
          add(waiting + lane);
          __syncwarp();
        }
      }
      if (lane < waiting) add(lane);
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kFoldThreads)
        finish_words<T>(a, base + i, words + i, count);
      __syncthreads();
    }
  }
}

}  // namespace sow::detail::cuda
