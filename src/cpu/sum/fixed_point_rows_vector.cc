// SPDX-License-Identifier: Apache-2.0
// Short rows in vectors of every instruction level: up to sixteen columns become integers, and are
// added to their cells.
#if !defined(SOW_LEVEL)

#include <algorithm>
#include <cmath>

#include "core/isa.h"
#include "cpu/sum/fixed_point_rows.h"

#define SOW_KERNELS "cpu/sum/fixed_point_rows_vector.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {

AddShortRows short_adder(DType dtype, int columns) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return short_adder_avx512(dtype, columns);
  }
  if (dtype == DType::bfloat16) return SOW_BY_LEVEL(adder_of<bfloat16>)(columns);
  if (dtype == DType::float16) return SOW_BY_LEVEL(adder_of<float16>)(columns);
  return SOW_BY_LEVEL(adder_of<float>)(columns);
}

int64_t finish_short_sums(const int64_t* cells, float* to, int64_t count, double unit,
                          int64_t& stopped) {
  return SOW_BY_LEVEL(finish_sums)(cells, to, count, unit, stopped);
}

KeepShortRows keep_short_rows(DType index) {
  return index == DType::int32 ? SOW_BY_LEVEL(keep_rows<int32_t>)
                               : SOW_BY_LEVEL(keep_rows<int64_t>);
}

}  // namespace sow::detail

#else

