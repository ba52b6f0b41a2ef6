// SPDX-License-Identifier: Apache-2.0
// Sums of values of any exponent with AVX-512: values are read, and sums rounded, eight at a time.
#include <immintrin.h>

#include "core/isa.h"
#include "cpu/common/prefetch.h"
#include "cpu/sum/bounded_sum.h"
#include "cpu/sum/fixed_point_kernels.h"
#include "cpu/sum/float_convert_avx512.h"

namespace sow::detail {

namespace {

constexpr int kLanes = 8, kStep = 16;

// Whether any of sixteen keys is not a cell.
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint64_t* keys, uint32_t extent) {
  const __m512i most =
      _mm512_maskz_max_epu64(0xff, _mm512_loadu_si512(keys), _mm512_loadu_si512(keys + 8));
  return _mm512_cmpge_epu64_mask(most, _mm512_set1_epi64(extent));
}
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint32_t* keys, uint32_t extent) {
  return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(keys),
                                 _mm512_set1_epi32(static_cast<int>(extent)));
}

SOW_TARGET_AVX512 inline void store_state(double* to, __m512d sums, __m512d lost) {
  const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  _mm512_storeu_pd(to, _mm512_permutex2var_pd(sums, low, lost));
  _mm512_storeu_pd(to + kLanes, _mm512_permutex2var_pd(sums, high, lost));
}

template <class T, Reduce R>
SOW_TARGET_AVX512 void open(const Cells& cells, const PlaceRange& block, int64_t count) {
  double* states = reinterpret_cast<double*>(cells.states);
  const T* old = reinterpret_cast<const T*>(block.first);
  const __m512d nothing = _mm512_set1_pd(kNothingMet);
  int64_t i = 0;
  if (block.step == 1 || !block.include_self) {
    for (; i + kLanes <= count; i += kLanes) {
      store_state(
          states + 2 * i,
          block.include_self ? _mm512_maskz_cvtps_pd(0xff, load(old + i)) : _mm512_set1_pd(-0.0),
          nothing);
    }
  }
  Cells rest = cells;
  rest.states += 2 * sizeof(double) * i;
  PlaceRange places = block;
  places.first += i * block.step * static_cast<int64_t>(sizeof(T));
  BoundedLoops<T, R>::open(rest, places, count - i);
}

// Both in one store: a core makes one per cycle.
[[gnu::always_inline]] SOW_TARGET_AVX512 inline void add_one(double* state, double value) {
  constexpr __mmask8 kLost = 2;
  const __m128d both = _mm_add_sd(_mm_loadu_pd(state), _mm_set_sd(value));
  const __m128d sums = _mm_andnot_pd(_mm_set1_pd(-0.0), _mm_movedup_pd(both));
  _mm_storeu_pd(state, _mm_mask3_fmadd_pd(sums, _mm_set1_pd(kRounding), both, kLost));
}
template <class T>
[[gnu::always_inline]] SOW_TARGET_AVX512 inline void widen_step(const T* values, __m512d* wide) {
  wide[0] = _mm512_maskz_cvtps_pd(0xff, load(values));
  wide[1] = _mm512_maskz_cvtps_pd(0xff, load(values + kLanes));
}

template <bool Counts, bool Checks, int Copies, class T, class Id>
SOW_TARGET_AVX512 int64_t add_each(double* states, uint32_t* seen, const Id* ids, uint32_t extent,
                                   const T* values, int64_t count, const char* to_prefetch) {
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    __m512d wide[2];
    if (Checks && __builtin_expect(not_cells(ids + i, extent) != 0, 0)) break;
    if (!Checks) prefetch(to_prefetch, i * 8);
    if (!Checks) prefetch(to_prefetch, i * 8 + 64);
    widen_step(values + i, wide);
#pragma GCC unroll 16
    for (int j = 0; j < kStep; ++j) {
      add_one(states + 2 * (static_cast<int64_t>(ids[i + j]) * Copies + j % Copies),
              wide[j / kLanes][j % kLanes]);
      if (Counts) ++seen[ids[i + j]];
    }
  }
  return i;
}

template <class T, Reduce R>
SOW_TARGET_AVX512 void add(const Cells& cells, bool counted, const uint32_t* ids,
                           const char* values, int64_t count, const char* to_prefetch) {
  const T* from = reinterpret_cast<const T*>(values);
  double* states = reinterpret_cast<double*>(cells.states);
  if (to_prefetch == nullptr)
    to_prefetch = values;  // a line that is here costs nothing, none at all a walk
  const int64_t done = counted ? add_each<true, false, 1>(states, cells.counts, ids, UINT32_MAX,
                                                          from, count, to_prefetch)
                               : add_each<false, false, 1>(states, cells.counts, ids, UINT32_MAX,
                                                           from, count, to_prefetch);
  BoundedLoops<T, R>::add_each(cells, counted, ids + done, UINT32_MAX, from + done, count - done);
}

