// SPDX-License-Identifier: Apache-2.0
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

}  // namespace sow::detail
