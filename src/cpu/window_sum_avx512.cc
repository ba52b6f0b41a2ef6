// Window loops of the narrow floats with AVX-512: values become integers, and sums floats, eight at
// a time. The forms with a full mask are the plain ones without their warnings in g++ 12.
#include <immintrin.h>

#include <cmath>

#include "core/isa.h"
#include "cpu/touch.h"
#include "cpu/window_kernels.h"
#include "cpu/window_keys_avx512.h"
#include "cpu/window_limbs.h"

namespace sow::detail {

namespace {

// Eight values as float32, and eight that are rounded once. The way to the halves goes through a
// float32 whose last bit remembers what followed it (round to odd).
SOW_TARGET_AVX512 inline __m256 load(const float* from) { return _mm256_loadu_ps(from); }
SOW_TARGET_AVX512 inline __m256 load(const float16* from) {
  return _mm256_maskz_cvtph_ps(0xff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
SOW_TARGET_AVX512 inline __m256 load(const bfloat16* from) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

SOW_TARGET_AVX512 inline __m256i odd_floats(__m512d values) {
  const __m256 cut =
      _mm512_maskz_cvt_roundpd_ps(0xff, values, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __mmask8 inexact =
      _mm512_cmp_pd_mask(_mm512_maskz_cvtps_pd(0xff, cut), values, _CMP_NEQ_OQ);
  const __m256i bits = _mm256_castps_si256(cut);
  return _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1));
}
SOW_TARGET_AVX512 inline void store(float* to, __mmask8 which, __m512d values) {
  _mm256_mask_storeu_ps(to, which, _mm512_maskz_cvtpd_ps(0xff, values));
}
SOW_TARGET_AVX512 inline void store(float16* to, __mmask8 which, __m512d values) {
  const __m256 floats = _mm256_castsi256_ps(odd_floats(values));
  _mm_mask_storeu_epi16(to, which, _mm256_maskz_cvtps_ph(0xff, floats, _MM_FROUND_TO_NEAREST_INT));
}
SOW_TARGET_AVX512 inline void store(bfloat16* to, __mmask8 which, __m512d values) {
  const __m256i bits = odd_floats(values), one = _mm256_set1_epi32(1);
  const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
  const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
  _mm_mask_storeu_epi16(to, which, _mm256_maskz_cvtepi32_epi16(0xff, _mm256_srli_epi32(up, 16)));
}

template <class T>
SOW_TARGET_AVX512 void scan(const char* values, int64_t count, WindowRange& range) {
  const T* from = reinterpret_cast<const T*>(values);
  __m256i largest = _mm256_setzero_si256(), smallest = _mm256_set1_epi32(-1),
          lowest = _mm256_set1_epi32(INT32_MAX);
  const __m256i magnitude_bits = _mm256_set1_epi32(INT32_MAX), one = _mm256_set1_epi32(1);
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i bits = _mm256_castps_si256(load(from + i));
    const __m256i magnitude = _mm256_and_si256(bits, magnitude_bits);
    largest = _mm256_max_epu32(largest, magnitude);
    smallest = _mm256_min_epu32(smallest, _mm256_sub_epi32(magnitude, one));
    lowest = _mm256_min_epi32(lowest, bits);
  }
  alignas(32) uint32_t largest_of[8], smallest_of[8];
  alignas(32) int32_t lowest_of[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(largest_of), largest);
  _mm256_store_si256(reinterpret_cast<__m256i*>(smallest_of), smallest);
  _mm256_store_si256(reinterpret_cast<__m256i*>(lowest_of), lowest);
  for (int lane = 0; lane < 8; ++lane) {
    range.largest = std::max(range.largest, largest_of[lane]);
    range.smallest_less_one = std::min(range.smallest_less_one, smallest_of[lane]);
    range.lowest = std::min(range.lowest, lowest_of[lane]);
  }
  WindowLoops<T, Reduce::add>::scan(reinterpret_cast<const char*>(from + i), count - i, range);
}

// Eight values as whole numbers of the unit, rounded towards zero.
struct Units {
  static constexpr int kCount = 8;
  __m256i limit, minus_zero, magnitude;
  __m512d scale;
  uint32_t minus_zeros = 0;