// Few cells have copies, so that one update need not wait for another.
constexpr int kCopies = 8, kCopied = 16;
struct Copies {
  SOW_TARGET_AVX512 Copies() {
    for (int i = 0; i < kCopied * kCopies; i += kLanes) {
      store_state(states + 2 * i, _mm512_set1_pd(-0.0), _mm512_set1_pd(kNothingMet));
    }
  }
  template <class Loops>
  void add_to(const Cells& cells, uint32_t count) const {
    auto* to = Loops::states_of(cells);
    for (uint32_t i = 0; i < count * kCopies; ++i) {
      const typename Loops::State one(states[2 * i], 0, states[2 * i + 1]);
      if (Loops::is_met(one)) to[i / kCopies].merge(one);
    }
  }
  alignas(64) double states[2 * kCopied * kCopies];
};

template <class T, Reduce R, class Id>
SOW_TARGET_AVX512 int64_t add_run(const Cells& cells, bool counted, const KeyedValues& keys,
                                  int64_t first, int64_t count) {
  const Id* ids = reinterpret_cast<const Id*>(keys.data) + first;
  const T* from = reinterpret_cast<const T*>(keys.values) + first;
  double* states = reinterpret_cast<double*>(cells.states);
  uint32_t* seen = cells.counts;
  int64_t done = 0;
  if (keys.extent <= kCopied) {
    Copies copies;
    done = counted ? add_each<true, true, kCopies>(copies.states, seen, ids, keys.extent, from,
                                                   count, nullptr)
                   : add_each<false, true, kCopies>(copies.states, seen, ids, keys.extent, from,
                                                    count, nullptr);
    copies.add_to<BoundedLoops<T, R>>(cells, keys.extent);
  } else {
    done = counted ? add_each<true, true, 1>(states, seen, ids, keys.extent, from, count, nullptr)
                   : add_each<false, true, 1>(states, seen, ids, keys.extent, from, count, nullptr);
  }
  const int64_t rest = std::min<int64_t>(count - done, kStep);
  return done +
         BoundedLoops<T, R>::add_each(cells, counted, ids + done, keys.extent, from + done, rest);
}
template <class T, Reduce R>
int64_t add_keys(const Cells& cells, bool counted, const KeyedValues& keys, int64_t first,
                 int64_t count) {
  return keys.int64_keys ? add_run<T, R, uint64_t>(cells, counted, keys, first, count)
                         : add_run<T, R, uint32_t>(cells, counted, keys, first, count);
}

template <Reduce R>
SOW_TARGET_AVX512 void add_pairs(const Cells& cells, const uint64_t* pairs, int64_t count,
                                 const void* to_prefetch) {
  double* states = reinterpret_cast<double*>(cells.states);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    prefetch(to_prefetch, i * 8);
    const __m512i pair = _mm512_loadu_si512(pairs + i);
    const __m256i bits = _mm512_maskz_cvtepi64_epi32(0xff, _mm512_maskz_srli_epi64(0xff, pair, 32));
    const __m512d wide = _mm512_maskz_cvtps_pd(0xff, _mm256_castsi256_ps(bits));
#pragma GCC unroll 8
    for (int j = 0; j < kLanes; ++j) {
      add_one(states + 2 * static_cast<int64_t>(static_cast<uint32_t>(pairs[i + j])), wide[j]);
    }
  }
  BoundedLoops<float, R>::add_pairs(cells, pairs + i, count - i, to_prefetch);
}

