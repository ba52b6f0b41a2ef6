// SPDX-License-Identifier: Apache-2.0
// The vectors of one instruction level, in the compiler's own vector types: for_each_level.h
// includes this once for each. A vector has SOW_VECTOR_BYTES bytes; those named Half have half as
// many, so that they have as many lanes as vectors of the next wider type. Masks are vectors of
// integers that are 0 or -1. Where one level has an instruction that g++ 12 does not find by
// itself, it is named here and nowhere else.
namespace sow::detail::SOW_LEVEL {

inline constexpr int kVectorBytes = SOW_VECTOR_BYTES;
inline constexpr int kLanes32 = kVectorBytes / 4, kLanes64 = kVectorBytes / 8;

typedef float F32 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef double F64 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef int64_t I64 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef uint64_t U64 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef int32_t I32 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef uint32_t U32 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef int16_t I16 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef uint16_t U16 __attribute__((vector_size(SOW_VECTOR_BYTES)));
typedef float HalfF32 __attribute__((vector_size(SOW_VECTOR_BYTES / 2)));
typedef int32_t HalfI32 __attribute__((vector_size(SOW_VECTOR_BYTES / 2)));
typedef uint32_t HalfU32 __attribute__((vector_size(SOW_VECTOR_BYTES / 2)));
typedef uint16_t HalfU16 __attribute__((vector_size(SOW_VECTOR_BYTES / 2)));
typedef uint16_t QuarterU16 __attribute__((vector_size(SOW_VECTOR_BYTES / 4)));

// Calls X with the numbers of the lanes of a vector of 8, 4 or 2 byte elements.
#if SOW_VECTOR_BYTES == 16
#define SOW_LOW_32 0, 1
#define SOW_HIGH_32 2, 3
#define SOW_EVENS_32 0, 2, 4, 6
#define SOW_ODDS_32 1, 3, 5, 7
#define SOW_EVENS_64 0, 2
#define SOW_ODDS_64 1, 3
#define SOW_UNPACK_LOW_64 0, 2
#define SOW_UNPACK_HIGH_64 1, 3
#elif SOW_VECTOR_BYTES == 32
#define SOW_LOW_32 0, 1, 2, 3
#define SOW_HIGH_32 4, 5, 6, 7
#define SOW_EVENS_32 0, 2, 4, 6, 8, 10, 12, 14
#define SOW_ODDS_32 1, 3, 5, 7, 9, 11, 13, 15
#define SOW_EVENS_64 0, 2, 4, 6
#define SOW_ODDS_64 1, 3, 5, 7
#define SOW_UNPACK_LOW_64 0, 4, 2, 6
#define SOW_UNPACK_HIGH_64 1, 5, 3, 7
#else
#define SOW_LOW_32 0, 1, 2, 3, 4, 5, 6, 7
#define SOW_HIGH_32 8, 9, 10, 11, 12, 13, 14, 15
#define SOW_EVENS_32 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define SOW_ODDS_32 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define SOW_EVENS_64 0, 2, 4, 6, 8, 10, 12, 14
#define SOW_ODDS_64 1, 3, 5, 7, 9, 11, 13, 15
#define SOW_UNPACK_LOW_64 0, 8, 2, 10, 4, 12, 6, 14
#define SOW_UNPACK_HIGH_64 1, 9, 3, 11, 5, 13, 7, 15
#endif
#define SOW_VECTOR [[gnu::always_inline]] inline

template <class V>
SOW_VECTOR V load(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof(V));
  return v;
}
template <class V>
SOW_VECTOR void store(void* to, V v) {
  std::memcpy(to, &v, sizeof(V));
}
// Past the caches, where there is such a way.
template <class V>
SOW_VECTOR void stream(void* to, V v) {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
  _mm512_stream_si512(static_cast<__m512i*>(to), (__m512i)v);
#else
  store(to, v);
#endif
}
template <class V, class T>
SOW_VECTOR V all_of(T value) {
  if constexpr (std::is_floating_point_v<T>) return value - V{};  // which keeps a -0
  return V{} + value;
}
template <class V>
SOW_VECTOR V max(V a, V b) {
  return a > b ? a : b;
}
template <class V>
SOW_VECTOR V min(V a, V b) {
  return a < b ? a : b;
}
SOW_VECTOR F32 absolute(F32 v) { return (F32)((U32)v & 0x7fffffffu); }
SOW_VECTOR F64 absolute(F64 v) { return (F64)((U64)v & (uint64_t)INT64_MAX); }

