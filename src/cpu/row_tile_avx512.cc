// Row folds with AVX-512: every accumulator in a register, the last vector under a mask.
#include <immintrin.h>

#include "core/exact_rows.h"
#include "cpu/row_tile.h"
#include "sow/half.h"

namespace sow::detail {
namespace {

template <class T>
constexpr int kMantissa = 24;
template <>
constexpr int kMantissa<bfloat16> = 8;
template <>
constexpr int kMantissa<float16> = 11;

// Where the lanes of vector i are; only the last may have fewer.
template <int Vectors>
SOW_TARGET_AVX512 SOW_INLINE __mmask16 lanes(int i, __mmask16 tail) {
  return i == Vectors - 1 ? tail : static_cast<__mmask16>(0xffff);
}

// 16 elements, exactly, as float32.
SOW_TARGET_AVX512 SOW_INLINE __m512 load(const float* from, __mmask16 in) {
  return _mm512_maskz_loadu_ps(in, from);
}
SOW_TARGET_AVX512 SOW_INLINE __m512 load(const bfloat16* from, __mmask16 in) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(in, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}
SOW_TARGET_AVX512 SOW_INLINE __m512 load(const float16* from, __mmask16 in) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(in, from));
}

struct Wide {
  __m512d low, high;
};
SOW_TARGET_AVX512 SOW_INLINE Wide widened(__m512 values) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(values)),
          _mm512_cvtps_pd(_mm512_extractf32x8_ps(values, 1))};
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
SOW_TARGET_AVX512 SOW_INLINE void store(float* to, __mmask16 in, const Wide& values) {
  const __m512d low = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(values.low)));
  const __m512 both =
      _mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_castps_pd(_mm512_cvtpd_ps(values.high)), 1));
  const __m512i quiet = _mm512_set1_epi32(0x7fc00000);
  _mm512_mask_storeu_epi32(to, in,
                           _mm512_mask_mov_epi32(_mm512_castps_si512(both), nans(values), quiet));
}
SOW_TARGET_AVX512 SOW_INLINE void store(bfloat16* to, __mmask16 in, const Wide& values) {
  const __m512i bits = odd_bits(values);
  const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
  const __m256i rounded = _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
  _mm256_mask_storeu_epi16(to, in,
                           _mm256_mask_mov_epi16(rounded, nans(values), _mm256_set1_epi16(0x7fc0)));
}
SOW_TARGET_AVX512 SOW_INLINE void store(float16* to, __mmask16 in, const Wide& values) {
  const __m512 odd = _mm512_castsi512_ps(odd_bits(values));
  const __m256i rounded = _mm512_cvtps_ph(odd, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_mask_storeu_epi16(to, in,
                           _mm256_mask_mov_epi16(rounded, nans(values), _mm256_set1_epi16(0x7e00)));
}

template <int Bytes>
SOW_TARGET_AVX512 SOW_INLINE void fetch(const RowTile& tile, int64_t k) {
  if (k < tile.far_count) {
    const char* row = tile.src + tile.far[k] * tile.src_step;
    for (int i = 0; i < Bytes; i += 64) _mm_prefetch(row + i, _MM_HINT_T1);
    _mm_prefetch(row + Bytes - 1, _MM_HINT_T1);  // rows may begin inside a line
  }
  if (k + kNearRows < tile.known) {
    const char* row = tile.src + tile.codes[k + kNearRows] * tile.src_step;
    for (int i = 0; i < Bytes; i += 64) _mm_prefetch(row + i, _MM_HINT_T0);
    _mm_prefetch(row + Bytes - 1, _MM_HINT_T0);
  }
}
// What the next row has more than this one.
template <int Bytes>
SOW_TARGET_AVX512 SOW_INLINE void fetch_rest(const RowTile& tile) {
  for (int64_t k = tile.count; k < tile.far_count; ++k) {
    const char* row = tile.src + tile.far[k] * tile.src_step;
    for (int i = 0; i < Bytes; i += 64) _mm_prefetch(row + i, _MM_HINT_T1);
  }
}

template <class T, int Vectors>
SOW_TARGET_AVX512 SOW_INLINE __mmask16 tail_of(const RowTile& tile) {
  return static_cast<__mmask16>(0xffff >> (16 * Vectors - tile.columns));
}
template <class T>
SOW_TARGET_AVX512 SOW_INLINE const T* row_at(const RowTile& tile, int64_t k) {
  return reinterpret_cast<const T*>(tile.src + tile.codes[k] * tile.src_step);
}

// Terms below 2^(most + 1) that are whole multiples of 2^(least - mantissa + 1) add up exactly in
// float64 while the sum has no more than 53 bits between the two.
template <class T, Reduce R, int Vectors, bool Full>
SOW_TARGET_AVX512 bool fold_sum(const RowTile& tile) {
  constexpr int kBytes = 16 * Vectors * static_cast<int>(sizeof(T));
  if (tile.count > kSpreadItems) return false;
  const __mmask16 tail = Full ? static_cast<__mmask16>(0xffff) : tail_of<T, Vectors>(tile);
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), one = _mm512_set1_epi32(1);
  Wide sum[Vectors];
  __m512i most[Vectors], least[Vectors];
  T* to = reinterpret_cast<T*>(tile.dst);
  const __m512 nothing = _mm512_set1_ps(-0.0f);
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) {
    const __m512 first = tile.include_self ? load(to + 16 * i, lanes<Vectors>(i, tail)) : nothing;
    sum[i] = widened(first);
    most[i] = _mm512_and_si512(_mm512_castps_si512(first), magnitude);
    least[i] = _mm512_sub_epi32(most[i], one);
  }
  for (int64_t k = 0; k < tile.count; ++k) {
    fetch<kBytes>(tile, k);
    const T* row = row_at<T>(tile, k);
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i) {
      const __m512 values = load(row + 16 * i, lanes<Vectors>(i, tail));
      const Wide wide = widened(values);
      sum[i].low = _mm512_add_pd(sum[i].low, wide.low);
      sum[i].high = _mm512_add_pd(sum[i].high, wide.high);
      const __m512i bits = _mm512_and_si512(_mm512_castps_si512(values), magnitude);
      most[i] = _mm512_max_epu32(most[i], bits);
      least[i] = _mm512_min_epu32(least[i], _mm512_sub_epi32(bits, one));  // no zeros
    }
  }
  fetch_rest<kBytes>(tile);
  const int64_t terms = tile.count + tile.include_self;
  const int carries = 64 - static_cast<int>(_lzcnt_u64(static_cast<uint64_t>(terms - 1)));
  const __m512i room = _mm512_set1_epi32(53 - kMantissa<T> - carries);
  __mmask16 doubt = 0;
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) {
    const __m512i spread =
        _mm512_sub_epi32(_mm512_srli_epi32(most[i], 23), _mm512_srli_epi32(least[i], 23));
    doubt |= _mm512_cmpgt_epi32_mask(spread, room);
    doubt |= _mm512_cmpge_epi32_mask(most[i], _mm512_set1_epi32(0x7f800000));
  }
  if (doubt != 0) return false;
  const __m512d number = _mm512_set1_pd(static_cast<double>(terms));
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) {
    if constexpr (R == Reduce::mean) {
      sum[i] = {_mm512_div_pd(sum[i].low, number), _mm512_div_pd(sum[i].high, number)};
    }
    store(to + 16 * i, lanes<Vectors>(i, tail), sum[i]);
  }
  return true;
}

