// Short rows with AVX-512: up to eight columns become integers at a time. The forms with a full
// mask are the plain ones without their warnings in g++ 12.
#include <immintrin.h>

#include "core/isa.h"
#include "cpu/sum/fixed_point_rows.h"
#include "sow/half.h"

namespace sow::detail {

namespace {

// Cut at the limit, and found to be different then; as is what is not whole, -0 and NaN.
SOW_TARGET_AVX512 inline __mmask8 to_fixed(__m512d values, __m512d factor, __m512d limit,
                                           __m512i& fixed) {
  const __m512d scaled = _mm512_mul_pd(values, factor);
  constexpr int kSmallerMagnitude = 2;
  fixed = _mm512_maskz_cvttpd_epi64(0xff,
                                    _mm512_maskz_range_pd(0xff, scaled, limit, kSmallerMagnitude));
  return _mm512_cmpneq_epi64_mask(_mm512_castpd_si512(_mm512_maskz_cvtepi64_pd(0xff, fixed)),
                                  _mm512_castpd_si512(scaled));
}
SOW_TARGET_AVX512 inline __mmask8 to_fixed(__m256d values, __m256d factor, __m256d limit,
                                           __m256i& fixed) {
  const __m256d scaled = _mm256_mul_pd(values, factor);
  fixed = _mm256_maskz_cvttpd_epi64(0xf, _mm256_maskz_range_pd(0xf, scaled, limit, 2));
  return _mm256_cmpneq_epi64_mask(_mm256_castpd_si256(_mm256_maskz_cvtepi64_pd(0xf, fixed)),
                                  _mm256_castpd_si256(scaled));
}
SOW_TARGET_AVX512 inline __mmask8 to_fixed(__m128d values, __m128d factor, __m128d limit,
                                           __m128i& fixed) {
  const __m128d scaled = _mm_mul_pd(values, factor);
  fixed = _mm_maskz_cvttpd_epi64(0x3, _mm_maskz_range_pd(0x3, scaled, limit, 2));
  return _mm_cmpneq_epi64_mask(_mm_castpd_si128(_mm_maskz_cvtepi64_pd(0x3, fixed)),
                               _mm_castpd_si128(scaled));
}

SOW_TARGET_AVX512 inline __m512d load_eight(const float* from, __mmask8 in) {
  return _mm512_maskz_cvtps_pd(0xff, _mm256_maskz_loadu_ps(in, from));
}
SOW_TARGET_AVX512 inline __m512d load_eight(const bfloat16* from, __mmask8 in) {
  const __m256i bits =
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(in, from)), 16);
  return _mm512_maskz_cvtps_pd(0xff, _mm256_castsi256_ps(bits));
}
SOW_TARGET_AVX512 inline __m512d load_eight(const float16* from, __mmask8 in) {
  return _mm512_maskz_cvtps_pd(0xff, _mm256_maskz_cvtph_ps(0xff, _mm_maskz_loadu_epi16(in, from)));
}

template <class T>
[[gnu::noinline]] bool add_slowly(int64_t* cells, const ShortItems& items, int64_t i,
                                  const RowScale& scale, RowResiduals& residuals) {
  const auto* from = reinterpret_cast<const T*>(items.src + items.items[i] * items.step);
  return add_short_row(cells, from, items.rows[i], items.columns, scale, residuals);
}