// The lanes of a mask as bits; and whether a vector has any bit.
#if !SOW_HAS_X86_KERNELS
SOW_VECTOR uint32_t bits_of(I32 mask) {
  uint32_t bits = 0;
  for (int i = 0; i < kLanes32; ++i) bits |= static_cast<uint32_t>(mask[i]) & (1u << i);
  return bits;
}
SOW_VECTOR uint32_t bits_of(I64 mask) {
  return (static_cast<uint32_t>(mask[0]) & 1) | (static_cast<uint32_t>(mask[1]) & 2);
}
SOW_VECTOR bool any(I32 bits) { return (((I64)bits)[0] | ((I64)bits)[1]) != 0; }
#elif SOW_VECTOR_BYTES == 16
SOW_VECTOR uint32_t bits_of(I32 mask) {
  return static_cast<uint32_t>(_mm_movemask_ps((__m128)mask));
}
SOW_VECTOR uint32_t bits_of(I64 mask) {
  return static_cast<uint32_t>(_mm_movemask_pd((__m128d)mask));
}
SOW_VECTOR bool any(I32 bits) {
  return _mm_movemask_epi8(_mm_cmpeq_epi8((__m128i)bits, _mm_setzero_si128())) != 0xffff;
}
#elif SOW_VECTOR_BYTES == 32
SOW_VECTOR uint32_t bits_of(I32 mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)mask));
}
SOW_VECTOR uint32_t bits_of(I64 mask) {
  return static_cast<uint32_t>(_mm256_movemask_pd((__m256d)mask));
}
SOW_VECTOR bool any(I32 bits) { return !_mm256_testz_si256((__m256i)bits, (__m256i)bits); }
#else
SOW_VECTOR uint32_t bits_of(I32 mask) { return _mm512_movepi32_mask((__m512i)mask); }
SOW_VECTOR uint32_t bits_of(I64 mask) { return _mm512_movepi64_mask((__m512i)mask); }
SOW_VECTOR bool any(I32 bits) { return _mm512_test_epi32_mask((__m512i)bits, (__m512i)bits) != 0; }
#endif
SOW_VECTOR bool any(I64 bits) { return any((I32)bits); }
SOW_VECTOR bool any(U64 bits) { return any((I32)bits); }
SOW_VECTOR bool any(U32 bits) { return any((I32)bits); }

SOW_VECTOR HalfF32 low_half(F32 v) { return __builtin_shufflevector(v, v, SOW_LOW_32); }
SOW_VECTOR HalfF32 high_half(F32 v) { return __builtin_shufflevector(v, v, SOW_HIGH_32); }
SOW_VECTOR HalfU16 low_half(U16 v) { return (HalfU16)low_half((F32)v); }
SOW_VECTOR HalfU16 high_half(U16 v) { return (HalfU16)high_half((F32)v); }
SOW_VECTOR HalfU32 low_half(U32 v) { return __builtin_shufflevector(v, v, SOW_LOW_32); }
SOW_VECTOR HalfU32 high_half(U32 v) { return __builtin_shufflevector(v, v, SOW_HIGH_32); }
SOW_VECTOR U32 joined(HalfI32 low, HalfI32 high) {
  return (U32)__builtin_shufflevector(low, high, SOW_LOW_32, SOW_HIGH_32);
}
// Of a and then b, every second lane.
SOW_VECTOR U32 evens(U32 a, U32 b) { return __builtin_shufflevector(a, b, SOW_EVENS_32); }
SOW_VECTOR U32 odds(U32 a, U32 b) { return __builtin_shufflevector(a, b, SOW_ODDS_32); }
SOW_VECTOR I64 evens(I64 a, I64 b) { return __builtin_shufflevector(a, b, SOW_EVENS_64); }
SOW_VECTOR I64 odds(I64 a, I64 b) { return __builtin_shufflevector(a, b, SOW_ODDS_64); }
// Lanes of a and b in turn: the even ones of both, and the odd ones.
SOW_VECTOR I64 unpack_evens(I64 a, I64 b) {
  return __builtin_shufflevector(a, b, SOW_UNPACK_LOW_64);
}
SOW_VECTOR I64 unpack_odds(I64 a, I64 b) {
  return __builtin_shufflevector(a, b, SOW_UNPACK_HIGH_64);
}