  SOW_TARGET_AVX512 explicit Units(const Window& window)
      : limit(_mm256_set1_epi32(static_cast<int>(window.limit))),
        minus_zero(_mm256_set1_epi32(INT32_MIN)),
        magnitude(_mm256_set1_epi32(INT32_MAX)),
        scale(_mm512_set1_pd(std::ldexp(1.0, -window.exponent))) {}

  // Those that are beyond the window, and those that are not whole.
  [[gnu::always_inline]] SOW_TARGET_AVX512 inline uint32_t convert(__m256 values, int64_t* whole) {
    const __m256i bits = _mm256_castps_si256(values);
    minus_zeros |= _mm256_cmpeq_epi32_mask(bits, minus_zero);
    const uint32_t beyond = _mm256_cmpgt_epu32_mask(_mm256_and_si256(bits, magnitude), limit);
    const __m512d wide = _mm512_mul_pd(_mm512_maskz_cvtps_pd(0xff, values), scale);
    const __m512i units = _mm512_maskz_cvttpd_epi64(0xff, wide);
    _mm512_store_si512(whole, units);
    return beyond | _mm512_cmp_pd_mask(_mm512_maskz_cvtepi64_pd(0xff, units), wide, _CMP_NEQ_UQ);
  }
};

// Keys and values in one pass, without sending for any: 2^23 updates of 1,024 cells take 2.6 ms,
// reading them alone 2.6, with all of them sent for 2.8; codes made and values looked at before
// took 3.8 (loops of a prototype, 2 cores of a Zen 4 class EPYC, 2026-11-15).
template <bool Counts, bool Checks, class T, class Id>
SOW_TARGET_AVX512 int64_t add_each(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                                   const T* values, int64_t count, Window& window,
                                   WindowRests& rests, const char* soon) {
  using Plain = WindowLoops<T, Reduce::add>;
  constexpr int kCount = Checks ? 16 : 64;
  Units units(window);
  alignas(64) int64_t whole[kCount];
  int64_t i = 0;
  for (; i + kCount <= count; i += kCount) {
    uint32_t delicate = 0;
    for (int j = 0; j < kCount; j += Units::kCount) {
      delicate |= units.convert(load(values + i + j), whole + j);
    }
    if (Checks) delicate |= not_cells(ids + i, extent);
    if (__builtin_expect(delicate != 0, 0)) {
      window.minus_zeros |= units.minus_zeros != 0;
      const int64_t taken =
          Plain::add_each(cells, seen, ids + i, extent, values + i, kCount, window, rests);
      if (taken < kCount) return i + taken;
      continue;
    }
    for (int j = 0; j < kCount; j += Units::kCount) {
      if (!Checks) send_for(soon, (i + j) * 8);
      for (int k = j; k < j + Units::kCount; ++k) {
        cells[ids[i + k]] += whole[k];
        if (Counts) ++seen[ids[i + k]];
      }
    }
  }
  window.minus_zeros |= units.minus_zeros != 0;
  return i + Plain::add_each(cells, seen, ids + i, extent, values + i, count - i, window, rests);
}

template <class T>
SOW_TARGET_AVX512 int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids,
                              const char* values, int64_t count, Window& window, WindowRests& rests,
                              const char* soon) {
  const T* from = reinterpret_cast<const T*>(values);
  if (soon == nullptr) soon = values;  // a line that is here costs nothing, none at all a walk
  return seen == nullptr ? add_each<false, false>(cells, seen, ids, UINT32_MAX, from, count, window,
                                                  rests, soon)
                         : add_each<true, false>(cells, seen, ids, UINT32_MAX, from, count, window,
                                                 rests, soon);
}

template <class T, class Id>
SOW_TARGET_AVX512 int64_t add_run(int64_t* cells, uint32_t* seen, const KeyedValues& keys,
                                  int64_t first, int64_t count, Window& window,
                                  WindowRests& rests) {
  const Id* ids = reinterpret_cast<const Id*>(keys.data) + first;
  const T* from = reinterpret_cast<const T*>(keys.values) + first;
  return seen == nullptr ? add_each<false, true>(cells, seen, ids, keys.extent, from, count, window,
                                                 rests, nullptr)
                         : add_each<true, true>(cells, seen, ids, keys.extent, from, count, window,
                                                rests, nullptr);
}
template <class T>
SOW_TARGET_AVX512 int64_t add_keys(int64_t* cells, uint32_t* seen, const KeyedValues& keys,
                                   int64_t first, int64_t count, Window& window,
                                   WindowRests& rests) {
  return keys.wide ? add_run<T, uint64_t>(cells, seen, keys, first, count, window, rests)
                   : add_run<T, uint32_t>(cells, seen, keys, first, count, window, rests);
}

// Eight values by their exponents: a number of units of the limb that each goes to.
SOW_TARGET_AVX512 inline uint32_t split_limbs(__m256 values, int64_t* amounts, uint32_t* limbs,
                                              uint32_t& minus_zeros) {
  const __m256i bits = _mm256_castps_si256(values), one = _mm256_set1_epi32(1);
  const __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
  const __m256i biased = _mm256_srli_epi32(size, 23);
  const __m256i hidden = _mm256_set1_epi32(0x800000);
  const __m256i fraction = _mm256_and_si256(size, _mm256_set1_epi32(0x7fffff));
  const __m256i mantissa =
      _mm256_mask_or_epi32(fraction, _mm256_test_epi32_mask(biased, biased), fraction, hidden);
  const __m256i shift = _mm256_sub_epi32(_mm256_max_epu32(biased, one), one);
  _mm256_store_si256(reinterpret_cast<__m256i*>(limbs), _mm256_srli_epi32(shift, 4));
  const __m512i rest =
      _mm512_maskz_cvtepu32_epi64(0xff, _mm256_and_si256(shift, _mm256_set1_epi32(15)));
  const __m512i amount =
      _mm512_maskz_sllv_epi64(0xff, _mm512_maskz_cvtepu32_epi64(0xff, mantissa), rest);
  _mm512_store_si512(amounts, _mm512_mask_sub_epi64(amount, _mm256_movepi32_mask(bits),
                                                    _mm512_setzero_si512(), amount));
  minus_zeros |= _mm256_cmpeq_epi32_mask(bits, _mm256_set1_epi32(INT32_MIN));
  return _mm256_cmpgt_epu32_mask(size, _mm256_set1_epi32(0x7f7fffff));
}

template <class T, class Id>
SOW_TARGET_AVX512 int64_t add_limbs_of(int64_t* limbs, uint32_t* seen, const KeyedValues& keys,
                                       int64_t first, int64_t count, bool& minus_zeros) {
  constexpr int kCount = 16, kHalf = 8;
  const Id* ids = reinterpret_cast<const Id*>(keys.data) + first;
  const T* values = reinterpret_cast<const T*>(keys.values) + first;
  alignas(64) int64_t amounts[kCount];
  alignas(64) uint32_t which[kCount];
  uint32_t zeros = 0;
  int64_t i = 0;
  for (; i + kCount <= count; i += kCount) {
    const uint32_t delicate =
        split_limbs(load(values + i), amounts, which, zeros) |
        split_limbs(load(values + i + kHalf), amounts + kHalf, which + kHalf, zeros) |
        not_cells(ids + i, keys.extent);
    if (__builtin_expect(delicate != 0, 0)) break;
    for (int j = 0; j < kCount; ++j) {
      limbs[static_cast<int64_t>(ids[i + j]) * kLimbs + which[j]] += amounts[j];
    }
    if (seen == nullptr) continue;
    for (int j = 0; j < kCount; ++j) ++seen[ids[i + j]];
  }
  minus_zeros |= zeros != 0;
  const int64_t rest = std::min<int64_t>(count - i, kCount);
  return i +
         LimbLoops<T>::add_each(limbs, seen, ids + i, keys.extent, values + i, rest, minus_zeros);
}
template <class T>
SOW_TARGET_AVX512 int64_t add_limbs(int64_t* limbs, uint32_t* seen, const KeyedValues& keys,
                                    int64_t first, int64_t count, bool& minus_zeros) {
  return keys.wide ? add_limbs_of<T, uint64_t>(limbs, seen, keys, first, count, minus_zeros)
                   : add_limbs_of<T, uint32_t>(limbs, seen, keys, first, count, minus_zeros);
}

// Eight sums with their old values; says which of them cannot be told, and writes the others.
template <class T>
struct SumEnd {
  __m512d unit;
  Window window;

