// Reads the rows of a RowTile into AVX-512 registers, and asks for later ones. For files that are
// compiled for x86 only.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "core/exact/exact_rows.h"
#include "cpu/rows/row_tile.h"

namespace sow::detail {

// Rows are read in pieces of a cache line.
enum class Rows {
  whole,    // as many columns as fit the pieces
  part,     // the last piece is not full
  shifted,  // whole, and every row begins at the same place inside a line: lines are read as they
            // lie, which is far quicker than pieces across two of them (3.1 against 5.5 ms)
};

// Where the elements of a piece are.
template <class T>
using Lanes = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask32>;
SOW_TARGET_AVX512 SOW_INLINE __m512i load_lanes(const char* from, __mmask16 in) {
  return _mm512_maskz_loadu_epi32(in, from);
}
SOW_TARGET_AVX512 SOW_INLINE __m512i load_lanes(const char* from, __mmask32 in) {
  return _mm512_maskz_loadu_epi16(in, from);
}
SOW_TARGET_AVX512 SOW_INLINE void store_lanes(char* to, __mmask16 in, __m512i bits) {
  _mm512_mask_storeu_epi32(to, in, bits);
}
SOW_TARGET_AVX512 SOW_INLINE void store_lanes(char* to, __mmask32 in, __m512i bits) {
  _mm512_mask_storeu_epi16(to, in, bits);
}

template <class T, int Pieces, Rows How>
struct RowReader {
  static constexpr int kLanes = 64 / static_cast<int>(sizeof(T));
  static constexpr int kBytes = 64 * Pieces;
  static constexpr Lanes<T> kAll = static_cast<Lanes<T>>(~Lanes<T>{0});

  SOW_TARGET_AVX512 SOW_INLINE explicit RowReader(const RowTile& tile) : tile_(tile) {
    tail_ =
        How == Rows::part ? static_cast<Lanes<T>>(kAll >> (kLanes * Pieces - tile.columns)) : kAll;
    if constexpr (How == Rows::shifted) {
      const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(tile.src) % 64 / 4);
      const __m512i order = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
      order_ = _mm512_add_epi32(order, _mm512_set1_epi32(shift));
      past_ = static_cast<__mmask16>((1 << shift) - 1);
    }
  }
  SOW_TARGET_AVX512 SOW_INLINE Lanes<T> lanes(int i) const {
    return i == Pieces - 1 ? tail_ : kAll;
  }

  SOW_TARGET_AVX512 SOW_INLINE void read(int64_t k, __m512i* pieces) const {
    const char* row = tile_.src + tile_.ids[k] * tile_.src_step;
    if constexpr (How == Rows::shifted) {
      row = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(row) & ~uintptr_t{63});
      __m512i line = _mm512_maskz_load_epi32(static_cast<__mmask16>(~past_), row);
#pragma GCC unroll 4
      for (int i = 0; i < Pieces; ++i) {
        const __mmask16 in = i == Pieces - 1 ? past_ : static_cast<__mmask16>(0xffff);
        const __m512i next = _mm512_maskz_load_epi32(in, row + 64 * (i + 1));
        pieces[i] = _mm512_permutex2var_epi32(line, order_, next);
        line = next;
      }
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < Pieces; ++i) pieces[i] = load_lanes(row + 64 * i, lanes(i));
    }
  }
  SOW_TARGET_AVX512 SOW_INLINE void read_old(__m512i* pieces) const {
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) pieces[i] = load_lanes(tile_.dst + 64 * i, lanes(i));
  }

  // Into the second-level cache rows that come much later, and from there one that comes soon:
  // but not the line after its last whole one, or more is fetched than anyone asked for.
  SOW_TARGET_AVX512 SOW_INLINE void prefetch_row(int64_t k) const {
    if (k < tile_.far_count) prefetch_far(k);
    if (k + kMidRows < tile_.known) {
      const char* mid = tile_.src + tile_.ids[k + kMidRows] * tile_.src_step;
#pragma GCC unroll 4
      for (int i = 0; i < Pieces; ++i) _mm_prefetch(mid + 64 * i, _MM_HINT_T1);
    }
    if (k + kNearRows >= tile_.known) return;
    const char* near = tile_.src + tile_.ids[k + kNearRows] * tile_.src_step;
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) _mm_prefetch(near + 64 * i, _MM_HINT_T0);
  }
  // What the next row has more than this one.
  SOW_TARGET_AVX512 SOW_INLINE void prefetch_remaining() const {
    for (int64_t k = tile_.count; k < tile_.far_count; ++k) prefetch_far(k);
  }

 private:
  SOW_TARGET_AVX512 SOW_INLINE void prefetch_far(int64_t k) const {
    const char* row = tile_.src + tile_.far[k] * tile_.src_step;
#pragma GCC unroll 4
    for (int i = 0; i < Pieces; ++i) _mm_prefetch(row + 64 * i, _MM_HINT_T1);
    _mm_prefetch(row + kBytes - 1, _MM_HINT_T1);
  }

  const RowTile& tile_;
  Lanes<T> tail_;
  __m512i order_;
  __mmask16 past_;
};

}  // namespace sow::detail
