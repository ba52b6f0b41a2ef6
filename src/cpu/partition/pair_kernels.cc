// SPDX-License-Identifier: Apache-2.0
// The loops of pairs: a batch of them is made in vectors, from keys as they lie where that is
// possible, and then partitioned one by one; sums and extremes take them apart many at a time.
#if !defined(SOW_LEVEL)

#include "cpu/partition/pair_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/isa.h"
#include "cpu/partition/pair_loops.h"
#include "cpu/sum/fixed_point_form.h"

#define SOW_KERNELS "cpu/partition/pair_kernels.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {

namespace {

bool store(const PlaceRange& block, const uint64_t* pairs, int64_t count, const void* to_prefetch) {
  auto* to = reinterpret_cast<Word<4>*>(block.first);
  for_each_batch_of_pairs(block, count, to_prefetch, [=](int64_t first, int64_t last) {
// Unrolled, 2^23 moves to 2^22 places took 8.3 ms instead of 7.9.
#pragma GCC unroll 1
    for (int64_t i = first; i < last; ++i)
      to[static_cast<uint32_t>(pairs[i])].bits = static_cast<uint32_t>(pairs[i] >> 32);
  });
  return true;
}

const PairFold stores = {nullptr, store};

// One of each level's, made once.
template <class Make>
const auto& at_this_level(const Make& make) {
  static const std::array levels = {make(Isa::portable), make(Isa::avx2), make(Isa::avx512)};
  return levels[static_cast<size_t>(current_isa())];
}
template <Reduce R>
const PairFold* extremes() {
  return &at_this_level([](Isa isa) {
    return PairFold{SOW_AT_LEVEL(isa, has_no_nan), SOW_AT_LEVEL(isa, keep_extremes<R>)};
  });
}

}  // namespace

const PairPartitioners& pair_partitioners() {
  return at_this_level([](Isa isa) {
    return PairPartitioners{SOW_AT_LEVEL(isa, partition), SOW_AT_LEVEL(isa, partition_keys)};
  });
}

const PairKernels& pair_kernels() {
  return at_this_level([](Isa isa) {
    return PairKernels{SOW_AT_LEVEL(isa, unpack), SOW_AT_LEVEL(isa, add_units<float>),
                       SOW_AT_LEVEL(isa, add_units<float16>),
                       SOW_AT_LEVEL(isa, add_units<bfloat16>)};
  });
}

const PairFold* pair_fold(DType dtype, Reduce reduce) {
  if (size_of(dtype) != 4) return nullptr;
  if (reduce == Reduce::assign) return &stores;
  if (dtype != DType::float32) return nullptr;
  if (reduce == Reduce::amax) return extremes<Reduce::amax>();
  return reduce == Reduce::amin ? extremes<Reduce::amin>() : nullptr;
}

}  // namespace sow::detail

#else

#include "cpu/sum/fixed_point_units.h"