// Eight sums: both ends of what each may be are rounded, and those written that are the same.
// Returns those that are inconclusive.
template <class T, Reduce R, bool Counted>
SOW_TARGET_AVX512 inline __mmask8 end_eight(const double* states, const uint32_t* counts, T* to,
                                            bool self) {
  const __m512d low = _mm512_loadu_pd(states), high = _mm512_loadu_pd(states + kLanes);
  const __m512i evens = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  const __m512i odds = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
  const __m512d sum = _mm512_permutex2var_pd(low, evens, high);
  const __m512d lost = _mm512_permutex2var_pd(low, odds, high), zero = _mm512_setzero_pd();
  const __mmask8 inexact = _mm512_cmp_pd_mask(lost, zero, _CMP_NEQ_UQ);
  const __m256i seen = Counted ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(counts))
                               : _mm256_setzero_si256();
  const __mmask8 met =
      Counted ? _mm256_test_epi32_mask(seen, seen)
              : static_cast<__mmask8>(~_mm512_movepi64_mask(_mm512_castpd_si512(lost)));
  const __m512d margin = _mm512_add_pd(lost, lost);
  constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  constexpr int kUp = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
  __m512d least = _mm512_mask_sub_round_pd(sum, inexact, sum, margin, kDown);
  __m512d most = _mm512_mask_add_round_pd(sum, inexact, sum, margin, kUp);
  if constexpr (R == Reduce::mean) {
    const __m512d count =
        _mm512_maskz_cvtepu32_pd(0xff, _mm256_add_epi32(seen, _mm256_set1_epi32(self)));
    least = _mm512_div_pd(least, count);
    most = _mm512_div_pd(most, count);
  }
  const __m256i bits = rounded_bits<T>(least);
  __mmask8 certain = _mm256_cmpeq_epi32_mask(bits, rounded_bits<T>(most));
  certain = _mm512_mask_cmp_pd_mask(certain, _mm512_abs_pd(sum),
                                    _mm512_set1_pd(0x1.fffffffffffffp1023), _CMP_LE_OQ);
  certain = _mm512_mask_cmp_pd_mask(certain, lost, _mm512_set1_pd(0x1p1000), _CMP_LE_OQ);
  constexpr int kNan = 0x81, kMinusZero = 0x04;
  const __mmask8 ambiguous = Counted ? 0 : _mm512_fpclass_pd_mask(sum, kNan | kMinusZero);
  certain = static_cast<__mmask8>(certain & ~ambiguous);
  store_bits(to, met & certain, bits);
  return static_cast<__mmask8>((met & ~certain) | ambiguous);
}

template <class T, Reduce R, bool Counted>
SOW_TARGET_AVX512 int64_t finish_eights(const Cells& cells, const PlaceRange& block, int64_t begin,
                                        int64_t end, Touched& inconclusive, int64_t room) {
  const double* states = reinterpret_cast<const double*>(cells.states);
  T* to = reinterpret_cast<T*>(block.first);
  int64_t i = begin;
  for (; i + kLanes <= end && inconclusive.count + kLanes < room; i += kLanes) {
    uint32_t left =
        end_eight<T, R, Counted>(states + 2 * i, cells.counts + i, to + i, block.include_self);
    for (; left != 0; left &= left - 1) {
      const int64_t cell = i + __builtin_ctz(left);
      inconclusive.note(cell, cell);
    }
  }
  return i;
}
template <class T, Reduce R>
int64_t finish(const Cells& cells, bool counted, const PlaceRange& block, int64_t begin,
               int64_t end, Touched& inconclusive, int64_t room) {
  if (block.step != 1) {
    return BoundedLoops<T, R>::finish(cells, counted, block, begin, end, inconclusive, room);
  }
  const int64_t done =
      counted ? finish_eights<T, R, true>(cells, block, begin, end, inconclusive, room)
              : finish_eights<T, R, false>(cells, block, begin, end, inconclusive, room);
  return BoundedLoops<T, R>::finish(cells, counted, block, done, std::min(end, done + kLanes - 1),
                                    inconclusive, room);
}

SOW_TARGET_AVX512 int find_tagged(const Cells& cells, const uint32_t* ids, int count,
                                  uint32_t* positions) {
  const __m512i step = _mm512_set1_epi32(kStep);
  __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int found = 0, i = 0;
  for (; i + kStep <= count; i += kStep) {
    const __m512i tags = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff,
                                                     _mm512_loadu_si512(ids + i), cells.counts, 4);
    const __mmask16 tagged = _mm512_movepi32_mask(tags);
    // There is room: no more were found than come before these.
    _mm512_storeu_si512(positions + found, _mm512_maskz_compress_epi32(tagged, at));
    found += __builtin_popcount(tagged);
    at = _mm512_add_epi32(at, step);
  }
  for (; i < count; ++i) {
    positions[found] = static_cast<uint32_t>(i);
    found += (cells.counts[ids[i]] & kCellTag) != 0;
  }
  return found;
}

template <class T, Reduce R>
void use_kernels(BoundedSums& sums) {
  sums.open = open<T, R>;
  sums.add = add<T, R>;
  sums.add_keys = add_keys<T, R>;
  if constexpr (sizeof(T) == 4) sums.add_pairs = add_pairs<R>;
  sums.finish = finish<T, R>;
  sums.find_tagged = find_tagged;
}

}  // namespace

template <class T>
void use_avx512(BoundedSums& sums, bool mean) {
  if (mean) {
    use_kernels<T, Reduce::mean>(sums);
  } else {
    use_kernels<T, Reduce::add>(sums);
  }
}
template void use_avx512<float>(BoundedSums& sums, bool mean);
template void use_avx512<float16>(BoundedSums& sums, bool mean);
template void use_avx512<bfloat16>(BoundedSums& sums, bool mean);

}  // namespace sow::detail