// The compiler takes it that cells could be anything, what the items say included: so that is
// copied where no cell can be.
// `Pieces` of eight columns, the last of them under a mask unless Whole.
template <class T, int Pieces, bool Whole>
SOW_TARGET_AVX512 bool add_eights(int64_t* cells, const ShortItems& given, const RowScale& scale,
                                  RowResiduals& residuals) {
  const ShortItems items = given;
  const __m512d factor = _mm512_set1_pd(scale.factor), limit = _mm512_set1_pd(scale.limit);
  const int64_t columns = Whole ? 8 * Pieces : items.columns, step = items.step;
  const auto tail = static_cast<__mmask8>(Whole ? 0xff : 0xff >> (8 * Pieces - columns));
  for (int64_t i = 0; i < items.count; ++i) {
    const auto* from = reinterpret_cast<const T*>(items.src + items.items[i] * step);
    int64_t* to = cells + items.rows[i] * columns;
    prefetch_short_rows(cells, columns * int64_t{8}, items, i);
    __m512i fixed[Pieces];
    uint32_t strange = 0;
#pragma GCC unroll 2
    for (int p = 0; p < Pieces; ++p) {
      const __mmask8 in = Whole || p + 1 < Pieces ? 0xff : tail;
      strange |= to_fixed(load_eight(from + 8 * p, in), factor, limit, fixed[p]);
    }
    if (__builtin_expect(strange != 0, 0)) {
      if (!add_slowly<T>(cells, given, i, scale, residuals)) return false;
      continue;
    }
#pragma GCC unroll 2
    for (int p = 0; p < Pieces; ++p) {
      if (Whole || p + 1 < Pieces) {
        _mm512_storeu_si512(to + 8 * p, _mm512_add_epi64(fixed[p], _mm512_loadu_si512(to + 8 * p)));
      } else {
        const __m512i old = _mm512_maskz_loadu_epi64(tail, to + 8 * p);
        _mm512_mask_storeu_epi64(to + 8 * p, tail, _mm512_add_epi64(fixed[p], old));
      }
    }
  }
  return true;
}

SOW_TARGET_AVX512 bool add_fours(int64_t* cells, const ShortItems& given, const RowScale& scale,
                                 RowResiduals& residuals) {
  const ShortItems items = given;
  const __m256d factor = _mm256_set1_pd(scale.factor), limit = _mm256_set1_pd(scale.limit);
  const int64_t step = items.step;
  for (int64_t i = 0; i < items.count; ++i) {
    const auto* from = reinterpret_cast<const float*>(items.src + items.items[i] * step);
    auto* to = reinterpret_cast<__m256i*>(cells + items.rows[i] * int64_t{4});
    prefetch_short_rows(cells, 32, items, i);
    __m256i fixed;
    if (__builtin_expect(to_fixed(_mm256_cvtps_pd(_mm_loadu_ps(from)), factor, limit, fixed) != 0,
                         0)) {
      if (!add_slowly<float>(cells, given, i, scale, residuals)) return false;
      continue;
    }
    _mm256_storeu_si256(to, _mm256_add_epi64(fixed, _mm256_loadu_si256(to)));
  }
  return true;
}

SOW_TARGET_AVX512 bool add_twos(int64_t* cells, const ShortItems& given, const RowScale& scale,
                                RowResiduals& residuals) {
  const ShortItems items = given;
  const __m128d factor = _mm_set1_pd(scale.factor), limit = _mm_set1_pd(scale.limit);
  const int64_t step = items.step;
  for (int64_t i = 0; i < items.count; ++i) {
    const char* from = items.src + items.items[i] * step;
    auto* to = reinterpret_cast<__m128i*>(cells + items.rows[i] * int64_t{2});
    prefetch_short_rows(cells, 16, items, i);
    const __m128 both = _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    __m128i fixed;
    if (__builtin_expect(to_fixed(_mm_cvtps_pd(both), factor, limit, fixed) != 0, 0)) {
      if (!add_slowly<float>(cells, given, i, scale, residuals)) return false;
      continue;
    }
    _mm_storeu_si128(to, _mm_add_epi64(fixed, _mm_loadu_si128(to)));
  }
  return true;
}

// Eight keys as 32-bit numbers of rows, negative ones wrapped. `good` loses its bits at bad ones.
SOW_TARGET_AVX512 inline __m256i rows_of(__m512i keys, __m512i extent, __m512i twice, __mmask8 here,
                                         __mmask8& good) {
  const __m512i wrapped = _mm512_add_epi64(keys, extent);
  good &= static_cast<__mmask8>(_mm512_cmplt_epu64_mask(wrapped, twice) | ~here);
  return _mm512_cvtepi64_epi32(_mm512_mask_mov_epi64(keys, _mm512_movepi64_mask(keys), wrapped));
}
SOW_TARGET_AVX512 inline __m512i load_keys(const int64_t* from, __mmask8 here) {
  return _mm512_maskz_loadu_epi64(here, from);
}
SOW_TARGET_AVX512 inline __m512i load_keys(const int32_t* from, __mmask8 here) {
  return _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(here, from));
}

