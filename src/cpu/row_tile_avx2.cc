// Row sums with AVX2, proved exact as those with AVX-512 are: 16 columns at a time in registers.
// Products and extremes are left to plain loops, which compilers make as quick.
#include <immintrin.h>

#include <cstring>

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
  // Where the exponents are further apart than float64 has room for.
  SOW_TARGET_AVX2 SOW_INLINE __m256i doubt(int room) const {
    const __m256i apart =
        _mm256_sub_epi32(_mm256_srli_epi32(most, 23), _mm256_srli_epi32(least, 23));
    return _mm256_cmpgt_epi32(apart, _mm256_set1_epi32(room));
  }
  SOW_TARGET_AVX2 SOW_INLINE __m256i infinite() const {
    return _mm256_cmpgt_epi32(most, _mm256_set1_epi32(0x7f7fffff));
  }
};

// What is known of the columns of a tile.
struct Columns {
  alignas(32) double sums[kTileColumns];
  alignas(
      32) float off[kTileColumns];  // the largest magnitude where a sum may not be exact, else 0
  __m256i doubt, infinite;
};

// The sums of some columns from `first` on.
SOW_TARGET_AVX2 SOW_INLINE void fold_columns(const RowTile& tile, int first, int room,
                                             Columns& out) {
  const int64_t at = 4 * first;
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
  for (int i = 0; i < 4; ++i) _mm256_store_pd(out.sums + first + 4 * i, sum[i]);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m256i doubt = spread[i].doubt(room);
    out.doubt = _mm256_or_si256(out.doubt, doubt);
    out.infinite = _mm256_or_si256(out.infinite, spread[i].infinite());
    _mm256_store_ps(out.off + first + 8 * i,
                    _mm256_castsi256_ps(_mm256_and_si256(doubt, spread[i].most)));
  }
}

template <Reduce R>
SOW_TARGET_AVX2 SOW_INLINE __m128 rounded(__m256d sum, __m256d count) {
  return _mm256_cvtpd_ps(R == Reduce::mean ? _mm256_div_pd(sum, count) : sum);
}

// As with AVX-512: both ends of the range that a sum must lie in are rounded to the same bits.
template <Reduce R>
SOW_TARGET_AVX2 bool store_certain(float* to, const Columns& found, int64_t count) {
  const double number = static_cast<double>(count);
  const __m256d scale = _mm256_set1_pd(number * number * 0x1p-50), all = _mm256_set1_pd(number);
  alignas(32) float out[kTileColumns];
  __m128i differ = _mm_setzero_si128();
  for (int c = 0; c < kTileColumns; c += 4) {
    const __m256d sum = _mm256_load_pd(found.sums + c);
    const __m256d off = _mm256_mul_pd(_mm256_cvtps_pd(_mm_load_ps(found.off + c)), scale);
    const __m256d exact = _mm256_cmp_pd(off, _mm256_setzero_pd(), _CMP_EQ_OQ);
    const __m256d least = _mm256_blendv_pd(_mm256_sub_pd(sum, off), sum, exact);
    const __m256d greatest = _mm256_blendv_pd(_mm256_add_pd(sum, off), sum, exact);
    const __m128 low = rounded<R>(least, all), high = rounded<R>(greatest, all);
    differ = _mm_or_si128(differ, _mm_xor_si128(_mm_castps_si128(low), _mm_castps_si128(high)));
    _mm_store_ps(out + c, low);
  }
  if (!_mm_testz_si128(differ, differ)) return false;
  for (int c = 0; c < kTileColumns; c += 8) _mm256_storeu_ps(to + c, _mm256_load_ps(out + c));
  return true;
}

template <Reduce R>
SOW_TARGET_AVX2 bool fold_sum(const RowTile& tile) {
  if (tile.count > kSpreadItems) return false;
  const int64_t count = tile.count + tile.include_self;
  const int carries = 64 - static_cast<int>(_lzcnt_u64(static_cast<uint64_t>(count - 1)));
  Columns found;
  found.doubt = found.infinite = _mm256_setzero_si256();
  for (int c = 0; c < kTileColumns; c += kColumns) {
    fold_columns(tile, c, 53 - 24 - carries, found);
    if (!_mm256_testz_si256(found.infinite, found.infinite)) return false;
  }
  const bool exact = _mm256_testz_si256(found.doubt, found.doubt) != 0;
  if (tile.sums != nullptr) {
    if (exact) std::memcpy(tile.sums, found.sums, sizeof(found.sums));
    return exact;
  }
  float* const to = reinterpret_cast<float*>(tile.dst);
  if (!exact) return store_certain<R>(to, found, count);
  const __m256d number = _mm256_set1_pd(static_cast<double>(count));
  for (int c = 0; c < kTileColumns; c += 4)
    _mm_storeu_ps(to + c, rounded<R>(_mm256_load_pd(found.sums + c), number));
  return true;
}

}  // namespace

FoldRowTile row_tile_avx2(DType dtype, Reduce reduce, int columns) {
  if (dtype != DType::float32 || columns != kTileColumns) return nullptr;
  if (reduce == Reduce::add) return fold_sum<Reduce::add>;
  return reduce == Reduce::mean ? fold_sum<Reduce::mean> : nullptr;
}

}  // namespace sow::detail
