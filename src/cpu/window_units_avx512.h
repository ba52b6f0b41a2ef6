// Values of the narrow floats as whole numbers of a window's unit, sixteen at a time.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/window_form.h"

namespace sow::detail {

template <int Which>
SOW_TARGET_AVX512 inline __m256 half(__m512 values) {
  return _mm512_maskz_extractf32x8_ps(0xff, values, Which);
}

// Rounded towards zero. Nearly all values have no digit below the unit: those need no float64.
template <class T>
struct Units {
  static constexpr int kCount = 16;
  static constexpr int64_t kMost = 1 << 20;  // values of which the total is good
  __m512i limit, least, reach;
  __m512d scale;
  __m512 float_scale, total;
  bool floats;
  uint32_t minus_zeros = 0;

  SOW_TARGET_AVX512 explicit Units(const Window& window)
      : limit(_mm512_set1_epi32(static_cast<int>(window.limit))),
        least(_mm512_set1_epi32(INT32_MIN)),  // more than all magnitudes: none is convert()'s
        reach(_mm512_setzero_si512()),
        scale(_mm512_set1_pd(std::ldexp(1.0, -window.exponent))),
        float_scale(_mm512_setzero_ps()),
        total(_mm512_setzero_ps()),
        floats(std::abs(window.exponent) <= 126) {
    if (!floats) return;
    float_scale = _mm512_set1_ps(std::ldexp(1.0F, -window.exponent));
    // From here on all digits of a value are whole numbers of the unit.
    const int first = std::max(window.exponent + FloatTraits<T>::kDigits - 1 + 127, 1);
    const uint32_t from = static_cast<uint32_t>(first) << 23;
    if (first > 254 || from > window.limit) return;
    least = _mm512_set1_epi32(static_cast<int>(from));
    reach = _mm512_set1_epi32(static_cast<int>(window.limit - from));
  }

  // Tells what was converted; the total has lost one part in 2^24 a step at most.
  SOW_TARGET_AVX512 void leave(Window& window) const {
    alignas(64) float lanes[kCount];
    _mm512_store_ps(lanes, total);
    double sum = 0;
    for (const float lane : lanes) sum += lane;
    window.sum += floats ? sum * (1 + 0x1p-6) : HUGE_VAL;
    window.minus_zeros |= minus_zeros != 0;
  }

  // Those that may be beyond the window, or not whole. Zeros are neither, but -0 is looked at.
  [[gnu::always_inline]] SOW_TARGET_AVX512 inline uint32_t convert(__m512 values, __m512i* whole) {
    const __m512i bits = _mm512_castps_si512(values),
                  magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MAX));
    const __m512 scaled = _mm512_mul_ps(values, float_scale);
    total = _mm512_add_ps(total, _mm512_abs_ps(scaled));
    whole[0] = _mm512_maskz_cvttps_epi64(0xff, half<0>(scaled));
    whole[1] = _mm512_maskz_cvttps_epi64(0xff, half<1>(scaled));
    return _mm512_mask_cmpgt_epu32_mask(_mm512_test_epi32_mask(bits, bits),
                                        _mm512_sub_epi32(magnitude, least), reach);
  }
  // Those that are.
  SOW_TARGET_AVX512 uint32_t convert_all(__m512 values, __m512i* whole) {
    const __m512i bits = _mm512_castps_si512(values),
                  magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MAX));
    minus_zeros |= _mm512_cmpeq_epi32_mask(bits, _mm512_set1_epi32(INT32_MIN));
    uint32_t found = _mm512_cmpgt_epu32_mask(magnitude, limit);
    found |= convert_half(half<0>(values), whole[0]);
    return found | convert_half(half<1>(values), whole[1]) << 8;
  }

 private:
  SOW_TARGET_AVX512 uint32_t convert_half(__m256 values, __m512i& whole) const {
    const __m512d wide = _mm512_mul_pd(_mm512_maskz_cvtps_pd(0xff, values), scale);
    whole = _mm512_maskz_cvttpd_epi64(0xff, wide);
    return _mm512_cmp_pd_mask(_mm512_maskz_cvtepi64_pd(0xff, whole), wide, _CMP_NEQ_UQ);
  }
};

}  // namespace sow::detail
