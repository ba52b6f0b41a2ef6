// Folds of float64 rows with AVX-512: sums in two parts with a bound on what they lost, and
// extremes.
#include <immintrin.h>

#include <cstring>

#include "core/exact/exact_rows.h"
#include "cpu/rows/row_state.h"
#include "cpu/rows/row_tile.h"

namespace sow::detail {
namespace {

// Some columns of a tile, in pieces of a cache line that have their accumulators in registers
// together.
template <int Pieces>
struct Part {
  const RowTile& tile;
  int64_t at;  // bytes from the tile's first column
  __mmask8 in[Pieces];

  Part(const RowTile& rows, int first) : tile(rows), at(int64_t{8} * first) {
    for (int i = 0; i < Pieces; ++i) {
      const int left = std::clamp(rows.columns - first - 8 * i, 0, 8);
      in[i] = static_cast<__mmask8>((1 << left) - 1);
    }
  }
  SOW_TARGET_AVX512 SOW_INLINE __m512i read(const char* row, int i) const {
    return _mm512_maskz_loadu_epi64(in[i], row + at + 64 * i);
  }
  const char* row(int64_t k) const { return tile.src + tile.ids[k] * tile.src_step; }

  // What RowReader fetches, once for all parts.
  SOW_TARGET_AVX512 SOW_INLINE void prefetch_row(int64_t k) const {
    if (at != 0) return;
    const int64_t bytes = int64_t{8} * tile.columns;
    if (k < tile.far_count) prefetch_far(k);
    if (k + kMidRows < tile.known) {
      const char* mid = row(k + kMidRows);
      for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(mid + i, _MM_HINT_T1);
    }
    if (k + kNearRows >= tile.known) return;
    const char* near = row(k + kNearRows);
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(near + i, _MM_HINT_T0);
  }
  SOW_TARGET_AVX512 SOW_INLINE void prefetch_remaining() const {
    for (int64_t k = tile.count; at == 0 && k < tile.far_count; ++k) prefetch_far(k);
  }
  SOW_TARGET_AVX512 SOW_INLINE void prefetch_far(int64_t k) const {
    const char* far = tile.src + tile.far[k] * tile.src_step;
    const int64_t bytes = int64_t{8} * tile.columns;
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(far + i, _MM_HINT_T1);
    _mm_prefetch(far + bytes - 1, _MM_HINT_T1);
  }
};

struct Sum {
  __m512d high, low;
  __m512i most, least;  // magnitudes; of the least one less, so that zeros do not count

  SOW_TARGET_AVX512 SOW_INLINE void start(__m512i old, bool include_self) {
    const __m512i magnitude = _mm512_set1_epi64(INT64_MAX);
    const __m512i first = include_self ? old : _mm512_set1_epi64(INT64_MIN);  // -0 is nothing
    high = _mm512_castsi512_pd(first);
    low = _mm512_setzero_pd();
    most = _mm512_and_si512(first, magnitude);
    least = _mm512_sub_epi64(most, _mm512_set1_epi64(1));
  }
  SOW_TARGET_AVX512 SOW_INLINE void add(__m512i bits) {
    const __m512d term = _mm512_castsi512_pd(bits), total = _mm512_add_pd(high, term);
    const __m512d part = _mm512_sub_pd(total, high);
    const __m512d error =
        _mm512_add_pd(_mm512_sub_pd(high, _mm512_sub_pd(total, part)), _mm512_sub_pd(term, part));
    high = total;
    low = _mm512_add_pd(low, error);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi64(INT64_MAX));
    most = _mm512_max_epu64(most, magnitude);
    least = _mm512_min_epu64(least, _mm512_sub_epi64(magnitude, _mm512_set1_epi64(1)));
  }

  // With terms up to M no partial sum was beyond 2 * count * M, what the first part lost each time
  // beyond count * M / 2^52, and the second part beyond count^2 * M / 2^51: it is off by less than
  // count^3 * M / 2^104, and the ends of that range by less than count^2 * M / 2^103. Where ends
  // that lie further apart are rounded to the same bits, so is the real sum, and the mean. False
  // where they are not, or not finite.
  template <Reduce R>
  SOW_TARGET_AVX512 SOW_INLINE bool resolve(int64_t count, __mmask8 in, double* out) const {
    const double number = static_cast<double>(count);
    const __m512d scale = _mm512_set1_pd(number * number * number * 0x1p-101);
    const __m512d off = _mm512_mul_pd(_mm512_castsi512_pd(most), scale);
    // What the first part lost are whole numbers of the last digit of the least term: the second
    // part is exact while fewer than 2^53 of them are count^2 * M / 2^51.
    const int carries = 64 - static_cast<int>(_lzcnt_u64(static_cast<uint64_t>(count)));
    const __m512i apart =
        _mm512_sub_epi64(_mm512_srli_epi64(most, 52), _mm512_srli_epi64(least, 52));
    const __mmask8 inexact = _mm512_cmpgt_epi64_mask(apart, _mm512_set1_epi64(48 - 2 * carries));
    const __mmask8 more = _mm512_cmp_pd_mask(low, _mm512_setzero_pd(), _CMP_NEQ_UQ);
    const __m512d sum = _mm512_mask_add_pd(high, more, high, low);  // zeros keep their sign
    __m512d lower = _mm512_mask_add_pd(sum, inexact, high, _mm512_sub_pd(low, off));
    __m512d greatest = _mm512_mask_add_pd(sum, inexact, high, _mm512_add_pd(low, off));
    const __mmask8 infinite = _mm512_cmp_pd_mask(
        _mm512_abs_pd(greatest), _mm512_set1_pd(0x1.fffffffffffffp1023), _CMP_NLE_UQ);
    if constexpr (R == Reduce::mean) {
      lower = _mm512_div_pd(lower, _mm512_set1_pd(number));
      greatest = _mm512_div_pd(greatest, _mm512_set1_pd(number));
    }
    const __mmask8 differ =
        _mm512_cmpneq_epi64_mask(_mm512_castpd_si512(lower), _mm512_castpd_si512(greatest));
    _mm512_store_pd(out, lower);
    return ((infinite | differ) & in) == 0;
  }
};

// As the narrower types': three running extremes of the bits say everything, NaN included.
struct Extremes {
  __m512i highest, largest, smallest;

