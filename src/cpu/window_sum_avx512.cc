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

SOW_TARGET_AVX512 int64_t add(int64_t* cells, uint32_t* seen, const uint32_t* ids,
                              const char* values, int64_t count, Window window, WindowRests& rests,
                              const char* soon) {
  using Plain = WindowLoops<float, Reduce::add>;
  constexpr int kBatch = 64;
  if (soon == nullptr) soon = values;  // a line that is here costs nothing, none at all a walk
  alignas(64) int64_t units[kBatch];
  const float* from = reinterpret_cast<const float*>(values);
  const __m512d scale = _mm512_set1_pd(std::ldexp(1.0, -window.exponent));
  int64_t i = 0;
  for (; i + kBatch <= count; i += kBatch) {
    uint32_t inexact = 0;
    for (int j = 0; j < kBatch; j += 8) {
      const __m512d wide =
          _mm512_mul_pd(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(from + i + j)), scale);
      const __m512i whole = _mm512_maskz_cvttpd_epi64(0xff, wide);
      inexact |= _mm512_cmp_pd_mask(_mm512_maskz_cvtepi64_pd(0xff, whole), wide, _CMP_NEQ_OQ);
      _mm512_store_si512(units + j, whole);
    }
    if (inexact != 0) {
      const int64_t added =
          Plain::add(cells, seen, ids + i, reinterpret_cast<const char*>(from + i), kBatch, window,
                     rests, nullptr);
      if (added < kBatch) return i + added;
    } else if (seen == nullptr) {
      for (int j = 0; j < kBatch; j += 8) {
        send_for(soon, (i + j) * 8);
        for (int k = j; k < j + 8; ++k) cells[ids[i + k]] += units[k];
      }
    } else {
      for (int j = 0; j < kBatch; ++j) {
        cells[ids[i + j]] += units[j];
        ++seen[ids[i + j]];
      }
    }
  }
  return i + Plain::add(cells, seen, ids + i, reinterpret_cast<const char*>(from + i), count - i,
                        window, rests, nullptr);
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
  if (!kernels.counts) kernels.finish = finish;
}

}  // namespace sow::detail
