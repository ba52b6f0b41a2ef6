// Gradients of extremes with AVX-512: an update has the whole gradient of the columns it attains.
#include "cpu/backward/extreme_grad.h"
#include "cpu/rows/row_reader_avx512.h"

namespace sow::detail {

namespace {

template <Rows How>
SOW_TARGET_AVX512 bool extreme_grad(const ExtremeGrad& work) {
  constexpr int kPieces = 4;
  const RowReader<float, kPieces, How> reader(work.rows);
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), infinity = _mm512_set1_epi32(0x7f800000);
  const __m512i one = _mm512_set1_epi32(1);
  __m512i best[kPieces], part[kPieces], ties[kPieces], pieces[kPieces];
  __mmask16 inconclusive = 0;
#pragma GCC unroll 4
  for (int i = 0; i < kPieces; ++i) {
    best[i] = _mm512_loadu_si512(work.result + 64 * i);
    part[i] = _mm512_loadu_si512(work.grad + 64 * i);
    ties[i] = _mm512_setzero_si512();
    // Values that are not numbers tie whatever their bits.
    inconclusive |= _mm512_cmpgt_epi32_mask(_mm512_and_si512(best[i], magnitude), infinity);
    const __mmask16 nan = _mm512_cmpgt_epi32_mask(_mm512_and_si512(part[i], magnitude), infinity);
    part[i] = _mm512_mask_mov_epi32(part[i], nan, _mm512_set1_epi32(0x7fc00000));
  }
  if (inconclusive != 0) return false;
  if (work.x != nullptr) {
#pragma GCC unroll 4
    for (int i = 0; i < kPieces; ++i) {
      const __mmask16 wins = _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(work.x + 64 * i), best[i]);
      ties[i] = _mm512_maskz_mov_epi32(wins, one);
    }
  }
  if (work.x_grad != nullptr) {
#pragma GCC unroll 4
    for (int i = 0; i < kPieces; ++i) {
      const __mmask16 wins = _mm512_cmpeq_epi32_mask(ties[i], one);
      _mm512_storeu_si512(work.x_grad + 64 * i, _mm512_maskz_mov_epi32(wins, part[i]));
    }
  }
  for (int64_t k = 0; k < work.rows.count; ++k) {
    reader.prefetch_row(k);
    reader.read(k, pieces);
    char* const to = work.source_grad + work.rows.ids[k] * work.rows.src_step;
#pragma GCC unroll 4
    for (int i = 0; i < kPieces; ++i) {
      const __mmask16 wins = _mm512_cmpeq_epi32_mask(pieces[i], best[i]);
      ties[i] = _mm512_mask_add_epi32(ties[i], wins, ties[i], one);
      pieces[i] = _mm512_maskz_mov_epi32(wins, part[i]);
    }
    if (work.streams) {
#pragma GCC unroll 4
      for (int i = 0; i < kPieces; ++i)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + 64 * i), pieces[i]);
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < kPieces; ++i) _mm512_storeu_si512(to + 64 * i, pieces[i]);
    }
  }
  reader.prefetch_remaining();
#pragma GCC unroll 4
  for (int i = 0; i < kPieces; ++i) inconclusive |= _mm512_cmpneq_epi32_mask(ties[i], one);
  return inconclusive == 0;
}

}  // namespace

ExtremeGradKernel extreme_grad_avx512(DType dtype, int shift) {
  if (dtype != DType::float32) return nullptr;
  return shift != 0 ? extreme_grad<Rows::shifted> : extreme_grad<Rows::whole>;
}

}  // namespace sow::detail