  SOW_TARGET_AVX512 SOW_INLINE void start(__m512i old, bool include_self) {
    highest = include_self ? old : _mm512_set1_epi64(INT64_MIN);
    largest = include_self ? old : _mm512_setzero_si512();
    smallest = include_self ? old : _mm512_set1_epi64(-1);
  }
  SOW_TARGET_AVX512 SOW_INLINE void add(__m512i bits) {
    highest = _mm512_max_epi64(highest, bits);
    largest = _mm512_max_epu64(largest, bits);
    smallest = _mm512_min_epu64(smallest, bits);
  }
  template <Reduce R>
  SOW_TARGET_AVX512 SOW_INLINE bool resolve(int64_t, __mmask8, double* out) const {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i infinity = _mm512_set1_epi64(0x7ff0000000000000);
    const __m512i negative = _mm512_or_si512(infinity, _mm512_set1_epi64(INT64_MIN));
    const __mmask8 wins = R == Reduce::amax ? _mm512_cmpge_epi64_mask(highest, zero)
                                            : _mm512_cmplt_epi64_mask(largest, zero);
    const __m512i best =
        _mm512_mask_mov_epi64(smallest, wins, R == Reduce::amax ? highest : largest);
    const auto nan = static_cast<__mmask8>(_mm512_cmpgt_epi64_mask(highest, infinity) |
                                           _mm512_cmpgt_epu64_mask(largest, negative));
    const __m512i quiet = _mm512_set1_epi64(0x7ff8000000000000);
    _mm512_store_si512(out, _mm512_mask_mov_epi64(best, nan, quiet));
    return true;
  }
};

// One chunk from 1, and then onto the old value.
struct Products {
  __m512d total, chunk;

  SOW_TARGET_AVX512 SOW_INLINE void start(__m512i old, bool include_self) {
    chunk = _mm512_set1_pd(1);
    total = include_self ? _mm512_castsi512_pd(old) : chunk;
  }
  SOW_TARGET_AVX512 SOW_INLINE void add(__m512i bits) {
    chunk = _mm512_mul_pd(chunk, _mm512_castsi512_pd(bits));
  }
  template <Reduce R>
  SOW_TARGET_AVX512 SOW_INLINE bool resolve(int64_t, __mmask8, double* out) const {
    const __m512d product = _mm512_mul_pd(total, chunk);
    const __mmask8 nan = _mm512_cmp_pd_mask(product, product, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_set1_epi64(0x7ff8000000000000);
    _mm512_store_si512(out, _mm512_mask_mov_epi64(_mm512_castpd_si512(product), nan, quiet));
    return true;
  }
};

// False: not certain. There is no piece without a column: masked loads of nothing made maxima of
// 500,000 rows of 16 take 7.1 ms in place of 3.8 (2 cores of a Zen 4 class EPYC, 2026-11-16).
template <class State, Reduce R, int Pieces>
SOW_TARGET_AVX512 bool fold_part(const RowTile& tile, int first, double* out) {
  const Part<Pieces> part(tile, first);
  State states[Pieces];
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) states[i].start(part.read(tile.dst, i), tile.include_self);
  for (int64_t k = 0; k < tile.count; ++k) {
    part.prefetch_row(k);
    const char* row = part.row(k);
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) states[i].add(part.read(row, i));
  }
  part.prefetch_remaining();
  bool certain = true;
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) {
    certain &= states[i].template resolve<R>(tile.count + tile.include_self, part.in[i],
                                             out + first + 8 * i);
  }
  return certain;
}

// Not of more items than a chunk of a product has.
static_assert(kSpreadItems <= kMulChunk);
template <class State, Reduce R>
bool fold(const RowTile& tile) {
  using FoldPart = bool (*)(const RowTile&, int, double*);
  static constexpr FoldPart kFolds[] = {fold_part<State, R, 1>, fold_part<State, R, 2>,
                                        fold_part<State, R, 3>, fold_part<State, R, 4>};
  if (tile.count > kSpreadItems || tile.sums != nullptr) return false;
  alignas(64) double out[kTileColumns];
  for (int first = 0; first < tile.columns; first += 32) {
    const int pieces = std::min((tile.columns - first + 7) / 8, 4);
    if (!kFolds[pieces - 1](tile, first, out)) return false;
  }
  std::memcpy(tile.dst, out, static_cast<size_t>(tile.columns) * sizeof(double));
  return true;
}

}  // namespace

FoldRowTile row_doubles_avx512(Reduce reduce) {
  switch (reduce) {
    case Reduce::add:
      return fold<Sum, Reduce::add>;
    case Reduce::mean:
      return fold<Sum, Reduce::mean>;
    case Reduce::mul:
      return fold<Products, Reduce::mul>;
    case Reduce::amax:
      return fold<Extremes, Reduce::amax>;
    case Reduce::amin:
      return fold<Extremes, Reduce::amin>;
    default:
      return nullptr;
  }
}

}  // namespace sow::detail
