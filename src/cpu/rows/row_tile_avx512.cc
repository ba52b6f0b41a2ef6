// Row folds with AVX-512: every accumulator in a register, the last vector under a mask.
#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "core/exact/exact_rows.h"
#include "cpu/rows/row_reader_avx512.h"
#include "sow/half.h"

namespace sow::detail {
namespace {

template <class T>
constexpr int kMantissa = 24;
template <>
constexpr int kMantissa<bfloat16> = 8;
template <>
constexpr int kMantissa<float16> = 11;

struct Wide {
  __m512d low, high;
};
SOW_TARGET_AVX512 SOW_INLINE Wide widened(__m512 values) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(values)),
          _mm512_cvtps_pd(_mm512_extractf32x8_ps(values, 1))};
}

// A piece in vectors of 16 float32, exactly.
template <class T>
constexpr int kVectors = sizeof(T) == 4 ? 1 : 2;
SOW_TARGET_AVX512 SOW_INLINE void to_floats(__m512i piece, const float*, __m512* out) {
  out[0] = _mm512_castsi512_ps(piece);
}
SOW_TARGET_AVX512 SOW_INLINE void to_floats(__m512i piece, const bfloat16*, __m512* out) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(piece));
  const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(piece, 1));
  out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(low, 16));
  out[1] = _mm512_castsi512_ps(_mm512_slli_epi32(high, 16));
}
SOW_TARGET_AVX512 SOW_INLINE void to_floats(__m512i piece, const float16*, __m512* out) {
  out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(piece));
  out[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(piece, 1));
}

// float64 to float32 by round-to-odd, so that another rounding to fewer bits is right.
SOW_TARGET_AVX512 SOW_INLINE __m256i odd_bits(__m512d value) {
  const __m256 cut = _mm512_cvt_roundpd_ps(value, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  const __mmask8 inexact = _mm512_cmp_pd_mask(_mm512_cvtps_pd(cut), value, _CMP_NEQ_UQ);
  const __m256i bits = _mm256_castps_si256(cut);
  return _mm256_mask_or_epi32(bits, inexact, bits, _mm256_set1_epi32(1));
}
SOW_TARGET_AVX512 SOW_INLINE __m512i odd_bits(const Wide& values) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(odd_bits(values.low)), odd_bits(values.high), 1);
}
SOW_TARGET_AVX512 SOW_INLINE __mmask16 nans(const Wide& values) {
  const __mmask8 low = _mm512_cmp_pd_mask(values.low, values.low, _CMP_UNORD_Q);
  const __mmask8 high = _mm512_cmp_pd_mask(values.high, values.high, _CMP_UNORD_Q);
  return static_cast<__mmask16>(low | high << 8);
}

