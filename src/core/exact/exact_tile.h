// SPDX-License-Identifier: Apache-2.0
// A block of columns whose checked sums stay in vector registers while rows are added: what makes
// an exact row fold run at the speed of memory.
#pragma once

#include <cstdint>

#include "core/exact/exact_rows.h"

namespace sow::detail {

// The vectors of one register width. Written out because g++ 12 has no __builtin_convertvector for
// vectors whose width is a template parameter. They travel by reference: by value they would tie
// the calling convention.
template <int VectorBytes>
struct VectorTypes;
template <>
struct VectorTypes<16> {
  typedef double Wide __attribute__((vector_size(16)));
  typedef uint64_t WideBits __attribute__((vector_size(16)));
  typedef float Single __attribute__((vector_size(8)));
  typedef uint32_t SingleBits __attribute__((vector_size(8)));
  typedef uint16_t Half __attribute__((vector_size(4)));
  SOW_INLINE static void convert(const Single& from, Wide& to) {
    to = __builtin_convertvector(from, Wide);
  }
  SOW_INLINE static void convert(const Half& from, SingleBits& to) {
    to = __builtin_convertvector(from, SingleBits);
  }
};
template <>
struct VectorTypes<32> {
  typedef double Wide __attribute__((vector_size(32)));
  typedef uint64_t WideBits __attribute__((vector_size(32)));
  typedef float Single __attribute__((vector_size(16)));
  typedef uint32_t SingleBits __attribute__((vector_size(16)));
  typedef uint16_t Half __attribute__((vector_size(8)));
  SOW_INLINE static void convert(const Single& from, Wide& to) {
    to = __builtin_convertvector(from, Wide);
  }
  SOW_INLINE static void convert(const Half& from, SingleBits& to) {
    to = __builtin_convertvector(from, SingleBits);
  }
};
template <>
struct VectorTypes<64> {
  typedef double Wide __attribute__((vector_size(64)));
  typedef uint64_t WideBits __attribute__((vector_size(64)));
  typedef float Single __attribute__((vector_size(32)));
  typedef uint32_t SingleBits __attribute__((vector_size(32)));
  typedef uint16_t Half __attribute__((vector_size(16)));
  SOW_INLINE static void convert(const Single& from, Wide& to) {
    to = __builtin_convertvector(from, Wide);
  }
  SOW_INLINE static void convert(const Half& from, SingleBits& to) {
    to = __builtin_convertvector(from, SingleBits);
  }
};

// Exact widening loads, in float64 lanes.
template <int VectorBytes>
struct Lanes : VectorTypes<VectorBytes> {
  static constexpr int kCount = VectorBytes / 8;
  using Types = VectorTypes<VectorBytes>;
  using typename Types::Half;
  using typename Types::Single;
  using typename Types::SingleBits;
  using typename Types::Wide;

  SOW_INLINE static void load(const double* from, Wide& to) {
    __builtin_memcpy(&to, from, sizeof(Wide));
  }
  SOW_INLINE static void load(const float* from, Wide& to) {
    Single values;
    __builtin_memcpy(&values, from, sizeof(Single));
    Types::convert(values, to);
  }
  SOW_INLINE static void load(const bfloat16* from, Wide& to) {
    Half halves;
    __builtin_memcpy(&halves, from, sizeof(Half));
    SingleBits bits;
    Types::convert(halves, bits);
    Types::convert((Single)(bits << 16), to);
  }
  SOW_INLINE static void load(const float16* from, Wide& to) {
    Half halves;
    __builtin_memcpy(&halves, from, sizeof(Half));
    SingleBits bits;
    Types::convert(halves, bits);
    const SingleBits magnitude = (bits & 0x7fffu) << 13;
    const Single finite = (Single)magnitude * 0x1p112f;
    // 0x1p16 and above stand for infinities and NaN.
    const SingleBits special = (SingleBits)(finite >= 0x1p16f) & 0x7f800000u;
    const SingleBits signed_bits = (SingleBits)finite | special | ((bits & 0x8000u) << 16);
    Types::convert((Single)signed_bits, to);
  }
};

// Columns must fill whole vectors. With AVX-512 64 columns in one part use 16 of 32 registers; two
// parts, or the 16 registers of AVX2, want fewer. Against a plain fold of 10 random rows of 64 out
// of 128 MB: float32 1.04 to 1.06 times, float64 (32 columns) 1.06 (2 cores of a Zen 4 class EPYC,
// 2026-11-15). On a busy machine, so with less certainty: checked_add_row instead 1.3 and 1.8, but
// for the halves with AVX-512 quicker than the tile, because g++ 12 widens vectors of halves in
// pieces.
template <class T, int VectorBytes, int Columns, int Parts = kCheckedParts<T>>
class FoldTile {
  using Vectors = Lanes<VectorBytes>;
  using Wide = typename Vectors::Wide;
  using WideBits = typename Vectors::WideBits;
  static constexpr int kVectors = Columns / Vectors::kCount;
  static_assert(kVectors * Vectors::kCount == Columns);

 public:
  SOW_INLINE FoldTile() {
    for (int i = 0; i < kVectors; ++i) {
      high_[i] = -Wide{};
      lost_[i] = Wide{};
      if constexpr (Parts == 2) low_[i] = Wide{};
    }
  }

  SOW_INLINE void add(const T* row) {
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      Wide term;
      Vectors::load(row + i * Vectors::kCount, term);
      Wide error;
      two_sum(high_[i], term, error);
      if constexpr (Parts == 2) {
        const Wide carried = error;
        two_sum(low_[i], carried, error);
      }
      lost_[i] += (Wide)((WideBits)error & ~FloatTraits<double>::kSign);
    }
  }

  // As checked_finish_row; out and flagged have room for Columns.
  template <class Target>
  SOW_INLINE bool finish(Target* out, uint8_t* flagged) const {
    double high[Columns];
    double lost[Columns];
    store(high_, high);
    store(lost_, lost);
    if constexpr (Parts == 2) {
      double low[Columns];
      store(low_, low);
      return checked_finish_row<T>(high, low, lost, Columns, out, flagged);
    } else {
      return checked_finish_row<T>(high, lost, Columns, out, flagged);
    }
  }

  // The sums as checked_add_row keeps them, for folds that are cut into pieces.
  SOW_INLINE void spill(double* high, double* lost) const {
    store(high_, high);
    store(lost_, lost);
  }
  SOW_INLINE void spill(double* high, double* low, double* lost) const {
    static_assert(Parts == 2);
    store(high_, high);
    store(low_, low);
    store(lost_, lost);
  }

 private:
  // sum becomes sum + term, and what that rounds away is the error.
  SOW_INLINE static void two_sum(Wide& sum, const Wide& term, Wide& error) {
    const Wide before = sum;
    sum = before + term;
    const Wide part = sum - before;
    error = (before - (sum - part)) + (term - part);
  }
  SOW_INLINE static void store(const Wide* from, double* to) {
    for (int i = 0; i < kVectors; ++i)
      __builtin_memcpy(to + i * Vectors::kCount, &from[i], sizeof(Wide));
  }

  Wide high_[kVectors];
  Wide lost_[kVectors];
  Wide low_[Parts == 2 ? kVectors : 1];
};

}  // namespace sow::detail