// Chunks of 256 from 1, then one after the other onto the old value.
template <class T, int Vectors, bool Full>
SOW_TARGET_AVX512 bool fold_product(const RowTile& tile) {
  constexpr int kBytes = 16 * Vectors * static_cast<int>(sizeof(T));
  const __mmask16 tail = Full ? static_cast<__mmask16>(0xffff) : tail_of<T, Vectors>(tile);
  const Wide ones = {_mm512_set1_pd(1), _mm512_set1_pd(1)};
  Wide total[Vectors];
  T* to = reinterpret_cast<T*>(tile.dst);
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) {
    total[i] = tile.include_self ? widened(load(to + 16 * i, lanes<Vectors>(i, tail))) : ones;
  }
  for (int64_t begin = 0; begin < tile.count; begin += 256) {
    const int64_t end = tile.count < begin + 256 ? tile.count : begin + 256;
    Wide chunk[Vectors];
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i) chunk[i] = ones;
    for (int64_t k = begin; k < end; ++k) {
      fetch<kBytes>(tile, k);
      const T* row = row_at<T>(tile, k);
#pragma GCC unroll 4
      for (int i = 0; i < Vectors; ++i) {
        const Wide wide = widened(load(row + 16 * i, lanes<Vectors>(i, tail)));
        chunk[i].low = _mm512_mul_pd(chunk[i].low, wide.low);
        chunk[i].high = _mm512_mul_pd(chunk[i].high, wide.high);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i) {
      total[i] = {_mm512_mul_pd(total[i].low, chunk[i].low),
                  _mm512_mul_pd(total[i].high, chunk[i].high)};
    }
  }
  fetch_rest<kBytes>(tile);
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) store(to + 16 * i, lanes<Vectors>(i, tail), total[i]);
  return true;
}

