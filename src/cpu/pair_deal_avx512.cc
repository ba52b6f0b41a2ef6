// Dealing pairs with AVX-512: a strip of them is made sixteen at a time, from keys as they lie
// where that is possible, and then dealt one by one. Full masks: the plain forms have warnings in
// g++ 12.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "core/isa.h"
#include "cpu/pair_loops.h"

namespace sow::detail {

namespace {

constexpr int kStep = 16;
// How far ahead keys and values are sent for.
constexpr int kAheadItems = 1024;

// Made in memory before they are dealt: g++ would take vectors that were just stored apart again,
// three instructions an update. The next strip is made before this one is dealt, so that what was
// stored is out of the processor's way when it is loaded: 2^23 pairs to 256 buckets take 5.0 ms in
// strips of 64 made ahead, 5.7 of 128 and 256, and 6.0 in strips of 256 dealt as soon as they are
// made (2 cores of a Zen 4 class EPYC, 2026-11-16). What is left is stores: the processor writes
// one a cycle, and an update takes two, its pair and the end of its bucket.
struct Strip {
  static constexpr int kPairs = 64;
  int count = 0;
  alignas(64) uint64_t pairs[kPairs];
  alignas(64) uint32_t buckets[kPairs];

  // Looks at whole steps: where the last one is not full, it may miss that it is.
  [[gnu::noinline]] SOW_TARGET_AVX512 bool is_one_bucket(int count) const {
    const __m512i first = _mm512_set1_epi32(static_cast<int>(buckets[0]));
    __mmask16 others = 0;
    for (int i = 0; i < count; i += kStep)
      others |= _mm512_cmpneq_epi32_mask(_mm512_load_si512(buckets + i), first);
    return others == 0;
  }
};

class PairMaker {
 public:
  SOW_TARGET_AVX512 explicit PairMaker(int bits)
      : mask_(_mm512_set1_epi32(static_cast<int>((uint32_t{1} << bits) - 1))),
        low_(_mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)),
        high_(_mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)),
        shift_(_mm_cvtsi32_si128(bits)) {}

  [[gnu::always_inline]] SOW_TARGET_AVX512 inline void make(Strip& strip, int at, __m512i codes,
                                                            __m512i values) const {
    const __m512i cells = _mm512_and_si512(codes, mask_);
    _mm512_store_si512(strip.pairs + at, _mm512_permutex2var_epi32(cells, low_, values));
    _mm512_store_si512(strip.pairs + at + 8, _mm512_permutex2var_epi32(cells, high_, values));
    _mm512_store_si512(strip.buckets + at, _mm512_maskz_srl_epi32(0xffff, codes, shift_));
  }

 private:
  __m512i mask_, low_, high_;
  __m128i shift_;
};