#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 32
SOW_VECTOR F64 widened(HalfF32 v) { return (F64)_mm256_cvtps_pd((__m128)v); }
SOW_VECTOR I64 widened(HalfI32 v) { return (I64)_mm256_cvtepi32_epi64((__m128i)v); }
SOW_VECTOR U64 widened(HalfU32 v) { return (U64)_mm256_cvtepu32_epi64((__m128i)v); }
SOW_VECTOR HalfF32 narrowed(F64 v) { return (HalfF32)_mm256_cvtpd_ps((__m256d)v); }
#elif SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
SOW_VECTOR F64 widened(HalfF32 v) { return (F64)_mm512_maskz_cvtps_pd(0xff, (__m256)v); }
SOW_VECTOR I64 widened(HalfI32 v) { return (I64)_mm512_maskz_cvtepi32_epi64(0xff, (__m256i)v); }
SOW_VECTOR U64 widened(HalfU32 v) { return (U64)_mm512_maskz_cvtepu32_epi64(0xff, (__m256i)v); }
SOW_VECTOR HalfF32 narrowed(F64 v) { return (HalfF32)_mm512_maskz_cvtpd_ps(0xff, (__m512d)v); }
#else
SOW_VECTOR F64 widened(HalfF32 v) { return __builtin_convertvector(v, F64); }
SOW_VECTOR I64 widened(HalfI32 v) { return __builtin_convertvector(v, I64); }
SOW_VECTOR U64 widened(HalfU32 v) { return __builtin_convertvector(v, U64); }
SOW_VECTOR HalfF32 narrowed(F64 v) { return __builtin_convertvector(v, HalfF32); }
#endif
SOW_VECTOR HalfI32 narrowed(I64 v) { return __builtin_convertvector(v, HalfI32); }

// Numbers of 16 bits.
SOW_VECTOR HalfU16 narrowed(U32 v) {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 32
  const __m256i packed = _mm256_packus_epi32((__m256i)v, (__m256i)v);
  return (HalfU16)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#elif SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
  return (HalfU16)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)v);
#else
  return __builtin_convertvector(v, HalfU16);
#endif
}

// Rounded once.
SOW_VECTOR F64 to_float64(I64 v) {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES < 64
  // Each half of the number below the digits of a power of two.
  const U64 low = ((U64)v & 0xffffffffu) | 0x4330000000000000u;
  const U64 high = ((U64)v >> 32) ^ 0x4530000080000000u;
  return ((F64)high - 0x1.00000801p84) + (F64)low;
#else
  return __builtin_convertvector(v, F64);
#endif
}

SOW_VECTOR U32 widened(HalfU16 v) {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 32
  return (U32)_mm256_cvtepu16_epi32((__m128i)v);
#elif SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
  return (U32)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)v);
#else
  return __builtin_convertvector(v, U32);
#endif
}
// Values of a narrow type that are numbers in 32-bit lanes.
template <class T, class F, class U>
SOW_VECTOR F floats_in(U bits) {
  if constexpr (sizeof(T) == 4) return (F)bits;
  if constexpr (std::is_same_v<T, bfloat16>) return (F)(bits << 16);
  const F finite = (F)((bits & 0x7fffu) << 13) * 0x1p112f;
  // 0x1p16 and above stand for infinities and NaN.
  const U special = (U)(finite >= 0x1p16f) & 0x7f800000u;
  return (F)((U)finite | special | ((bits & 0x8000u) << 16));
}
template <class T>
SOW_VECTOR F32 floats_of(U32 bits) {
  return floats_in<T, F32>(bits);
}
template <class T>
SOW_VECTOR F32 floats_of(HalfU16 bits) {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 32
  if constexpr (std::is_same_v<T, float16>) return (F32)_mm256_cvtph_ps((__m128i)bits);
#elif SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
  if constexpr (std::is_same_v<T, float16>)
    return (F32)_mm512_maskz_cvtph_ps(0xffff, (__m256i)bits);
#endif
  return floats_of<T>(widened(bits));
}
SOW_VECTOR F32 load_floats(const float* from) { return load<F32>(from); }
template <class T>
SOW_VECTOR F32 load_floats(const T* from) {
  return floats_of<T>(load<HalfU16>(from));
}
// As many values as there are float64 in a vector.
SOW_VECTOR F64 load_wide(const double* from) { return load<F64>(from); }
SOW_VECTOR F64 load_wide(const float* from) { return widened(load<HalfF32>(from)); }
template <class T>
SOW_VECTOR F64 wide_of(QuarterU16 bits) {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
  if constexpr (std::is_same_v<T, float16>) return widened((HalfF32)_mm256_cvtph_ps((__m128i)bits));
#elif SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 32
  if constexpr (std::is_same_v<T, float16>)
    return widened((HalfF32)_mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&bits))));
