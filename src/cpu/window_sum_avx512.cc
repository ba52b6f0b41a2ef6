// Window loops of the narrow floats with AVX-512: values become integers, and sums floats, eight at
// a time. The forms with a full mask are the plain ones without their warnings in g++ 12.
#include <immintrin.h>

#include <cmath>

#include "core/isa.h"
#include "cpu/touch.h"
#include "cpu/window_floats_avx512.h"
#include "cpu/window_kernels.h"
#include "cpu/window_keys_avx512.h"

namespace sow::detail {

namespace {

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
  use_avx512<T>(kernels.wide, kernels.counts);
  if (!kernels.counts) kernels.finish = finish<T>;
}
template void use_avx512<float>(WindowKernels& kernels);
template void use_avx512<float16>(WindowKernels& kernels);
template void use_avx512<bfloat16>(WindowKernels& kernels);

}  // namespace sow::detail
