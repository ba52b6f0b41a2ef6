// Row sums with AVX2, proved exact as those with AVX-512 are: 16 columns at a time in registers.
// Products and extremes are left to plain loops, which compilers make as quick.
#include <immintrin.h>

#include "core/exact_rows.h"
#include "cpu/row_tile.h"

namespace sow::detail {

namespace {

constexpr int kColumns = 16;  // of 16 registers four have sums, and four the extremes of exponents

SOW_TARGET_AVX2 SOW_INLINE void fetch(const RowTile& tile, int64_t k) {
  if (k < tile.far_count) {
    const char* row = tile.src + tile.far[k] * tile.src_step;
    for (int i = 0; i < 4; ++i) _mm_prefetch(row + 64 * i, _MM_HINT_T1);
    _mm_prefetch(row + 4 * kTileColumns - 1, _MM_HINT_T1);
  }
  if (k + kMidRows < tile.known) {
    const char* row = tile.src + tile.codes[k + kMidRows] * tile.src_step;
    for (int i = 0; i < 4; ++i) _mm_prefetch(row + 64 * i, _MM_HINT_T1);
  }
  if (k + kNearRows >= tile.known) return;
  const char* row = tile.src + tile.codes[k + kNearRows] * tile.src_step;
  for (int i = 0; i < 4; ++i) _mm_prefetch(row + 64 * i, _MM_HINT_T0);
}

struct Spread {
  __m256i most, least;  // bits of magnitudes; of the least one less, so that zeros do not count

  SOW_TARGET_AVX2 SOW_INLINE void add(__m256i bits) {
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    most = _mm256_max_epu32(most, magnitude);
    least = _mm256_min_epu32(least, _mm256_sub_epi32(magnitude, _mm256_set1_epi32(1)));
  }
  // Where the exponents are further apart than float64 has room for, or something is not finite.
  SOW_TARGET_AVX2 SOW_INLINE __m256i doubt(int room) const {
    const __m256i apart =
        _mm256_sub_epi32(_mm256_srli_epi32(most, 23), _mm256_srli_epi32(least, 23));
    return _mm256_or_si256(_mm256_cmpgt_epi32(apart, _mm256_set1_epi32(room)),
                           _mm256_cmpgt_epi32(most, _mm256_set1_epi32(0x7f7fffff)));
  }
};

// The sums of some columns from byte `at` of the rows on; what may not be exact is not zero.
SOW_TARGET_AVX2 SOW_INLINE __m256i fold_columns(const RowTile& tile, int64_t at, int room,
                                                double* out) {
  const __m256i nothing = _mm256_set1_epi32(INT32_MIN);  // -0
  __m256d sum[4];
  Spread spread[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    __m256i old = nothing;
    if (tile.include_self)
      old = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tile.dst + at) + i);
    spread[i] = {_mm256_setzero_si256(), _mm256_set1_epi32(-1)};
    spread[i].add(old);
    const __m256 values = _mm256_castsi256_ps(old);
    sum[2 * i] = _mm256_cvtps_pd(_mm256_castps256_ps128(values));
    sum[2 * i + 1] = _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1));
  }
  for (int64_t k = 0; k < tile.count; ++k) {
    if (at == 0) fetch(tile, k);
    const char* row = tile.src + tile.codes[k] * tile.src_step + at;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      spread[i].add(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row) + i));
      const float* values = reinterpret_cast<const float*>(row) + 8 * i;
      sum[2 * i] = _mm256_add_pd(sum[2 * i], _mm256_cvtps_pd(_mm_loadu_ps(values)));
      sum[2 * i + 1] = _mm256_add_pd(sum[2 * i + 1], _mm256_cvtps_pd(_mm_loadu_ps(values + 4)));
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) _mm256_storeu_pd(out + 4 * i, sum[i]);
  return _mm256_or_si256(spread[0].doubt(room), spread[1].doubt(room));
}

template <Reduce R>
SOW_TARGET_AVX2 bool fold_sum(const RowTile& tile) {
  if (tile.count > kSpreadItems) return false;
  const int64_t count = tile.count + tile.include_self;
  const int carries = 64 - static_cast<int>(_lzcnt_u64(static_cast<uint64_t>(count - 1)));
  alignas(32) double local[kTileColumns];
  double* const sums = tile.sums != nullptr ? tile.sums : local;
  for (int c = 0; c < kTileColumns; c += kColumns) {
    const __m256i doubt = fold_columns(tile, 4 * c, 53 - 24 - carries, sums + c);
    if (!_mm256_testz_si256(doubt, doubt)) return false;
  }
  if (tile.sums != nullptr) return true;
  float* const to = reinterpret_cast<float*>(tile.dst);
  const __m256d number = _mm256_set1_pd(static_cast<double>(count));
  for (int c = 0; c < kTileColumns; c += 4) {
    __m256d sum = _mm256_load_pd(sums + c);
    if (R == Reduce::mean) sum = _mm256_div_pd(sum, number);
    _mm_storeu_ps(to + c, _mm256_cvtpd_ps(sum));
  }
  return true;
}

}  // namespace

FoldRowTile row_tile_avx2(DType dtype, Reduce reduce, int columns) {
  if (dtype != DType::float32 || columns != kTileColumns) return nullptr;
  if (reduce == Reduce::add) return fold_sum<Reduce::add>;
  return reduce == Reduce::mean ? fold_sum<Reduce::mean> : nullptr;
}

}  // namespace sow::detail
