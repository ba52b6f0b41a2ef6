// SPDX-License-Identifier: Apache-2.0
// Kernels under a mask with AVX2: eight elements at a time through tables of permutations.
#include <immintrin.h>

#include <array>

#include "cpu/mask/mask_kernels.h"
#include "cpu/mask/mask_loops.h"

namespace sow::detail {
namespace {

struct alignas(8) Order {
  uint8_t from[8];
};

// For each mask of eight: the rank of the true at or after each place; the place of each rank.
constexpr auto kExpandOrder = [] {
  std::array<Order, 256> table{};
  for (int mask = 0; mask < 256; ++mask) {
    int rank = 0;
    for (int i = 0; i < 8; ++i) {
      table[mask].from[i] = static_cast<uint8_t>(rank);
      rank += mask >> i & 1;
    }
  }
  return table;
}();
constexpr auto kCompressOrder = [] {
  std::array<Order, 256> table{};
  for (int mask = 0; mask < 256; ++mask) {
    int rank = 0;
    for (int i = 0; i < 8; ++i) {
      if (mask >> i & 1) table[mask].from[rank++] = static_cast<uint8_t>(i);
    }
  }
  return table;
}();

SOW_TARGET_AVX2 inline __m128i load_8_bytes(const void* from) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(from));
}

SOW_TARGET_AVX2 inline unsigned load_mask(const uint8_t* mask) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask));
  const __m256i zero = _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256());
  return ~static_cast<unsigned>(_mm256_movemask_epi8(zero));
}

SOW_TARGET_AVX2 int64_t count_bytes(const uint8_t* mask, int64_t count) {
  int64_t total = 0;
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) total += _mm_popcnt_u32(load_mask(mask + i));
  for (; i < count; ++i) total += mask[i] != 0;
  return total;
}

// Byte orders for elements of two bytes, and 4-byte orders for elements of eight.
SOW_TARGET_AVX2 inline __m128i double_bytes(__m128i order) {
  const __m128i twice = _mm_add_epi8(order, order);
  return _mm_add_epi8(_mm_unpacklo_epi8(twice, twice), _mm_set1_epi16(0x0100));
}
SOW_TARGET_AVX2 inline __m256i double_words(__m128i order) {
  const __m256i twice = _mm256_slli_epi64(_mm256_cvtepu8_epi64(order), 1);
  const __m256i next = _mm256_add_epi64(twice, _mm256_set1_epi64x(1));
  return _mm256_or_si256(twice, _mm256_slli_epi64(next, 32));
}

// Elements of a kernel's step: four of 8 bytes, eight of the others.
template <int Width>
constexpr int kStep = Width == 8 ? 4 : 8;

// A step's worth of elements: 8, 16 or 32 bytes in the low part of a register.
template <int Width>
SOW_TARGET_AVX2 inline __m256i load(const char* from) {
  if constexpr (Width == 1)
    return _mm256_castsi128_si256(load_8_bytes(from));
  else if constexpr (Width == 2)
    return _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  else
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

template <int Width>
SOW_TARGET_AVX2 inline void store(char* to, __m256i values) {
  if constexpr (Width == 1)
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(values));
  else if constexpr (Width == 2)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(values));
  else
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), values);
}

template <int Width>
SOW_TARGET_AVX2 inline __m256i permute(__m256i values, const Order& row) {
  const __m128i order = load_8_bytes(&row);
  const __m128i low = _mm256_castsi256_si128(values);
  if constexpr (Width == 1)
    return _mm256_castsi128_si256(_mm_shuffle_epi8(low, order));
  else if constexpr (Width == 2)
    return _mm256_castsi128_si256(_mm_shuffle_epi8(low, double_bytes(order)));
  else if constexpr (Width == 4)
    return _mm256_permutevar8x32_epi32(values, _mm256_cvtepu8_epi32(order));
  else
    return _mm256_permutevar8x32_epi32(values, double_words(order));
}

// old where the mask's byte is zero, values elsewhere.
template <int Width>
SOW_TARGET_AVX2 inline __m256i choose(__m256i old, __m256i values, const uint8_t* mask) {
  __m128i bytes;
  if constexpr (kStep<Width> == 4)
    bytes = _mm_loadu_si32(mask);
  else
    bytes = load_8_bytes(mask);
  __m256i lanes;
  if constexpr (Width == 1)
    lanes = _mm256_castsi128_si256(bytes);
  else if constexpr (Width == 2)
    lanes = _mm256_castsi128_si256(_mm_cvtepu8_epi16(bytes));
  else if constexpr (Width == 4)
    lanes = _mm256_cvtepu8_epi32(bytes);
  else
    lanes = _mm256_cvtepu8_epi64(bytes);
  __m256i zero;
  if constexpr (Width == 1)
    zero = _mm256_cmpeq_epi8(lanes, _mm256_setzero_si256());
  else if constexpr (Width == 2)
    zero = _mm256_cmpeq_epi16(lanes, _mm256_setzero_si256());
  else if constexpr (Width == 4)
    zero = _mm256_cmpeq_epi32(lanes, _mm256_setzero_si256());
  else
    zero = _mm256_cmpeq_epi64(lanes, _mm256_setzero_si256());
  return _mm256_blendv_epi8(values, old, zero);
}