namespace sow::detail::SOW_LEVEL {
namespace {

// The first `Columns` lanes of a vector, and no more of the memory. Levels without such loads take
// the last columns of a row one by one.
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES > 16
template <int Columns>
SOW_VECTOR I64 first_lanes() {
  I64 mask;
  for (int i = 0; i < kLanes64; ++i) mask[i] = i < Columns ? -1 : 0;
  return mask;
}
template <int Columns>
SOW_VECTOR F64 load_some(const float* from) {
#if SOW_VECTOR_BYTES == 64
  return widened((HalfF32)_mm256_maskz_loadu_ps((1 << Columns) - 1, from));
#else
  return widened((HalfF32)_mm_maskload_ps(from, (__m128i)narrowed(first_lanes<Columns>())));
#endif
}
template <int Columns, class T>
SOW_VECTOR F64 load_some(const T* from) {
#if SOW_VECTOR_BYTES == 64
  return wide_of<T>((QuarterU16)_mm_maskz_loadu_epi16((1 << Columns) - 1, from));
#else
  QuarterU16 some = {};
  for (int i = 0; i < Columns; ++i) some[i] = load<uint16_t>(from + i);
  return wide_of<T>(some);
#endif
}
template <int Columns>
SOW_VECTOR void add_some(int64_t* to, I64 whole) {
#if SOW_VECTOR_BYTES == 64
  constexpr __mmask8 kIn = (1 << Columns) - 1;
  const __m512i old = _mm512_maskz_loadu_epi64(kIn, to);
  _mm512_mask_storeu_epi64(to, kIn, (__m512i)((I64)old + whole));
#else
  const __m256i in = (__m256i)first_lanes<Columns>();
  auto* at = reinterpret_cast<long long*>(to);
  _mm256_maskstore_epi64(at, in, (__m256i)((I64)_mm256_maskload_epi64(at, in) + whole));
#endif
}
#else
template <int Columns, class T>
SOW_VECTOR F64 load_some(const T* from) {
  F64 some = {};
  for (int i = 0; i < Columns; ++i) some[i] = static_cast<double>(static_cast<float>(from[i]));
  return some;
}
template <int Columns>
SOW_VECTOR void add_some(int64_t* to, I64 whole) {
  for (int i = 0; i < Columns; ++i) to[i] += whole[i];
}
#endif

template <class T>
[[gnu::noinline]] bool add_slowly(int64_t* cells, const ShortItems& items, int64_t i,
                                  const RowScale& scale, RowResiduals& residuals) {
  const auto* from = reinterpret_cast<const T*>(items.src + items.items[i] * items.step);
  return add_short_row(cells, from, items.rows[i], items.columns, scale, residuals);
}

// By the addition of a number of which these are the last digits, as in fixed_point_units.h.
template <class T, int Columns>
bool add_rows(int64_t* cells, const ShortItems& given, const RowScale& scale,
              RowResiduals& residuals) {
  constexpr int kWhole = Columns / kLanes64, kLeft = Columns % kLanes64;
  constexpr int kVectors = kWhole + (kLeft > 0);
  const ShortItems items = given;  // which nothing that is written can change
  const F64 magic = all_of<F64>(std::ldexp(1.5, 52 + scale.exponent));
  const I64 limit = (I64)all_of<F64>(std::min(scale.limit, 0x1p51) / scale.factor);
  const int64_t step = items.step;
  for (int64_t i = 0; i < items.count; ++i) {
    const auto* from = reinterpret_cast<const T*>(items.src + items.items[i] * step);
    int64_t* to = cells + items.rows[i] * int64_t{Columns};
    prefetch_short_rows(cells, Columns * int64_t{8}, items, i);
    I64 whole[kVectors];
    U64 strange = {};  // also -0
    I64 beyond = {};   // negative: a magnitude above the limit, or none
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      F64 values;
      if constexpr (kLeft > 0) {
        values = v < kWhole ? load_wide(from + v * kLanes64)
                            : load_some<kLeft>(from + kWhole * kLanes64);
      } else {
        values = load_wide(from + v * kLanes64);
      }
      const F64 large = values + magic;
      strange |= (U64)(large - magic) ^ (U64)values;
      beyond |= limit - (I64)absolute(values);
      whole[v] = (I64)large - (I64)magic;
    }
    if (__builtin_expect(any(strange | (U64)beyond >> 63), 0)) {
      if (!add_slowly<T>(cells, given, i, scale, residuals)) return false;
      continue;
    }
#pragma GCC unroll 8
    for (int v = 0; v < kWhole; ++v)
      store(to + v * kLanes64, load<I64>(to + v * kLanes64) + whole[v]);
    if constexpr (kLeft > 0) add_some<kLeft>(to + kWhole * kLanes64, whole[kWhole]);
  }
  return true;
}

template <class T, int Columns = kShortColumns>
AddShortRows adder_of(int columns) {
  if constexpr (Columns > 1) {
    return columns == Columns ? add_rows<T, Columns> : adder_of<T, Columns - 1>(columns);
  }
  return add_rows<T, 1>;
}

// Finishes sums that are nothing special, up to the first vector of which some are: returns how
// many; `stopped` is how many come next that are not.
int64_t finish_sums(const int64_t* cells, float* to, int64_t count, double unit, int64_t& stopped) {
  int64_t i = 0;
  for (; i + kLanes64 <= count; i += kLanes64) {
    const I64 cell = load<I64>(cells + i);
    const F64 old = load_wide(to + i), sum = to_float64(cell) * unit, total = old + sum;
    // A float64 holds the cell, nothing is lost, and one rounding is left.
    U64 lost = (U64)(cell + (int64_t{1} << 53)) >> 54;
    lost |= ((U64)((total - old) - sum) | (U64)((total - sum) - old)) << 1;
    lost |= (U64)((I64)old == INT64_MIN);
    if (__builtin_expect(any(lost), 0)) break;
    store(to + i, narrowed(total));
  }
  stopped = std::min<int64_t>(count - i, kLanes64);
  return i;
}

// Keys become rows, negative ones wrapped, and those of interest are listed.
template <class K>
int keep_rows(const ShortKeys& keys, int count, uint32_t* items, uint32_t* rows) {
  const K* from = reinterpret_cast<const K*>(keys.keys);
  const auto extent = static_cast<uint64_t>(keys.extent);
  int found = 0, i = 0;
  bool good = true;
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
  I64 bad = {};
  U32 item = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  item += keys.first;
  for (; i + kLanes32 <= count; i += kLanes32) {
    prefetch_l2(from + i, kShortKeyBytes);
    if (sizeof(K) == 8) prefetch_l2(from + i, kShortKeyBytes + 64);
    HalfI32 places[2];
    for (int half = 0; half < 2; ++half) {
      I64 key;
      if constexpr (sizeof(K) == 8) {
        key = load<I64>(from + i + half * kLanes64);
      } else {
        key = widened(load<HalfI32>(from + i + half * kLanes64));
      }
      const U64 wrapped = (U64)key + extent;
      bad |= (I64)(wrapped >= 2 * extent);
      places[half] = narrowed(key < 0 ? (I64)wrapped : key);
    }
    const U32 row = joined(places[0], places[1]) - keys.lowest;
    const __mmask16 in = _mm512_cmplt_epu32_mask((__m512i)row, (__m512i)all_of<U32>(keys.rows));
    _mm512_storeu_si512(items + found, _mm512_maskz_compress_epi32(in, (__m512i)item));
    _mm512_storeu_si512(rows + found, _mm512_maskz_compress_epi32(in, (__m512i)row));
    found += __builtin_popcount(in);
    item += static_cast<uint32_t>(kLanes32);
  }
  good = !any(bad);
#endif
  for (; i < count; ++i) {
    const auto key = static_cast<uint64_t>(static_cast<int64_t>(from[i]));
    good &= key + extent < 2 * extent;
    const uint64_t wraps = static_cast<uint64_t>(static_cast<int64_t>(key) >> 63) & extent;
    const uint32_t row = static_cast<uint32_t>(key + wraps) - keys.lowest;
    items[found] = keys.first + static_cast<uint32_t>(i);
    rows[found] = row;
    found += row < keys.rows;
  }
  return good ? found : -1;
}

}  // namespace
}  // namespace sow::detail::SOW_LEVEL

#endif
