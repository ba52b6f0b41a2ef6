// SPDX-License-Identifier: Apache-2.0
// Extremes of short rows of float32 with AVX-512. The forms with a full mask are the plain ones
// without their warnings in g++ 12.
#include <immintrin.h>

#include "core/isa.h"
#include "cpu/short_rows/short_apply.h"

namespace sow::detail {

namespace {

// Rows of so many columns in one vector; 0: any number, under a mask.
template <int Columns>
struct RowVector {
  SOW_TARGET_AVX512 static inline __mmask16 lanes(int columns) {
    return static_cast<__mmask16>((1u << columns) - 1);
  }
  SOW_TARGET_AVX512 static inline __m512i load(const char* from, __mmask16 in) {
    if constexpr (Columns == 2)
      return _mm512_castsi128_si512(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    if constexpr (Columns == 4)
      return _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    if constexpr (Columns == 8)
      return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    if constexpr (Columns == 16) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi32(in, from);
  }
  SOW_TARGET_AVX512 static inline void store(char* to, __mmask16 in, __m512i row) {
    if constexpr (Columns == 2)
      return _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(row));
    if constexpr (Columns == 4)
      return _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(row));
    if constexpr (Columns == 8)
      return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(row));
    if constexpr (Columns == 16) return _mm512_storeu_si512(to, row);
    _mm512_mask_storeu_epi32(to, in, row);
  }
};

// The bits of negative numbers in descending order; its own inverse.
SOW_TARGET_AVX512 inline __m512i mirrored(__m512i bits) {
  const __m512i magnitude = _mm512_set1_epi32(INT32_MAX);
  return _mm512_xor_si512(bits,
                          _mm512_and_si512(_mm512_maskz_srai_epi32(0xffff, bits, 31), magnitude));
}

template <Reduce R, int Columns>
SOW_TARGET_AVX512 void apply_extremes(char* dst, int64_t step, const ShortItems& given) {
  const ShortItems items = given;  // which nothing that is written can change
  using Row = RowVector<Columns>;
  const __mmask16 in = Row::lanes(items.columns);
  const __m512i quiet = _mm512_set1_epi32(0x7fc00000);
  for (int64_t i = 0; i < items.count; ++i) {
    char* to = dst + items.rows[i] * step;
    prefetch_short_rows(dst, step, items, i);
    const __m512i value = Row::load(items.src + items.items[i] * items.step, in);
    const __m512i old = Row::load(to, in);
    const __m512i a = mirrored(value), b = mirrored(old);
    const __m512i best = mirrored(R == Reduce::amax ? _mm512_maskz_max_epi32(0xffff, a, b)
                                                    : _mm512_maskz_min_epi32(0xffff, a, b));
    const __mmask16 nan =
        _mm512_cmp_ps_mask(_mm512_castsi512_ps(value), _mm512_castsi512_ps(old), _CMP_UNORD_Q);
    Row::store(to, in, _mm512_mask_mov_epi32(best, nan, quiet));
  }
}

template <Reduce R>
ApplyShortRows extremes_of(int columns) {
  if (columns == 2) return apply_extremes<R, 2>;
  if (columns == 4) return apply_extremes<R, 4>;
  if (columns == 8) return apply_extremes<R, 8>;
  return columns == 16 ? apply_extremes<R, 16> : apply_extremes<R, 0>;
}

}  // namespace

ApplyShortRows short_extremes_avx512(Reduce reduce, int columns) {
  if (reduce == Reduce::amax) return extremes_of<Reduce::amax>(columns);
  return extremes_of<Reduce::amin>(columns);
}

}  // namespace sow::detail