namespace sow::detail::SOW_LEVEL {
namespace {

constexpr int kStep = kLanes32;
// How far ahead keys and values are prefetched.
constexpr int kPrefetchItems = 1024;

void unpack(const uint64_t* pairs, int64_t count, uint32_t* cells, void* values, int value_size,
            const void* to_prefetch) {
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (int line = 0; line < kStep; line += 8) prefetch_l2(to_prefetch, (i + line) * 8);
    const U32 one = load<U32>(pairs + i), two = load<U32>(pairs + i + kLanes64);
    store(cells + i, evens(one, two));
    const U32 value = odds(one, two);
    if (value_size == 4) {
      store(static_cast<uint32_t*>(values) + i, value);
    } else {
      store(static_cast<uint16_t*>(values) + i, narrowed(value));
    }
  }
  unpack_pairs(pairs, i, count, cells, values, value_size);
}

template <class T>
int64_t add_units(int64_t* cells, const uint64_t* pairs, int64_t count, FixedPointScale& scale,
                  const void* to_prefetch) {
  constexpr int kCount = 16;
  const UnitRange<T> units(scale);
  alignas(64) int64_t whole[kCount];
  int64_t i = 0;
  for (; i + kCount <= count; i += kCount) {
    prefetch_l2(to_prefetch, i * 8);
    prefetch_l2(to_prefetch, i * 8 + 64);
    U32 most = {};
#pragma GCC unroll 4
    for (int j = 0; j < kCount; j += kStep) {
      const uint64_t* from = pairs + i + j;
      const F32 values = floats_of<T>(odds(load<U32>(from), load<U32>(from + kLanes64)));
      most = max(most, units.distance((U32)values));
      units.convert(nullptr, values, whole + j);
    }
    if (__builtin_expect(any((I32)(most > units.reach)), 0)) return i;
#pragma GCC unroll 16
    for (int k = 0; k < kCount; ++k) cells[static_cast<uint32_t>(pairs[i + k])] += whole[k];
  }
  return i;
}

bool has_no_nan(const PlaceRange& block, int64_t places) {
  const float* from = reinterpret_cast<const float*>(block.first);
  I32 nan = {};
  int64_t i = 0;
  for (; i + kStep <= places; i += kStep) {
    const F32 value = load<F32>(from + i);
    nan |= (I32)(value != value);
  }
  bool others = false;
  for (; i < places; ++i) others |= from[i] != from[i];
  return !others && !any(nan);
}

// An extreme of two numbers, with -0 below +0: two that are equal differ in nothing but a sign.
template <Reduce R>
SOW_VECTOR float extreme_of(float a, float b) {
  if constexpr (R == Reduce::amax) {
    return bit_cast<float>(bit_cast<uint32_t>(a > b ? a : b) & bit_cast<uint32_t>(b > a ? b : a));
  } else {
    return bit_cast<float>(bit_cast<uint32_t>(a < b ? a : b) | bit_cast<uint32_t>(b < a ? b : a));
  }
}
template <Reduce R>
bool keep_extremes(const PlaceRange& block, const uint64_t* pairs, int64_t count,
                   const void* to_prefetch) {
  I64 nan = {};
  int64_t i = 0;
  for (; i + kLanes64 <= count; i += kLanes64) {
    const F32 pair = load<F32>(pairs + i);
    nan |= (I64)(I32)(pair != pair);
  }
  const auto* words = reinterpret_cast<const float*>(pairs);
  bool others = false;
  for (; i < count; ++i) others |= words[2 * i + 1] != words[2 * i + 1];
  if (others || any(nan >> 32)) return false;  // the lower halves are cells
  float* to = reinterpret_cast<float*>(block.first);
  for_each_batch_of_pairs(block, count, to_prefetch, [=](int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) {
      float& place = to[static_cast<uint32_t>(pairs[k])];
      place = extreme_of<R>(place, words[2 * k + 1]);
    }
  });
  return true;
}

// Made in memory, one batch ahead, before they are partitioned: g++ would take vectors that were
// just stored apart again, and what was stored is out of the processor's way when it is loaded
// ([pair_batch] in the notebook).
struct PairBatch {
  static constexpr int kPairs = 64;
  int count = 0;
  alignas(64) uint64_t pairs[kPairs];
  alignas(64) uint32_t buckets[kPairs];

  // Looks at whole steps: where the last one is not full, it may miss that it is.
  [[gnu::noinline]] bool is_one_bucket() const {
    U32 others = {};
    for (int i = 0; i < count; i += kStep) others |= load<U32>(buckets + i) ^ buckets[0];
    return !any(others);
  }
  SOW_VECTOR void make(int at, U32 ids, U32 values, int bits) {
    const U32 cells = ids & ((uint32_t{1} << bits) - 1);
    SOW_LEVEL::store(pairs + at, widened(low_half(cells)) | widened(low_half(values)) << 32);
    SOW_LEVEL::store(pairs + at + kLanes64, widened(high_half(cells)) | widened(high_half(values))
                                                                            << 32);
    SOW_LEVEL::store(buckets + at, ids >> bits);
  }
};