// Bits of floats as integers of one width.
struct Keys4 {
  static constexpr int kLanes = 16;
  using Mask = __mmask16;
  SOW_TARGET_AVX512 SOW_INLINE static __m512i load(const char* from, Mask in) {
    return _mm512_maskz_loadu_epi32(in, from);
  }
  SOW_TARGET_AVX512 SOW_INLINE static void store(char* to, Mask in, __m512i bits) {
    _mm512_mask_storeu_epi32(to, in, bits);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i same(int64_t bits) {
    return _mm512_set1_epi32(static_cast<int>(bits));
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i highest(__m512i a, __m512i b) {
    return _mm512_max_epi32(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i largest(__m512i a, __m512i b) {
    return _mm512_max_epu32(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i smallest(__m512i a, __m512i b) {
    return _mm512_min_epu32(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static Mask above(__m512i a, __m512i b) {
    return _mm512_cmpgt_epi32_mask(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static Mask larger(__m512i a, __m512i b) {
    return _mm512_cmpgt_epu32_mask(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i chosen(__m512i no, Mask m, __m512i yes) {
    return _mm512_mask_mov_epi32(no, m, yes);
  }
};
struct Keys2 {
  static constexpr int kLanes = 32;
  using Mask = __mmask32;
  SOW_TARGET_AVX512 SOW_INLINE static __m512i load(const char* from, Mask in) {
    return _mm512_maskz_loadu_epi16(in, from);
  }
  SOW_TARGET_AVX512 SOW_INLINE static void store(char* to, Mask in, __m512i bits) {
    _mm512_mask_storeu_epi16(to, in, bits);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i same(int64_t bits) {
    return _mm512_set1_epi16(static_cast<short>(bits));
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i highest(__m512i a, __m512i b) {
    return _mm512_max_epi16(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i largest(__m512i a, __m512i b) {
    return _mm512_max_epu16(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i smallest(__m512i a, __m512i b) {
    return _mm512_min_epu16(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static Mask above(__m512i a, __m512i b) {
    return _mm512_cmpgt_epi16_mask(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static Mask larger(__m512i a, __m512i b) {
    return _mm512_cmpgt_epu16_mask(a, b);
  }
  SOW_TARGET_AVX512 SOW_INLINE static __m512i chosen(__m512i no, Mask m, __m512i yes) {
    return _mm512_mask_mov_epi16(no, m, yes);
  }
};

template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Keys = Keys4;
  static constexpr int64_t kInfinity = 0x7f800000, kQuietNan = 0x7fc00000, kSign = 0x80000000;
};
template <>
struct FloatBits<bfloat16> {
  using Keys = Keys2;
  static constexpr int64_t kInfinity = 0x7f80, kQuietNan = 0x7fc0, kSign = 0x8000;
};
template <>
struct FloatBits<float16> {
  using Keys = Keys2;
  static constexpr int64_t kInfinity = 0x7c00, kQuietNan = 0x7e00, kSign = 0x8000;
};

// Signed integers order the positive numbers, unsigned ones the magnitudes of those of one sign:
// three running extremes say everything, NaN included.
template <class T, Reduce R, int Vectors, bool Full>
SOW_TARGET_AVX512 bool fold_extreme(const RowTile& tile) {
  using Bits = FloatBits<T>;
  using K = typename Bits::Keys;
  using Mask = typename K::Mask;
  constexpr int kBytes = 64 * Vectors, kLanes = K::kLanes;
  constexpr Mask kAll = static_cast<Mask>(~Mask{0});
  const Mask tail = Full ? kAll : static_cast<Mask>(kAll >> (kLanes * Vectors - tile.columns));
  const __m512i sign = K::same(Bits::kSign);
  __m512i highest[Vectors], largest[Vectors], smallest[Vectors];
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) {
    const Mask in = i == Vectors - 1 ? tail : kAll;
    const __m512i old = K::load(tile.dst + 64 * i, in);
    highest[i] = tile.include_self ? old : sign;
    largest[i] = tile.include_self ? old : _mm512_setzero_si512();
    smallest[i] = tile.include_self ? old : K::same(-1);
  }
  for (int64_t k = 0; k < tile.count; ++k) {
    fetch<kBytes>(tile, k);
    const char* row = reinterpret_cast<const char*>(row_at<T>(tile, k));
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i) {
      const __m512i bits = K::load(row + 64 * i, i == Vectors - 1 ? tail : kAll);
      highest[i] = K::highest(highest[i], bits);
      largest[i] = K::largest(largest[i], bits);
      smallest[i] = K::smallest(smallest[i], bits);
    }
  }
  fetch_rest<kBytes>(tile);
#pragma GCC unroll 4
  for (int i = 0; i < Vectors; ++i) {
    const __m512i infinity = K::same(Bits::kInfinity);
    // Any positive number beats the negative ones for amax, any negative one for amin.
    const Mask wins = R == Reduce::amax ? K::above(highest[i], K::same(-1))
                                        : K::above(_mm512_setzero_si512(), largest[i]);
    const __m512i best = K::chosen(smallest[i], wins, R == Reduce::amax ? highest[i] : largest[i]);
    const Mask nan =
        K::above(highest[i], infinity) | K::larger(largest[i], _mm512_or_si512(infinity, sign));
    K::store(tile.dst + 64 * i, i == Vectors - 1 ? tail : kAll,
             K::chosen(best, nan, K::same(Bits::kQuietNan)));
  }
  return true;
}

template <class T, Reduce R, int Vectors, bool Full>
constexpr FoldRowTile kernel_of() {
  if constexpr (R == Reduce::add || R == Reduce::mean)
    return fold_sum<T, R, Vectors, Full>;
  else if constexpr (R == Reduce::mul)
    return fold_product<T, Vectors, Full>;
  else
    return fold_extreme<T, R, Vectors, Full>;
}

template <class T, Reduce R>
FoldRowTile kernel_for(int columns) {
  constexpr bool kExtreme = R == Reduce::amax || R == Reduce::amin;
  constexpr int kLanes = kExtreme ? 64 / static_cast<int>(sizeof(T)) : 16;
  if (columns == 64) return kernel_of<T, R, 64 / kLanes, true>();
  switch ((columns + kLanes - 1) / kLanes) {
    case 1:
      return kernel_of<T, R, 1, false>();
    case 2:
      return kernel_of<T, R, 2, false>();
    case 3:
      return kernel_of<T, R, 3, false>();
    default:
      return kernel_of<T, R, 4, false>();
  }
}

template <class T>
FoldRowTile kernel_for(Reduce reduce, int columns) {
  switch (reduce) {
    case Reduce::add:
      return kernel_for<T, Reduce::add>(columns);
    case Reduce::mean:
      return kernel_for<T, Reduce::mean>(columns);
    case Reduce::mul:
      return kernel_for<T, Reduce::mul>(columns);
    case Reduce::amax:
      return kernel_for<T, Reduce::amax>(columns);
    case Reduce::amin:
      return kernel_for<T, Reduce::amin>(columns);
    default:
      return nullptr;
  }
}

}  // namespace

FoldRowTile row_tile_avx512(DType dtype, Reduce reduce, int columns) {
  switch (dtype) {
    case DType::float32:
      return kernel_for<float>(reduce, columns);
    case DType::bfloat16:
      return kernel_for<bfloat16>(reduce, columns);
    case DType::float16:
      return kernel_for<float16>(reduce, columns);
    default:
      return nullptr;
  }
}

}  // namespace sow::detail