#endif
  return widened(floats_in<T, HalfF32>(__builtin_convertvector(bits, HalfU32)));
}
template <class T>
SOW_VECTOR F64 load_wide(const T* from) {
  return wide_of<T>(load<QuarterU16>(from));
}
// All lanes of a vector of floats, which was read from there, or anywhere if that is null.
template <class T>
SOW_VECTOR void widen(const T* from, F32 values, F64* out) {
  if (sizeof(T) == 4 && from != nullptr) {  // which takes less than taking a vector apart
    out[0] = load_wide(from);
    out[1] = load_wide(from + kLanes64);
  } else {
    out[0] = widened(low_half(values));
    out[1] = widened(high_half(values));
  }
}

// The bits of float64 as numbers of a narrow type, rounded once, in 32-bit lanes. The way to the
// halves goes through a float32 whose last bit remembers what followed it (round to odd).
template <class T>
SOW_VECTOR HalfU32 rounded_bits(F64 values) {
  if constexpr (sizeof(T) == 4) {
    return (HalfU32)narrowed(values);
  } else {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
    constexpr int kToZero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
    const __m256 cut = _mm512_maskz_cvt_roundpd_ps(0xff, (__m512d)values, kToZero);
    const __mmask8 inexact =
        _mm512_cmp_pd_mask((__m512d)widened((HalfF32)cut), (__m512d)values, _CMP_NEQ_OQ);
    const auto odd =
        (HalfU32)_mm256_mask_or_epi32((__m256i)cut, inexact, (__m256i)cut, _mm256_set1_epi32(1));
#else
    const HalfF32 nearest = narrowed(values);
    const F64 back = widened(nearest);
    const HalfI32 beyond = narrowed((I64)(absolute(back) > absolute(values)));
    const HalfI32 inexact = narrowed((I64)(back != values));
    const HalfU32 odd = ((HalfU32)nearest + (HalfU32)beyond) | ((HalfU32)inexact & 1u);
#endif
    if constexpr (std::is_same_v<T, bfloat16>) {
      return (odd + ((odd >> 16) & 1u) + 0x7fffu) >> 16;
    } else {
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
      return (HalfU32)_mm256_cvtepu16_epi32(_mm256_maskz_cvtps_ph(0xff, (__m256)odd, 0));
#elif SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 32
      return (HalfU32)_mm_cvtepu16_epi32(_mm_cvtps_ph((__m128)odd, 0));
#else
      HalfU32 out;
      for (int i = 0; i < kLanes64; ++i) out[i] = float16(((HalfF32)odd)[i]).bits;
      return out;
#endif
    }
  }
}
// Writes the lanes of `which`, and touches no others: they may be another call's.
template <class T>
SOW_VECTOR void store_lanes(T* to, uint32_t which, F64 values) {
  if constexpr (sizeof(T) == 8) {
    if (which == (1u << kLanes64) - 1) return store(to, values);
    for (int i = 0; i < kLanes64; ++i) {
      if ((which >> i & 1) != 0) to[i] = values[i];
    }
  } else {
    const HalfU32 bits = rounded_bits<T>(values);
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
    if constexpr (sizeof(T) == 4) {
      _mm256_mask_storeu_epi32(to, static_cast<__mmask8>(which), (__m256i)bits);
    } else {
      _mm_mask_storeu_epi16(to, static_cast<__mmask8>(which),
                            _mm256_maskz_cvtepi32_epi16(0xff, (__m256i)bits));
    }
#else
    if (sizeof(T) == 4 && which == (1u << kLanes64) - 1) return store(to, bits);
    for (int i = 0; i < kLanes64; ++i) {
      if ((which >> i & 1) == 0) continue;
      if constexpr (sizeof(T) == 4) {
        store(to + i, bits[i]);
      } else {
        store(to + i, static_cast<uint16_t>(bits[i]));
      }
    }
#endif
  }
}

#undef SOW_LOW_32
#undef SOW_HIGH_32
#undef SOW_EVENS_32
#undef SOW_ODDS_32
#undef SOW_EVENS_64
#undef SOW_ODDS_64
#undef SOW_UNPACK_LOW_64
#undef SOW_UNPACK_HIGH_64

}  // namespace sow::detail::SOW_LEVEL
