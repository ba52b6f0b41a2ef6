// Window loops of float32 with AVX-512: values become integers, and sums float32, eight at a time.
// The forms with a full mask are the plain ones without their warnings in g++ 12.
#include <immintrin.h>

#include <cmath>

#include "core/isa.h"
#include "cpu/touch.h"
#include "cpu/window_kernels.h"

namespace sow::detail {

namespace {

SOW_TARGET_AVX512 void scan(const char* values, int64_t count, WindowRange& range) {
  const float* from = reinterpret_cast<const float*>(values);
  __m512i largest = _mm512_setzero_si512(), smallest = _mm512_set1_epi32(-1),
          lowest = _mm512_set1_epi32(INT32_MAX);
  const __m512i magnitude_bits = _mm512_set1_epi32(INT32_MAX), one = _mm512_set1_epi32(1);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i bits = _mm512_loadu_si512(from + i);
    const __m512i magnitude = _mm512_and_si512(bits, magnitude_bits);
    largest = _mm512_maskz_max_epu32(0xffff, largest, magnitude);
    smallest = _mm512_maskz_min_epu32(0xffff, smallest, _mm512_sub_epi32(magnitude, one));
    lowest = _mm512_maskz_min_epi32(0xffff, lowest, bits);
  }
  alignas(64) uint32_t largest_of[16], smallest_of[16];
  alignas(64) int32_t lowest_of[16];
  _mm512_store_si512(largest_of, largest);
  _mm512_store_si512(smallest_of, smallest);
  _mm512_store_si512(lowest_of, lowest);
  for (int lane = 0; lane < 16; ++lane) {
    range.largest = std::max(range.largest, largest_of[lane]);
    range.smallest_less_one = std::min(range.smallest_less_one, smallest_of[lane]);
    range.lowest = std::min(range.lowest, lowest_of[lane]);
  }
  WindowLoops<float, Reduce::add>::scan(reinterpret_cast<const char*>(from + i), count - i, range);
}

SOW_TARGET_AVX512 inline __m256 load(const float* from) { return _mm256_loadu_ps(from); }

// Keys that are not cells, as a mask; codes always are.
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint64_t* keys, uint32_t extent) {
  const __m512i end = _mm512_set1_epi64(extent);
  return static_cast<uint32_t>(_mm512_cmpge_epu64_mask(_mm512_loadu_si512(keys), end)) |
         static_cast<uint32_t>(_mm512_cmpge_epu64_mask(_mm512_loadu_si512(keys + 8), end));
}
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint32_t* keys, uint32_t extent) {
  return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(keys),
                                 _mm512_set1_epi32(static_cast<int>(extent)));
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
template <bool Counts, bool Checks, class Id>
SOW_TARGET_AVX512 int64_t add_each(int64_t* cells, uint32_t* seen, const Id* ids, uint32_t extent,
                                   const float* values, int64_t count, Window& window,
                                   WindowRests& rests, const char* soon) {
  using Plain = WindowLoops<float, Reduce::add>;
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

SOW_TARGET_AVX512 int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids,
                              const char* values, int64_t count, Window& window, WindowRests& rests,
                              const char* soon) {
  const float* from = reinterpret_cast<const float*>(values);
  if (soon == nullptr) soon = values;  // a line that is here costs nothing, none at all a walk
  return seen == nullptr ? add_each<false, false>(cells, seen, ids, UINT32_MAX, from, count, window,
                                                  rests, soon)
                         : add_each<true, false>(cells, seen, ids, UINT32_MAX, from, count, window,
                                                 rests, soon);
}

template <class Id>
SOW_TARGET_AVX512 int64_t add_run(int64_t* cells, uint32_t* seen, const WindowKeys& keys,
                                  int64_t first, int64_t count, Window& window,
                                  WindowRests& rests) {
  const Id* ids = reinterpret_cast<const Id*>(keys.data) + first;
  const float* from = reinterpret_cast<const float*>(keys.values) + first;
  return seen == nullptr ? add_each<false, true>(cells, seen, ids, keys.extent, from, count, window,
                                                 rests, nullptr)
                         : add_each<true, true>(cells, seen, ids, keys.extent, from, count, window,
                                                rests, nullptr);
}
SOW_TARGET_AVX512 int64_t add_keys(int64_t* cells, uint32_t* seen, const WindowKeys& keys,
                                   int64_t first, int64_t count, Window& window,
                                   WindowRests& rests) {
  return keys.wide ? add_run<uint64_t>(cells, seen, keys, first, count, window, rests)
                   : add_run<uint32_t>(cells, seen, keys, first, count, window, rests);
}

// Eight sums with their old values; says which of them cannot be told, and writes the others.
struct SumEnd {
  __m512d unit;
  Window window;

  SOW_TARGET_AVX512 __mmask8 write(const int64_t* cells, float* to) const {
    const __m512i cell = _mm512_loadu_si512(cells);
    const __m256 old = _mm256_loadu_ps(to);
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
      _mm256_mask_storeu_ps(to, some, _mm512_maskz_cvtpd_ps(0xff, total));
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
    const __m256 result = _mm512_maskz_cvtpd_ps(0xff, _mm512_castsi512_pd(odd));
    _mm256_mask_storeu_ps(to, some & static_cast<__mmask8>(~refused), result);
    return refused;
  }
};

SOW_TARGET_AVX512 int64_t finish(const int64_t* cells, const uint32_t* seen, const Block& block,
                                 int64_t begin, int64_t end, Window window, Touched& refused,
                                 int64_t room) {
  using Plain = WindowLoops<float, Reduce::add>;
  if (seen != nullptr || block.step != 1 || !block.include_self) {
    return Plain::finish(cells, seen, block, begin, end, window, refused, room);
  }
  const SumEnd each{_mm512_set1_pd(std::ldexp(1.0, window.exponent)), window};
  float* to = reinterpret_cast<float*>(block.first);
  int64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    if (refused.count + 8 > room) break;
    for (uint32_t left = each.write(cells + i, to + i); left != 0; left &= left - 1) {
      const int64_t cell = i + __builtin_ctz(left);
      refused.cells[refused.count] = static_cast<uint32_t>(cell);
      refused.offsets[refused.count++] = cell;
    }
  }
  return Plain::finish(cells, seen, block, i, std::min(end, i + 7), window, refused, room);
}

}  // namespace

void use_avx512(WindowKernels& kernels) {
  kernels.scan = scan;
  kernels.add = add;
  kernels.add_keys = add_keys;
  if (!kernels.counts) kernels.finish = finish;
}

}  // namespace sow::detail