template <int Width>
SOW_TARGET_AVX2 int64_t expand_run(char* dst, const char* base, const uint8_t* mask,
                                   const char* src, int64_t count, int64_t available) {
  constexpr int step = kStep<Width>;
  int64_t rank = 0;
  int64_t i = 0;
  for (; i + 32 <= count && rank + 32 <= available; i += 32) {
    unsigned bits = load_mask(mask + i);
    if (bits == 0 && dst == base) continue;
    for (int64_t j = i; j < i + 32; j += step, bits >>= step) {
      const unsigned part = bits & ((1u << step) - 1);
      const __m256i values = permute<Width>(load<Width>(src + rank * Width), kExpandOrder[part]);
      store<Width>(dst + j * Width, choose<Width>(load<Width>(base + j * Width), values, mask + j));
      rank += _mm_popcnt_u32(part);
    }
  }
  return rank + expand_loop<Width>(dst + i * Width, base + i * Width, mask + i, src + rank * Width,
                                   count - i, available - rank);
}

template <int Width>
SOW_TARGET_AVX2 int64_t compress_run(char* dst, const uint8_t* mask, const char* src, int64_t count,
                                     int64_t room) {
  constexpr int step = kStep<Width>;
  int64_t rank = 0;
  int64_t i = 0;
  for (; i + 32 <= count && rank + 32 <= room; i += 32) {
    unsigned bits = load_mask(mask + i);
    for (int64_t j = i; bits != 0; j += step, bits >>= step) {
      const unsigned part = bits & ((1u << step) - 1);
      store<Width>(dst + rank * Width,
                   permute<Width>(load<Width>(src + j * Width), kCompressOrder[part]));
      rank += _mm_popcnt_u32(part);
    }
  }
  return rank + compress_loop<Width>(dst + rank * Width, mask + i, src + i * Width, count - i,
                                     room - rank);
}

template <int Width>
SOW_TARGET_AVX2 inline __m256i broadcast(const char* value) {
  if constexpr (Width == 1)
    return _mm256_set1_epi8(*value);
  else if constexpr (Width == 2)
    return _mm256_set1_epi16(static_cast<int16_t>(reinterpret_cast<const Word<2>*>(value)->bits));
  else if constexpr (Width == 4)
    return _mm256_set1_epi32(static_cast<int32_t>(reinterpret_cast<const Word<4>*>(value)->bits));
  else
    return _mm256_set1_epi64x(static_cast<int64_t>(reinterpret_cast<const Word<8>*>(value)->bits));
}

template <int Width, bool Same>
SOW_TARGET_AVX2 void blend_run(char* dst, const char* base, const uint8_t* mask, const char* src,
                               int64_t count) {
  constexpr int step = kStep<Width>;
  __m256i values = _mm256_setzero_si256();
  if constexpr (Same) values = broadcast<Width>(src);
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    if constexpr (!Same) values = load<Width>(src + i * Width);
    store<Width>(dst + i * Width, choose<Width>(load<Width>(base + i * Width), values, mask + i));
  }
  blend_loop<Width, Same>(dst + i * Width, base + i * Width, mask + i, Same ? src : src + i * Width,
                          count - i);
}

}  // namespace

// Two elements of 16 bytes fill a register: there the plain loops are as good.
const MaskKernels k_mask_kernels_avx2 = {
    count_bytes,
    {expand_run<1>, expand_run<2>, expand_run<4>, expand_run<8>, expand_loop<16>},
    {expand_run<1>, expand_run<2>, expand_run<4>, expand_run<8>, expand_loop<16>},
    {compress_run<1>, compress_run<2>, compress_run<4>, compress_run<8>, compress_loop<16>},
    {blend_run<1, false>, blend_run<2, false>, blend_run<4, false>, blend_run<8, false>,
     blend_loop<16, false>},
    {blend_run<1, true>, blend_run<2, true>, blend_run<4, true>, blend_run<8, true>,
     blend_loop<16, true>},
};

}  // namespace sow::detail