[[gnu::noinline]] void partition_run(const PairTarget& to, BucketBlocks& blocks, uint32_t bucket,
                                     const uint64_t* pairs, uint32_t count) {
  const uint32_t last = blocks.last();
  while (count > 0) {
    const uint32_t at = to.ends[bucket], room = last + 1 - (at & last),
                   some = std::min(room, count);
    std::memcpy(to.pairs + at, pairs, some * sizeof(uint64_t));
    to.ends[bucket] = some == room ? blocks.after(bucket, at + some - 1) : at + some;
    pairs += some;
    count -= some;
  }
}

template <int Count>
SOW_VECTOR void partition_some(const PairTarget& to, BucketBlocks& blocks, const PairBatch& batch,
                               int first) {
  uint32_t* const ends = to.ends;
  uint64_t* const out = to.pairs;
  const uint32_t last = blocks.last();
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) {
    const uint32_t bucket = batch.buckets[first + i], at = ends[bucket];
    // Every second will do: a line takes eight.
    if (i % 2 == 0) prefetch_l2(out, (int64_t{at} + kLinePairs) * 8);
    out[at] = batch.pairs[first + i];
    ends[bucket] = __builtin_expect((at & last) == last, 0) ? blocks.after(bucket, at) : at + 1;
  }
}

SOW_VECTOR void partition_batch(const PairTarget& to, BucketBlocks& blocks,
                                const PairBatch& batch) {
  constexpr int kSome = 16;
  const int count = batch.count;
  // Sorted keys; nearly never by chance.
  if (batch.buckets[0] == batch.buckets[count - 1] && batch.is_one_bucket())
    return partition_run(to, blocks, batch.buckets[0], batch.pairs, static_cast<uint32_t>(count));
  int i = 0;
  for (; i + kSome <= count; i += kSome) partition_some<kSome>(to, blocks, batch, i);
  for (; i < count; ++i) partition_some<1>(to, blocks, batch, i);
}

// A step of values, each a word.
template <int Size>
SOW_VECTOR U32 load_values(const char* values) {
  if constexpr (Size == 4)
    return load<U32>(values);
  else
    return widened(load<HalfU16>(values));
}

// Ids as they are, and none is bad.
struct Ids {
  using Key = uint32_t;
  const char* to_prefetch;

  SOW_VECTOR U32 load_ids(const uint32_t* ids, int) { return load<U32>(ids); }
  SOW_VECTOR void prefetch_next(const uint32_t*, int i) const {
    for (int line = 0; line < kStep; line += 8) prefetch_l2(to_prefetch, (i + line) * 8);
  }
  SOW_VECTOR bool is_bad() const { return false; }
};

// Keys that are made positive, and places of them.
template <class K, bool Walks>
struct Keys {
  using Key = K;
  const KeyRun& run;
  U32 last, steps, most = {};

  explicit Keys(const KeyRun& keys) : run(keys) {
    last = sizeof(K) == 8 ? (U32)all_of<U64>(uint64_t{run.extent} - 1)
                          : all_of<U32>(uint32_t{run.extent - 1});
    for (int i = 0; i < kStep; ++i) steps[i] = run.walk * static_cast<uint32_t>(i);
  }
  SOW_VECTOR U32 load_ids(const K* keys, int i) {
    U32 id;
    if constexpr (sizeof(K) == 8) {
      id = evens((U32)wrapped(keys), (U32)wrapped(keys + kLanes64));
    } else {
      const U32 key = load<U32>(keys);
      id = key + ((U32)((I32)key < 0) & run.extent);
      most = max(most, id);
    }
    if constexpr (Walks) id = id * run.scale + (steps + (run.first + run.walk * uint32_t(i)));
    return id;
  }
  SOW_VECTOR void prefetch_next(const K* keys, int i) const {
    constexpr int kBytes = kStep * sizeof(K);
    for (int line = 0; line < kBytes; line += 64)
      prefetch_l2(keys, (i + kPrefetchItems) * static_cast<int>(sizeof(K)) + line);
  }
  // One that is too large is so in its upper or in its lower half.
  SOW_VECTOR bool is_bad() const { return any((I32)(most > last)); }