template <class K>
SOW_TARGET_AVX512 int keep_rows(const ShortKeys& keys, int count, uint32_t* items, uint32_t* rows) {
  const K* from = reinterpret_cast<const K*>(keys.keys);
  const __m512i low = _mm512_set1_epi32(static_cast<int>(keys.lowest)),
                size = _mm512_set1_epi32(static_cast<int>(keys.rows)),
                extent = _mm512_set1_epi64(keys.extent), twice = _mm512_set1_epi64(2 * keys.extent),
                steps = _mm512_set1_epi32(16);
  __m512i item =
      _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(keys.first)),
                       _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  __mmask8 good = 0xff;
  int found = 0;
  for (int i = 0; i < count; i += 16) {
    prefetch_l2(from + i, kShortKeyBytes);
    if (sizeof(K) == 8) prefetch_l2(from + i, kShortKeyBytes + 64);
    const uint32_t here = count - i >= 16 ? 0xffffu : (1u << (count - i)) - 1;
    const auto first = static_cast<__mmask8>(here), second = static_cast<__mmask8>(here >> 8);
    const __m256i one = rows_of(load_keys(from + i, first), extent, twice, first, good);
    const __m256i two = rows_of(load_keys(from + i + 8, second), extent, twice, second, good);
    const __m512i row =
        _mm512_sub_epi32(_mm512_inserti64x4(_mm512_castsi256_si512(one), two, 1), low);
    const __mmask16 in = _mm512_mask_cmplt_epu32_mask(static_cast<__mmask16>(here), row, size);
    _mm512_storeu_si512(items + found, _mm512_maskz_compress_epi32(in, item));
    _mm512_storeu_si512(rows + found, _mm512_maskz_compress_epi32(in, row));
    found += __builtin_popcount(in);
    item = _mm512_add_epi32(item, steps);
  }
  return good == 0xff ? found : -1;
}

template <class T>
AddShortRows adder_of(int columns) {
  if (columns == 8) return add_eights<T, 1, true>;
  if (columns == 16) return add_eights<T, 2, true>;
  return columns < 8 ? add_eights<T, 1, false> : add_eights<T, 2, false>;
}

}  // namespace

AddShortRows short_adder_avx512(DType dtype, int columns) {
  if (dtype == DType::bfloat16) return adder_of<bfloat16>(columns);
  if (dtype == DType::float16) return adder_of<float16>(columns);
  if (columns == 2) return add_twos;
  return columns == 4 ? add_fours : adder_of<float>(columns);
}

KeepShortRows keep_short_rows_avx512(DType index) {
  return index == DType::int32 ? keep_rows<int32_t> : keep_rows<int64_t>;
}

SOW_TARGET_AVX512 uint32_t finish_eight_avx512(const int64_t* cells, float* to, double unit) {
  constexpr int kNan = 0x81, kInfinite = 0x18, kMinusZero = 0x04;
  const __m512i cell = _mm512_loadu_si512(cells);
  const __m256 old = _mm256_loadu_ps(to);
  const __m512d sum = _mm512_maskz_cvtepi64_pd(0xff, cell);
  const __m512d a = _mm512_maskz_cvtps_pd(0xff, old);
  const __m512d b = _mm512_mul_pd(sum, _mm512_set1_pd(unit));
  const __m512d total = _mm512_add_pd(a, b);
  // Nothing is lost, and one rounding is left, where both differences give back a term.
  __mmask8 plain = _mm512_cmp_pd_mask(_mm512_abs_pd(sum), _mm512_set1_pd(0x1p53), _CMP_LT_OQ);
  plain = _mm512_mask_cmp_pd_mask(plain, _mm512_sub_pd(total, a), b, _CMP_EQ_OQ);
  plain = _mm512_mask_cmp_pd_mask(plain, _mm512_sub_pd(total, b), a, _CMP_EQ_OQ);
  plain &= static_cast<__mmask8>(~_mm256_fpclass_ps_mask(old, kNan | kInfinite | kMinusZero));
  _mm256_mask_storeu_ps(to, plain, _mm512_maskz_cvtpd_ps(0xff, total));
  return static_cast<uint8_t>(~plain);
}

}  // namespace sow::detail
