// Loops of pairs with AVX-512: sixteen are taken apart at a time, and extremes of float32 are one
// instruction an update where no NaN is met. Full masks: the plain forms have warnings in
// g++ 12.
#include <immintrin.h>

#include <cmath>
#include <type_traits>

#include "core/isa.h"
#include "cpu/pair_loops.h"

namespace sow::detail {

namespace {

constexpr int kStep = 16;

SOW_TARGET_AVX512 void unpack(const uint64_t* pairs, int64_t count, uint32_t* cells, void* values,
                              int value_size, const void* soon) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    send_ahead(soon, i * 8);
    send_ahead(soon, i * 8 + 64);
    const __m512i one = _mm512_loadu_si512(pairs + i), two = _mm512_loadu_si512(pairs + i + 8);
    _mm512_storeu_si512(cells + i, _mm512_permutex2var_epi32(one, even, two));
    const __m512i value = _mm512_permutex2var_epi32(one, odd, two);
    if (value_size == 4) {
      _mm512_storeu_si512(static_cast<uint32_t*>(values) + i, value);
    } else {
      _mm512_mask_cvtepi32_storeu_epi16(static_cast<uint16_t*>(values) + i, 0xffff, value);
    }
  }
  unpack_pairs(pairs, i, count, cells, values, value_size);
}

// Eight values as float32, of the words below which their cells lie.
template <class T>
SOW_TARGET_AVX512 inline __m256i float_bits(__m512i words) {
  if constexpr (std::is_same_v<T, float16>) {
    return _mm256_castps_si256(
        _mm256_maskz_cvtph_ps(0xff, _mm512_maskz_cvtepi64_epi16(0xff, words)));
  }
  const __m256i bits = _mm512_maskz_cvtepi64_epi32(0xff, words);
  return std::is_same_v<T, bfloat16> ? _mm256_slli_epi32(bits, 16) : bits;
}

template <class T>
SOW_TARGET_AVX512 int64_t add_units(int64_t* cells, const uint64_t* pairs, int64_t count,
                                    Window& window, const void* soon) {
  constexpr int kLine = 8;
  const __m256i limit = _mm256_set1_epi32(static_cast<int>(window.limit)),
                magnitude = _mm256_set1_epi32(INT32_MAX), minus_zero = _mm256_set1_epi32(INT32_MIN);
  const __m512d scale = _mm512_set1_pd(std::ldexp(1.0, -window.exponent));
  alignas(64) int64_t whole[kLine];
  int64_t i = 0;
  for (; i + kLine <= count; i += kLine) {
    send_ahead(soon, i * 8);
    const __m512i pair = _mm512_loadu_si512(pairs + i);
    const __m256i bits = float_bits<T>(_mm512_maskz_srli_epi64(0xff, pair, 32));
    const __m512d wide =
        _mm512_mul_pd(_mm512_maskz_cvtps_pd(0xff, _mm256_castsi256_ps(bits)), scale);
    const __m512i units = _mm512_maskz_cvttpd_epi64(0xff, wide);
    const __mmask8 delicate =
        _mm256_cmpgt_epu32_mask(_mm256_and_si256(bits, magnitude), limit) |
        _mm512_cmp_pd_mask(_mm512_maskz_cvtepi64_pd(0xff, units), wide, _CMP_NEQ_UQ) |
        _mm256_cmpeq_epi32_mask(bits, minus_zero);
    if (__builtin_expect(delicate != 0, 0)) return i;
    _mm512_store_si512(whole, units);
#pragma GCC unroll 8
    for (int k = 0; k < kLine; ++k) cells[static_cast<uint32_t>(pairs[i + k])] += whole[k];
  }
  return i;
}

SOW_TARGET_AVX512 bool has_no_nan(const Block& block, int64_t places) {
  const float* from = reinterpret_cast<const float*>(block.first);
  __mmask16 nan = 0;
  int64_t i = 0;
  for (; i + kStep <= places; i += kStep) {
    const __m512 value = _mm512_loadu_ps(from + i);
    nan |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  }
  for (; i < places; ++i) nan |= from[i] != from[i];
  return nan == 0;
}

// An extreme of two numbers, with -0 below +0.
template <int Which>
SOW_TARGET_AVX512 bool keep_extremes(const Block& block, const uint64_t* pairs, int64_t count,
                                     const void* soon) {
  const __mmask16 values = 0xaaaa;
  __mmask16 nan = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512 pair = _mm512_loadu_ps(pairs + i);
    nan |= _mm512_mask_cmp_ps_mask(values, pair, pair, _CMP_UNORD_Q);
  }
  const auto* words = reinterpret_cast<const float*>(pairs);
  for (; i < count; ++i) nan |= words[2 * i + 1] != words[2 * i + 1];
  if (nan != 0) return false;
  float* to = reinterpret_cast<float*>(block.first);
  for_each_strip_of_pairs(block, count, soon, [=](int64_t first, int64_t last) SOW_TARGET_AVX512 {
    for (int64_t k = first; k < last; ++k) {
      float& place = to[static_cast<uint32_t>(pairs[k])];
      const __m128 value = _mm_load_ss(words + 2 * k + 1);
      place = _mm_cvtss_f32(_mm_range_ss(_mm_load_ss(&place), value, Which));
    }
  });
  return true;
}
constexpr int kLarger = 0b0101, kSmaller = 0b0100;

}  // namespace

extern const PairKernels k_pair_kernels_avx512;
const PairKernels k_pair_kernels_avx512 = {unpack, add_units<float>, add_units<float16>,
                                           add_units<bfloat16>};
extern const PairFold k_pair_amax_avx512, k_pair_amin_avx512;
const PairFold k_pair_amax_avx512 = {has_no_nan, keep_extremes<kLarger>};
const PairFold k_pair_amin_avx512 = {has_no_nan, keep_extremes<kSmaller>};

}  // namespace sow::detail