  SOW_TARGET_AVX512 __mmask8 write(const int64_t* cells, T* to) const {
    const __m512i cell = _mm512_loadu_si512(cells);
    const __m256 old = load(to);
    const __m512d sum = _mm512_maskz_cvtepi64_pd(0xff, cell);
    const __mmask8 some = _mm512_test_epi64_mask(cell, cell);
    constexpr int kNan = 0x81, kInfinite = 0x18, kMinusZero = 0x04;
    const __mmask8 delicate = _mm256_fpclass_ps_mask(old, kNan | kMinusZero);
    const __m512d a = _mm512_maskz_cvtps_pd(0xff, old), b = _mm512_mul_pd(sum, unit);
    const __m512d total = _mm512_add_pd(a, b);
    // Nearly always nothing is lost, and one rounding is left: both differences give back a term.
    __mmask8 exact = _mm512_cmp_pd_mask(_mm512_abs_pd(sum), _mm512_set1_pd(0x1p53), _CMP_LT_OQ);
    exact = _mm512_mask_cmp_pd_mask(exact, _mm512_sub_pd(total, a), b, _CMP_EQ_OQ);
    exact = _mm512_mask_cmp_pd_mask(exact, _mm512_sub_pd(total, b), a, _CMP_EQ_OQ);
    if (__builtin_expect(exact == 0xff && (~some & delicate) == 0, 1)) {
      store(to, some, total);
      return 0;
    }
    const __mmask8 inexact = _mm512_cmpneq_epi64_mask(_mm512_maskz_cvttpd_epi64(0xff, sum), cell);
    const __mmask8 special = _mm256_fpclass_ps_mask(old, kNan | kInfinite);
    const __mmask8 refused =
        static_cast<__mmask8>((some & (inexact | special)) | (~some & delicate));
    const __m512d part = _mm512_sub_pd(total, a);
    const __m512d error =
        _mm512_add_pd(_mm512_sub_pd(a, _mm512_sub_pd(total, part)), _mm512_sub_pd(b, part));
    // Round to odd: an even last digit moves towards the error.
    const __m512d zero = _mm512_setzero_pd();
    const __m512i bits = _mm512_castpd_si512(total), one = _mm512_set1_epi64(1);
    const __mmask8 moves = static_cast<__mmask8>(_mm512_cmp_pd_mask(error, zero, _CMP_NEQ_OQ) &
                                                 _mm512_testn_epi64_mask(bits, one));
    const __mmask8 inward = static_cast<__mmask8>(_mm512_cmp_pd_mask(error, zero, _CMP_GT_OQ) ^
                                                  _mm512_cmp_pd_mask(total, zero, _CMP_GT_OQ));
    __m512i odd = _mm512_mask_add_epi64(bits, moves & static_cast<__mmask8>(~inward), bits, one);
    odd = _mm512_mask_sub_epi64(odd, moves & inward, bits, one);
    store(to, some & static_cast<__mmask8>(~refused), _mm512_castsi512_pd(odd));
    return refused;
  }
};

template <class T>
SOW_TARGET_AVX512 int64_t finish(const int64_t* cells, const uint32_t* seen, const Block& block,
                                 int64_t begin, int64_t end, Window window, Touched& refused,
                                 int64_t room) {
  using Plain = WindowLoops<T, Reduce::add>;
  if (seen != nullptr || block.step != 1 || !block.include_self) {
    return Plain::finish(cells, seen, block, begin, end, window, refused, room);
  }
  const SumEnd<T> each{_mm512_set1_pd(std::ldexp(1.0, window.exponent)), window};
  T* to = reinterpret_cast<T*>(block.first);
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    if (refused.count + 8 >= room) break;  // one by one, so that it can stop where room ends
    for (uint32_t left = each.write(cells + i, to + i); left != 0; left &= left - 1) {
      const int64_t cell = i + __builtin_ctz(left);
      refused.cells[refused.count] = static_cast<uint32_t>(cell);
      refused.offsets[refused.count++] = cell;
    }
  }
  return Plain::finish(cells, seen, block, i, std::min(end, i + 7), window, refused, room);
}

}  // namespace

template <class T>
void use_avx512(WindowKernels& kernels) {
  kernels.scan = scan<T>;
  kernels.add = add<T>;
  kernels.add_keys = add_keys<T>;
  kernels.add_limbs = add_limbs<T>;
  if (!kernels.counts) kernels.finish = finish<T>;
}
template void use_avx512<float>(WindowKernels& kernels);
template void use_avx512<float16>(WindowKernels& kernels);
template void use_avx512<bfloat16>(WindowKernels& kernels);

}  // namespace sow::detail