 private:
  SOW_VECTOR U64 wrapped(const K* keys) {
    const U64 key = load<U64>(keys);
    const U64 id = key + ((U64)((I64)key < 0) & uint64_t{run.extent});
    most = max(most, (U32)id);
    return id;
  }
};

// The next batch of pairs; what is missing of its last step is made of zeros.
template <int Size, class Reader>
SOW_VECTOR bool make_batch(PairBatch& batch, Reader& reader, const typename Reader::Key* keys,
                           const char* values, int first, int count, int bits) {
  using Key = typename Reader::Key;
  batch.count = std::min(PairBatch::kPairs, count - first);
  int j = 0;
  for (; j + kStep <= batch.count; j += kStep) {
    const int i = first + j;
    reader.prefetch_next(keys, i);
    prefetch_l2(values, (i + kPrefetchItems) * Size);
    batch.make(j, reader.load_ids(keys + i, i), load_values<Size>(values + i * Size), bits);
  }
  if (j < batch.count) {
    const int i = first + j;
    const auto left = static_cast<size_t>(batch.count - j);
    Key some_keys[kStep] = {};
    char some_values[kStep * Size] = {};
    std::memcpy(some_keys, keys + i, left * sizeof(Key));
    std::memcpy(some_values, values + i * Size, left * Size);
    batch.make(j, reader.load_ids(some_keys, i), load_values<Size>(some_values), bits);
  }
  return !reader.is_bad();
}
template <int Size, class Reader>
bool partition_all(const PairTarget& to, BucketBlocks& blocks, Reader reader,
                   const typename Reader::Key* keys, const char* values, int count) {
  PairBatch batches[2];
  int made = 0;
  if (count > 0 && !make_batch<Size>(batches[0], reader, keys, values, 0, count, to.bits))
    return false;
  for (int first = 0; first < count; first += PairBatch::kPairs, made ^= 1) {
    const int next = first + PairBatch::kPairs;
    if (next < count &&
        !make_batch<Size>(batches[made ^ 1], reader, keys, values, next, count, to.bits))
      return false;
    partition_batch(to, blocks, batches[made]);
  }
  return true;
}
template <class Reader>
bool partition_sized(const PairTarget& to, BucketBlocks& blocks, Reader reader,
                     const typename Reader::Key* keys, const char* values, int count) {
  return to.value_size == 4 ? partition_all<4>(to, blocks, reader, keys, values, count)
                            : partition_all<2>(to, blocks, reader, keys, values, count);
}

void partition(const PairTarget& to, BucketBlocks& blocks, const uint32_t* ids, const char* values,
               int count, const char* to_prefetch) {
  partition_sized(to, blocks, Ids{to_prefetch}, ids, values, count);
}

template <class K>
bool partition_run_keys(const PairTarget& to, BucketBlocks& blocks, const char* keys,
                        const KeyRun& run, const char* values, int count) {
  const K* from = reinterpret_cast<const K*>(keys);
  const bool walks = run.scale != 1 || run.walk != 0 || run.first != 0;
  return walks ? partition_sized(to, blocks, Keys<K, true>(run), from, values, count)
               : partition_sized(to, blocks, Keys<K, false>(run), from, values, count);
}
bool partition_keys(const PairTarget& to, BucketBlocks& blocks, const char* keys, bool int64_keys,
                    const KeyRun& run, const char* values, int count) {
  return int64_keys ? partition_run_keys<int64_t>(to, blocks, keys, run, values, count)
                    : partition_run_keys<int32_t>(to, blocks, keys, run, values, count);
}

}  // namespace
}  // namespace sow::detail::SOW_LEVEL

#endif
