// SPDX-License-Identifier: Apache-2.0
// Eight values of a narrow type as float32, and eight float64 that are rounded to it
// once. The way to the halves goes through a float32 whose last bit remembers what followed it
// (round to odd).
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "core/isa.h"
#include "sow/half.h"

namespace sow::detail {

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

// The bits of the results, which store_bits() puts in place.
template <class T>
SOW_TARGET_AVX512 inline __m256i rounded_bits(__m512d values) {
  if constexpr (sizeof(T) == 4) {
    return _mm256_castps_si256(_mm512_maskz_cvtpd_ps(0xff, values));
  } else if constexpr (std::is_same_v<T, float16>) {
    const __m256 floats = _mm256_castsi256_ps(odd_floats(values));
    return _mm256_cvtepu16_epi32(_mm256_maskz_cvtps_ph(0xff, floats, _MM_FROUND_TO_NEAREST_INT));
  } else {
    const __m256i bits = odd_floats(values), one = _mm256_set1_epi32(1);
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff)));
    return _mm256_srli_epi32(up, 16);
  }
}
template <class T>
SOW_TARGET_AVX512 inline void store_bits(T* to, __mmask8 which, __m256i bits) {
  if constexpr (sizeof(T) == 4) {
    _mm256_mask_storeu_epi32(to, which, bits);
  } else {
    _mm_mask_storeu_epi16(to, which, _mm256_maskz_cvtepi32_epi16(0xff, bits));
  }
}
template <class T>
SOW_TARGET_AVX512 inline void store(T* to, __mmask8 which, __m512d values) {
  store_bits(to, which, rounded_bits<T>(values));
}

}  // namespace sow::detail