// Rounds once, and gives every NaN the bits of the contract.
SOW_TARGET_AVX512 SOW_INLINE __m512i rounded(const Wide& values, const float*) {
  const __m512d low = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(values.low)));
  const __m512 both =
      _mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_castps_pd(_mm512_cvtpd_ps(values.high)), 1));
  const __m512i quiet = _mm512_set1_epi32(0x7fc00000);
  return _mm512_mask_mov_epi32(_mm512_castps_si512(both), nans(values), quiet);
}
SOW_TARGET_AVX512 SOW_INLINE __m256i rounded(const Wide& values, const bfloat16*) {
  const __m512i bits = odd_bits(values);
  const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
  const __m256i nearest = _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
  return _mm256_mask_mov_epi16(nearest, nans(values), _mm256_set1_epi16(0x7fc0));
}
SOW_TARGET_AVX512 SOW_INLINE __m256i rounded(const Wide& values, const float16*) {
  const __m512 odd = _mm512_castsi512_ps(odd_bits(values));
  const __m256i nearest = _mm512_cvtps_ph(odd, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm256_mask_mov_epi16(nearest, nans(values), _mm256_set1_epi16(0x7e00));
}
SOW_TARGET_AVX512 SOW_INLINE void put(void* to, __mmask16 in, __m512i bits) {
  _mm512_mask_storeu_epi32(to, in, bits);
}
SOW_TARGET_AVX512 SOW_INLINE void put(void* to, __mmask16 in, __m256i bits) {
  _mm256_mask_storeu_epi16(to, in, bits);
}
SOW_TARGET_AVX512 SOW_INLINE __mmask16 differ(__m512i a, __m512i b) {
  return _mm512_cmpneq_epi32_mask(a, b);
}
SOW_TARGET_AVX512 SOW_INLINE __mmask16 differ(__m256i a, __m256i b) {
  return _mm256_cmpneq_epi16_mask(a, b);
}
template <class T>
SOW_TARGET_AVX512 SOW_INLINE void store(T* to, __mmask16 in, const Wide& values) {
  put(to, in, rounded(values, to));
}

// Bits of floats as integers of 4 or 2 bytes.
template <int Bytes>
struct KeysOf {
  using Mask = std::conditional_t<Bytes == 4, __mmask16, __mmask32>;
  SOW_TARGET_AVX512 SOW_INLINE static __m512i same(int64_t bits) {
    if constexpr (Bytes == 4)
      return _mm512_set1_epi32(static_cast<int>(bits));
    else
      return _mm512_set1_epi16(static_cast<short>(bits));
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i minus(__m512i a, __m512i b) {
    if constexpr (Bytes == 4)
      return _mm512_sub_epi32(a, b);
    else
      return _mm512_sub_epi16(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i shifted(__m512i a, unsigned bits) {
    if constexpr (Bytes == 4)
      return _mm512_srli_epi32(a, bits);
    else
      return _mm512_srli_epi16(a, bits);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i highest(__m512i a, __m512i b) {
    if constexpr (Bytes == 4)
      return _mm512_max_epi32(a, b);
    else
      return _mm512_max_epi16(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i largest(__m512i a, __m512i b) {
    if constexpr (Bytes == 4)
      return _mm512_max_epu32(a, b);
    else
      return _mm512_max_epu16(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i smallest(__m512i a, __m512i b) {
    if constexpr (Bytes == 4)
      return _mm512_min_epu32(a, b);
    else
      return _mm512_min_epu16(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static Mask above(__m512i a, __m512i b) {
    if constexpr (Bytes == 4)
      return _mm512_cmpgt_epi32_mask(a, b);
    else
      return _mm512_cmpgt_epi16_mask(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static Mask larger(__m512i a, __m512i b) {
    if constexpr (Bytes == 4)
      return _mm512_cmpgt_epu32_mask(a, b);
    else
      return _mm512_cmpgt_epu16_mask(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i chosen(__m512i no, Mask m, __m512i yes) {
    if constexpr (Bytes == 4)
      return _mm512_mask_mov_epi32(no, m, yes);
    else
      return _mm512_mask_mov_epi16(no, m, yes);
  }
};

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Keys = KeysOf<4>;
  static constexpr int64_t kInfinity = 0x7f800000, kQuietNan = 0x7fc00000, kSign = 0x80000000;
};
template <>
struct FloatBits<bfloat16> {
  using Keys = KeysOf<2>;
  static constexpr int64_t kInfinity = 0x7f80, kQuietNan = 0x7fc0, kSign = 0x8000;
};
template <>
struct FloatBits<float16> {
  using Keys = KeysOf<2>;
  static constexpr int64_t kInfinity = 0x7c00, kQuietNan = 0x7e00, kSign = 0x8000;
};

// Sums of which some may not be exact.
template <int Terms>
struct Unproved {
  Wide sum[Terms];
  __m512 most[Terms];  // magnitudes
  __mmask16 inconclusive[Terms], in[Terms];
};

// A sum of `count` terms no larger than M was rounded to 53 bits at most so often, and no partial
// sum was beyond 2 * count * M: it is off by less than count^2 * M / 2^52, and the ends of that
// range by less than count * M / 2^51. Where ends that lie twice as far apart as all that are
// rounded to the same bits, so is the real sum, and the mean.
template <class T, Reduce R, int Terms>
SOW_TARGET_AVX512 __attribute__((noinline)) bool store_certain(T* to, const Unproved<Terms>& found,
                                                               int64_t count) {
  const double number = static_cast<double>(count);
  const __m512d scale = _mm512_set1_pd(number * number * 0x1p-50);
  const __m512d divisor = _mm512_set1_pd(number);
  decltype(rounded(Wide{}, to)) bits[Terms];
  for (int i = 0; i < Terms; ++i) {
    const Wide most = widened(found.most[i]), sum = found.sum[i];
    const auto low = static_cast<__mmask8>(found.inconclusive[i]);
    const auto high = static_cast<__mmask8>(found.inconclusive[i] >> 8);
    const Wide off{_mm512_mul_pd(most.low, scale), _mm512_mul_pd(most.high, scale)};
    Wide least{_mm512_mask_sub_pd(sum.low, low, sum.low, off.low),
               _mm512_mask_sub_pd(sum.high, high, sum.high, off.high)};
    Wide greatest{_mm512_mask_add_pd(sum.low, low, sum.low, off.low),
                  _mm512_mask_add_pd(sum.high, high, sum.high, off.high)};
    if constexpr (R == Reduce::mean) {
      least = {_mm512_div_pd(least.low, divisor), _mm512_div_pd(least.high, divisor)};
      greatest = {_mm512_div_pd(greatest.low, divisor), _mm512_div_pd(greatest.high, divisor)};
    }
    bits[i] = rounded(least, to);
    if ((differ(bits[i], rounded(greatest, to)) & found.in[i]) != 0) return false;
  }
  for (int i = 0; i < Terms; ++i) put(to + 16 * i, found.in[i], bits[i]);
  return true;
}

// Terms below 2^(most + 1) that are whole multiples of 2^(least - mantissa + 1) add up exactly in
// float64 while the sum has no more than 53 bits between the two.
template <class T, Reduce R, int Pieces, Rows How>
SOW_TARGET_AVX512 bool fold_sum(const RowTile& tile) {
  constexpr int kTerms = Pieces * kVectors<T>;
  if (tile.count > kSpreadItems) return false;
  const RowReader<T, Pieces, How> reader(tile);
  using Bits = FloatBits<T>;
  using K = typename Bits::Keys;
  const __m512i magnitude = K::same(Bits::kSign - 1), one = K::same(1);
  Wide sum[kTerms];
  __m512i most[Pieces], least[Pieces], pieces[Pieces];
  __m512 terms[kTerms];
  T* const to = reinterpret_cast<T*>(tile.dst);
  reader.read_old(pieces);
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) {
    pieces[i] = tile.include_self ? pieces[i] : K::same(Bits::kSign);  // -0 is nothing
    to_floats(pieces[i], to, terms + i * kVectors<T>);
    most[i] = _mm512_and_si512(pieces[i], magnitude);
    least[i] = K::minus(most[i], one);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTerms; ++i) sum[i] = widened(terms[i]);
  for (int64_t k = 0; k < tile.count; ++k) {
    reader.prefetch_row(k);
    reader.read(k, pieces);
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) {
      to_floats(pieces[i], to, terms + i * kVectors<T>);
      const __m512i bits = _mm512_and_si512(pieces[i], magnitude);
      most[i] = K::largest(most[i], bits);
      least[i] = K::smallest(least[i], K::minus(bits, one));  // no zeros
    }
#pragma GCC unroll 4
    for (int i = 0; i < kTerms; ++i) {
      const Wide wide = widened(terms[i]);
      sum[i].low = _mm512_add_pd(sum[i].low, wide.low);
      sum[i].high = _mm512_add_pd(sum[i].high, wide.high);
    }
  }
  reader.prefetch_remaining();
  const int64_t count = tile.count + tile.include_self;
  const int carries = 64 - static_cast<int>(_lzcnt_u64(static_cast<uint64_t>(count - 1)));
  const __m512i room = K::same(53 - kMantissa<T> - carries);
  typename K::Mask inconclusive[Pieces], any = 0, infinite = 0;
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) {
    constexpr unsigned kShift = kMantissa<T> - 1;
    inconclusive[i] =
        K::above(K::minus(K::shifted(most[i], kShift), K::shifted(least[i], kShift)), room);
    any |= inconclusive[i];
    infinite |= K::above(most[i], K::same(Bits::kInfinity - 1));
  }
  if (infinite != 0) return false;
  if (any != 0) {
    if (tile.sums != nullptr) return false;
    Unproved<kTerms> found;
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) to_floats(most[i], to, found.most + i * kVectors<T>);
#pragma GCC unroll 4
    for (int i = 0; i < kTerms; ++i) {
      const int piece = i / kVectors<T>, shift = i % kVectors<T> * 16;
      found.sum[i] = sum[i];
      found.inconclusive[i] = static_cast<__mmask16>(inconclusive[piece] >> shift);
      found.in[i] = static_cast<__mmask16>(reader.lanes(piece) >> shift);
    }
    return store_certain<T, R>(to, found, count);
  }
  if (tile.sums != nullptr) {
#pragma GCC unroll 4
    for (int i = 0; i < kTerms; ++i) {
      _mm512_storeu_pd(tile.sums + 16 * i, sum[i].low);
      _mm512_storeu_pd(tile.sums + 16 * i + 8, sum[i].high);
    }
    return true;
  }
  const __m512d number = _mm512_set1_pd(static_cast<double>(count));
#pragma GCC unroll 4
  for (int i = 0; i < kTerms; ++i) {
    if constexpr (R == Reduce::mean) {
      sum[i] = {_mm512_div_pd(sum[i].low, number), _mm512_div_pd(sum[i].high, number)};
    }
    const auto in = reader.lanes(i / kVectors<T>) >> (i % kVectors<T> * 16);
    store(to + 16 * i, static_cast<__mmask16>(in), sum[i]);
  }
  return true;
}

// Chunks of 256 from 1, then one after the other onto the old value.
template <class T, int Pieces, Rows How>
SOW_TARGET_AVX512 bool fold_product(const RowTile& tile) {
  constexpr int kTerms = Pieces * kVectors<T>;
  const RowReader<T, Pieces, How> reader(tile);
  Wide total[kTerms];
  __m512i pieces[Pieces];
  __m512 terms[kTerms];
  T* const to = reinterpret_cast<T*>(tile.dst);
  if (tile.include_self) {
    reader.read_old(pieces);
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) to_floats(pieces[i], to, terms + i * kVectors<T>);
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < kTerms; ++i) terms[i] = _mm512_set1_ps(1);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTerms; ++i) total[i] = widened(terms[i]);
  for (int64_t begin = 0; begin < tile.count; begin += 256) {
    const int64_t end = tile.count < begin + 256 ? tile.count : begin + 256;
    Wide chunk[kTerms];
#pragma GCC unroll 4
    for (int i = 0; i < kTerms; ++i) chunk[i] = {_mm512_set1_pd(1), _mm512_set1_pd(1)};
    for (int64_t k = begin; k < end; ++k) {
      reader.prefetch_row(k);
      reader.read(k, pieces);
#pragma GCC unroll 4
      for (int i = 0; i < Pieces; ++i) to_floats(pieces[i], to, terms + i * kVectors<T>);
#pragma GCC unroll 4
      for (int i = 0; i < kTerms; ++i) {
        const Wide wide = widened(terms[i]);
        chunk[i].low = _mm512_mul_pd(chunk[i].low, wide.low);
        chunk[i].high = _mm512_mul_pd(chunk[i].high, wide.high);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kTerms; ++i) {
      total[i] = {_mm512_mul_pd(total[i].low, chunk[i].low),
                  _mm512_mul_pd(total[i].high, chunk[i].high)};
    }
  }
  reader.prefetch_remaining();
#pragma GCC unroll 4
  for (int i = 0; i < kTerms; ++i) {
    const auto in = reader.lanes(i / kVectors<T>) >> (i % kVectors<T> * 16);
    store(to + 16 * i, static_cast<__mmask16>(in), total[i]);
  }
  return true;
}

// Signed integers order the positive numbers, unsigned ones the magnitudes of those of one sign:
// three running extremes say everything, NaN included.
template <class T, Reduce R, int Pieces, Rows How>
SOW_TARGET_AVX512 bool fold_extreme(const RowTile& tile) {
  using Bits = FloatBits<T>;
  using K = typename Bits::Keys;
  using Mask = typename K::Mask;
  const RowReader<T, Pieces, How> reader(tile);
  const __m512i sign = K::same(Bits::kSign);
  __m512i highest[Pieces], largest[Pieces], smallest[Pieces], pieces[Pieces];
  reader.read_old(pieces);
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) {
    highest[i] = tile.include_self ? pieces[i] : sign;
    largest[i] = tile.include_self ? pieces[i] : _mm512_setzero_si512();
    smallest[i] = tile.include_self ? pieces[i] : K::same(-1);
  }
  for (int64_t k = 0; k < tile.count; ++k) {
    reader.prefetch_row(k);
    reader.read(k, pieces);
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) {
      highest[i] = K::highest(highest[i], pieces[i]);
      largest[i] = K::largest(largest[i], pieces[i]);
      smallest[i] = K::smallest(smallest[i], pieces[i]);
    }
  }
  reader.prefetch_remaining();
#pragma GCC unroll 4
  for (int i = 0; i < Pieces; ++i) {
    const __m512i infinity = K::same(Bits::kInfinity);
    // Any positive number beats the negative ones for amax, any negative one for amin.
    const Mask wins = R == Reduce::amax ? K::above(highest[i], K::same(-1))
                                        : K::above(_mm512_setzero_si512(), largest[i]);
    const __m512i best = K::chosen(smallest[i], wins, R == Reduce::amax ? highest[i] : largest[i]);
    const Mask nan =
        K::above(highest[i], infinity) | K::larger(largest[i], _mm512_or_si512(infinity, sign));
    store_lanes(tile.dst + 64 * i, reader.lanes(i), K::chosen(best, nan, K::same(Bits::kQuietNan)));
  }
  return true;
}

template <class T, Reduce R, int Pieces, Rows How>
constexpr FoldRowTile kernel_of() {
  if constexpr (R == Reduce::add || R == Reduce::mean)
    return fold_sum<T, R, Pieces, How>;
  else if constexpr (R == Reduce::mul)
    return fold_product<T, Pieces, How>;
  else
    return fold_extreme<T, R, Pieces, How>;
}

template <class T, Reduce R>
FoldRowTile kernel_for(int columns, int shift) {
  constexpr int kLanes = 64 / static_cast<int>(sizeof(T));
  constexpr int kMost = kTileColumns / kLanes;
  if (columns == kTileColumns)
    return shift != 0 ? kernel_of<T, R, kMost, Rows::shifted>()
                      : kernel_of<T, R, kMost, Rows::whole>();
  switch ((columns + kLanes - 1) / kLanes) {
    case 1:
      return kernel_of<T, R, 1, Rows::part>();
    case 2:
      return kernel_of<T, R, 2, Rows::part>();
    case 3:
      return kernel_of<T, R, std::min(3, kMost), Rows::part>();
    default:
      return kernel_of<T, R, kMost, Rows::part>();
  }
}

template <class T>
FoldRowTile kernel_for(Reduce reduce, int columns, int shift) {
  switch (reduce) {
    case Reduce::add:
      return kernel_for<T, Reduce::add>(columns, shift);
    case Reduce::mean:
      return kernel_for<T, Reduce::mean>(columns, shift);
    case Reduce::mul:
      return kernel_for<T, Reduce::mul>(columns, shift);
    case Reduce::amax:
      return kernel_for<T, Reduce::amax>(columns, shift);
    case Reduce::amin:
      return kernel_for<T, Reduce::amin>(columns, shift);
    default:
      return nullptr;
  }
}

}  // namespace

FoldRowTile row_tile_avx512(DType dtype, Reduce reduce, int columns, int shift) {
  switch (dtype) {
    case DType::float32:
      return kernel_for<float>(reduce, columns, shift);
    case DType::bfloat16:
      return kernel_for<bfloat16>(reduce, columns, shift);
    case DType::float16:
      return kernel_for<float16>(reduce, columns, shift);
    case DType::float64:
      return row_doubles_avx512(reduce);
    default:
      return nullptr;
  }
}

}  // namespace sow::detail