[[gnu::noinline]] void deal_run(const PairDeal& to, DealBlocks& blocks, uint32_t bucket,
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
[[gnu::always_inline]] inline void deal_some(const PairDeal& to, DealBlocks& blocks,
                                             const Strip& strip, int first) {
  uint32_t* const ends = to.ends;
  uint64_t* const out = to.pairs;
  const uint32_t last = blocks.last();
#pragma GCC unroll 16
  for (int i = 0; i < Count; ++i) {
    const uint32_t bucket = strip.buckets[first + i], at = ends[bucket];
    // Every second will do: a line takes eight.
    if (i % 2 == 0) send_ahead(out, (int64_t{at} + kLinePairs) * 8);
    out[at] = strip.pairs[first + i];
    ends[bucket] = __builtin_expect((at & last) == last, 0) ? blocks.after(bucket, at) : at + 1;
  }
}

[[gnu::always_inline]] inline void deal_strip(const PairDeal& to, DealBlocks& blocks,
                                              const Strip& strip) {
  const int count = strip.count;
  // Sorted keys; nearly never by chance.
  if (strip.buckets[0] == strip.buckets[count - 1] && strip.is_one_bucket(count))
    return deal_run(to, blocks, strip.buckets[0], strip.pairs, static_cast<uint32_t>(count));
  int i = 0;
  for (; i + kStep <= count; i += kStep) deal_some<kStep>(to, blocks, strip, i);
  for (; i < count; ++i) deal_some<1>(to, blocks, strip, i);
}

// The lanes that are there, of sixteen.
inline __mmask16 lanes_of(int64_t left) {
  return left >= kStep ? 0xffff : static_cast<__mmask16>((1U << left) - 1);
}

// Calls f(j, lanes) for each sixteen of a strip.
template <class F>
[[gnu::always_inline]] inline void for_each_step(const Strip& strip, F&& f) {
  if (strip.count == Strip::kPairs) {
#pragma GCC unroll 4
    for (int j = 0; j < Strip::kPairs; j += kStep) f(j, __mmask16{0xffff});
  } else {
    for (int j = 0; j < strip.count; j += kStep) f(j, lanes_of(strip.count - j));
  }
}

// Sixteen values, each a word.
template <int Size>
SOW_TARGET_AVX512 inline __m512i load_values(const char* values, __mmask16 lanes) {
  if constexpr (Size == 4) return _mm512_maskz_loadu_epi32(lanes, values);
  return _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(lanes, values));
}

// Deals `count` pairs, of which make(strip, first) makes those from `first` on. False: it says so.
template <class Make>
[[gnu::always_inline]] SOW_TARGET_AVX512 inline bool deal_strips(const PairDeal& to,
                                                                 DealBlocks& blocks, int count,
                                                                 Make&& make) {
  Strip strips[2];
  int made = 0;
  if (count > 0 && !make(strips[0], 0)) return false;
  for (int first = 0; first < count; first += Strip::kPairs, made ^= 1) {
    const int next = first + Strip::kPairs;
    if (next < count && !make(strips[made ^ 1], next)) return false;
    deal_strip(to, blocks, strips[made]);
  }
  return true;
}

template <int Size>
SOW_TARGET_AVX512 void deal_codes(const PairDeal& to, DealBlocks& blocks, const uint32_t* codes,
                                  const char* values, int count, const char* soon) {
  const PairMaker maker(to.bits);
  deal_strips(to, blocks, count, [&](Strip& strip, int first) SOW_TARGET_AVX512 {
    strip.count = std::min(Strip::kPairs, count - first);
    for_each_step(strip, [&](int j, __mmask16 lanes) SOW_TARGET_AVX512 {
      const int i = first + j;
      send_ahead(soon, i * 8);
      send_ahead(soon, i * 8 + 64);
      send_ahead(values, (i + kTileItems) * Size);
      maker.make(strip, j, _mm512_maskz_loadu_epi32(lanes, codes + i),
                 load_values<Size>(values + i * Size, lanes));
    });
    return true;
  });
}

void deal(const PairDeal& to, DealBlocks& blocks, const uint32_t* codes, const char* values,
          int count, const char* soon) {
  return to.value_size == 4 ? deal_codes<4>(to, blocks, codes, values, count, soon)
                            : deal_codes<2>(to, blocks, codes, values, count, soon);
}

// Sixteen keys that were made positive, and whether one is out of range.
class KeyLoader {
 public:
  SOW_TARGET_AVX512 explicit KeyLoader(uint32_t extent)
      : wide_(_mm512_set1_epi64(extent)), narrow_(_mm512_set1_epi32(static_cast<int>(extent))) {}

