// Sums of float32 rows whose exponents lie too far apart for one float64: every term is cut at one
// place, and what is above and below it adds up exactly in two.
#include <immintrin.h>

#include "core/exact_rows.h"
#include "cpu/row_reader_avx512.h"

namespace sow::detail {
namespace {

// The sum of both parts with an odd last digit if it isn't all of it, so that rounding it once more
// is right.
SOW_TARGET_AVX512 SOW_INLINE __m512d to_odd(__m512d total, __m512d error) {
  const __m512d zero = _mm512_setzero_pd();
  const __m512i bits = _mm512_castpd_si512(total), one = _mm512_set1_epi64(1);
  const auto moves = static_cast<__mmask8>(_mm512_cmp_pd_mask(error, zero, _CMP_NEQ_OQ) &
                                           _mm512_testn_epi64_mask(bits, one));
  const auto inward = static_cast<__mmask8>(_mm512_cmp_pd_mask(error, zero, _CMP_GT_OQ) ^
                                            _mm512_cmp_pd_mask(total, zero, _CMP_GT_OQ));
  const auto outward = static_cast<__mmask8>(~inward);
  __m512i odd = _mm512_mask_add_epi64(bits, moves & outward, bits, one);
  odd = _mm512_mask_sub_epi64(odd, moves & inward, bits, one);
  return _mm512_castsi512_pd(odd);
}

struct Parts {
  __m512d high, low;
  SOW_TARGET_AVX512 SOW_INLINE void add(__m256 terms, __m512d cut) {
    const __m512d term = _mm512_cvtps_pd(terms);
    const __m512d above = _mm512_sub_pd(_mm512_add_pd(term, cut), cut);
    high = _mm512_add_pd(high, above);
    low = _mm512_add_pd(low, _mm512_sub_pd(term, above));
  }
  template <Reduce R>
  SOW_TARGET_AVX512 SOW_INLINE __m256i rounded(int64_t count) const {
    const __m512d total = _mm512_add_pd(high, low), part = _mm512_sub_pd(total, high);
    if constexpr (R == Reduce::mean) {
      const __m512d number = _mm512_set1_pd(static_cast<double>(count));
      return _mm256_castps_si256(_mm512_cvtpd_ps(_mm512_div_pd(total, number)));
    }
    const __m512d error =
        _mm512_add_pd(_mm512_sub_pd(high, _mm512_sub_pd(total, part)), _mm512_sub_pd(low, part));
    return _mm256_castps_si256(_mm512_cvtpd_ps(to_odd(total, error)));
  }
};

// Magnitudes of each column: the largest, and the smallest but zero, less one.
template <int Pieces>
struct Spread {
  __m512i most[Pieces], least[Pieces];

  SOW_TARGET_AVX512 SOW_INLINE void start() {
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) {
      most[i] = _mm512_setzero_si512();
      least[i] = _mm512_set1_epi32(-1);
    }
  }
  SOW_TARGET_AVX512 SOW_INLINE void look_at(const __m512i* pieces) {
    const __m512i magnitude = _mm512_set1_epi32(INT32_MAX), one = _mm512_set1_epi32(1);
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) {
      const __m512i bits = _mm512_and_si512(pieces[i], magnitude);
      most[i] = _mm512_max_epu32(most[i], bits);
      least[i] = _mm512_min_epu32(least[i], _mm512_sub_epi32(bits, one));
    }
  }
};

// With 2^carries terms at least, of exponents up to `top` (biased, as of a normal number): parts
// above the cut are multiples of 2^(top + carries - 51), fewer than 2^53 of them in all; parts
// below are less than half of that each, and multiples of the last digit of the smallest term.
template <Reduce R, int Pieces, Rows How>
SOW_TARGET_AVX512 bool fold_split(const RowTile& tile) {
  if (tile.count > kSpreadItems || tile.sums != nullptr) return false;
  const RowReader<float, Pieces, How> reader(tile);
  __m512i pieces[Pieces];
  Spread<Pieces> spread;
  spread.start();
  reader.read_old(pieces);
  if (tile.include_self) spread.look_at(pieces);
  for (int64_t k = 0; k < tile.count; ++k) {
    reader.fetch(k);
    reader.read(k, pieces);
    spread.look_at(pieces);
  }
  reader.fetch_rest();
  const int64_t count = tile.count + tile.include_self;
  const int carries =
      std::max(64 - static_cast<int>(_lzcnt_u64(static_cast<uint64_t>(count - 1))), 2);
  uint32_t most = 0;
  __mmask16 doubt = 0;
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) {
    most = std::max(most, static_cast<uint32_t>(_mm512_reduce_max_epu32(spread.most[i])));
    // Zeros alone have a sign to keep.
    doubt |= _mm512_mask_testn_epi32_mask(reader.lanes(i), spread.most[i], spread.most[i]);
  }
  if (doubt != 0 || most >= 0x7f800000u) return false;
  const int top = std::max(static_cast<int>(most >> 23), 1);
  const int unit = top + carries - 51;  // of the parts above, biased as float32
  const __m512i lowest = _mm512_set1_epi32(std::max(unit + carries - 31, 0));
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i)
    doubt |= _mm512_mask_cmplt_epu32_mask(reader.lanes(i), _mm512_srli_epi32(spread.least[i], 23),
                                          lowest);
  if (doubt != 0) return false;
  // 1.5 times 2^52 units.
  const auto bits = static_cast<int64_t>(unit - 127 + 52 + 1023) << 52 | int64_t{1} << 51;
  const __m512d cut = _mm512_castsi512_pd(_mm512_set1_epi64(bits));
  Parts parts[2 * Pieces];
#pragma GCC unroll 8
  for (int i = 0; i < 2 * Pieces; ++i) parts[i] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
  const auto add = [&](const __m512i* row) SOW_TARGET_AVX512 {
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) {
      const __m512 terms = _mm512_castsi512_ps(row[i]);
      parts[2 * i].add(_mm512_castps512_ps256(terms), cut);
      parts[2 * i + 1].add(_mm512_extractf32x8_ps(terms, 1), cut);
    }
  };
  if (tile.include_self) {
    reader.read_old(pieces);
    add(pieces);
  }
  for (int64_t k = 0; k < tile.count; ++k) {
    reader.read(k, pieces);
    add(pieces);
  }
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) {
    const __m512i low = _mm512_castsi256_si512(parts[2 * i].template rounded<R>(count));
    const __m512i both = _mm512_inserti64x4(low, parts[2 * i + 1].template rounded<R>(count), 1);
    store_lanes(tile.dst + 64 * i, reader.lanes(i), both);
  }
  return true;
}

template <Reduce R>
FoldRowTile kernel_for(int columns, int shift) {
  if (columns == kTileColumns)
    return shift != 0 ? fold_split<R, 4, Rows::shifted> : fold_split<R, 4, Rows::whole>;
  switch ((columns + 15) / 16) {
    case 1:
      return fold_split<R, 1, Rows::part>;
    case 2:
      return fold_split<R, 2, Rows::part>;
    case 3:
      return fold_split<R, 3, Rows::part>;
    default:
      return fold_split<R, 4, Rows::part>;
  }
}

}  // namespace

FoldRowTile row_split_avx512(Reduce reduce, int columns, int shift) {
  if (reduce == Reduce::add) return kernel_for<Reduce::add>(columns, shift);
  return kernel_for<Reduce::mean>(columns, shift);
}

}  // namespace sow::detail