  [[gnu::always_inline]] SOW_TARGET_AVX512 inline __m512i load(const int64_t* keys,
                                                               __mmask16 lanes) {
    const __m256i low = load_half(keys, static_cast<__mmask8>(lanes));
    const __m256i high = load_half(keys + 8, static_cast<__mmask8>(lanes >> 8));
    return _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(low), high, 1);
  }
  [[gnu::always_inline]] SOW_TARGET_AVX512 inline __m512i load(const int32_t* keys,
                                                               __mmask16 lanes) {
    const __m512i key = _mm512_maskz_loadu_epi32(lanes, keys);
    const __m512i wrapped = _mm512_mask_add_epi32(key, _mm512_movepi32_mask(key), key, narrow_);
    bad_ |= _mm512_mask_cmpge_epu32_mask(lanes, wrapped, narrow_);
    return wrapped;
  }
  bool is_bad() const { return bad_ != 0; }

 private:
  [[gnu::always_inline]] SOW_TARGET_AVX512 inline __m256i load_half(const int64_t* keys,
                                                                    __mmask8 lanes) {
    const __m512i key = _mm512_maskz_loadu_epi64(lanes, keys);
    const __m512i wrapped = _mm512_mask_add_epi64(key, _mm512_movepi64_mask(key), key, wide_);
    bad_ |= _mm512_mask_cmpge_epu64_mask(lanes, wrapped, wide_);
    return _mm512_maskz_cvtepi64_epi32(0xff, wrapped);
  }

  __m512i wide_, narrow_;
  __mmask16 bad_ = 0;
};

template <class K, int Size, bool Walks>
SOW_TARGET_AVX512 bool deal_all(const PairDeal& to, DealBlocks& blocks, const K* keys,
                                const KeyRun& run, const char* values, int count) {
  const PairMaker maker(to.bits);
  KeyLoader loader(run.extent);
  const __m512i scale = _mm512_set1_epi32(static_cast<int>(run.scale));
  const __m512i walk =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(static_cast<int>(run.walk)));
  return deal_strips(to, blocks, count, [&](Strip& strip, int first) SOW_TARGET_AVX512 {
    strip.count = std::min(Strip::kPairs, count - first);
    for_each_step(strip, [&](int j, __mmask16 lanes) SOW_TARGET_AVX512 {
      const int i = first + j;
      constexpr int kKeyBytes = sizeof(K);
      for (int line = 0; line < kStep * kKeyBytes; line += 64)
        send_ahead(keys, (i + kAheadItems) * kKeyBytes + line);
      send_ahead(values, (i + kAheadItems) * Size);
      __m512i code = loader.load(keys + i, lanes);
      if constexpr (Walks) {
        const uint32_t begin = run.first + run.walk * static_cast<uint32_t>(i);
        code = _mm512_add_epi32(_mm512_mullo_epi32(code, scale),
                                _mm512_add_epi32(walk, _mm512_set1_epi32(static_cast<int>(begin))));
      }
      maker.make(strip, j, code, load_values<Size>(values + i * Size, lanes));
    });
    return !loader.is_bad();
  });
}

template <class K, int Size>
bool deal_sized(const PairDeal& to, DealBlocks& blocks, const char* keys, const KeyRun& run,
                const char* values, int count) {
  const K* from = reinterpret_cast<const K*>(keys);
  const bool walks = run.scale != 1 || run.walk != 0 || run.first != 0;
  return walks ? deal_all<K, Size, true>(to, blocks, from, run, values, count)
               : deal_all<K, Size, false>(to, blocks, from, run, values, count);
}

bool deal_keys(const PairDeal& to, DealBlocks& blocks, const char* keys, bool wide,
               const KeyRun& run, const char* values, int count) {
  if (to.value_size == 4) {
    return wide ? deal_sized<int64_t, 4>(to, blocks, keys, run, values, count)
                : deal_sized<int32_t, 4>(to, blocks, keys, run, values, count);
  }
  return wide ? deal_sized<int64_t, 2>(to, blocks, keys, run, values, count)
              : deal_sized<int32_t, 2>(to, blocks, keys, run, values, count);
}

}  // namespace

extern const PairDealers k_pair_dealers_avx512;
const PairDealers k_pair_dealers_avx512 = {deal, deal_keys};

}  // namespace sow::detail
