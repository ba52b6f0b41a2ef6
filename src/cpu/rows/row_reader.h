// SPDX-License-Identifier: Apache-2.0
// Reads the rows of a RowTile into the vectors of one instruction level, a few vectors of columns
// at a time, and prefetches later rows. For files that are compiled for every level.
namespace sow::detail::SOW_LEVEL {
namespace {

// The columns of a vector, as they lie.
template <class T>
using RowBits =
    std::conditional_t<sizeof(T) == 8, F64, std::conditional_t<sizeof(T) == 4, U32, U16>>;
template <class T>
constexpr int kColumns = kVectorBytes / static_cast<int>(sizeof(T));

enum class Rows {
  whole,    // kTileColumns of them
  part,     // fewer: the last vector begins earlier, and has some columns once more
  few,      // fewer than a vector has
  shifted,  // whole, and every row begins at the same place inside a line: lines are read as they
            // lie, which is far quicker than vectors across two of them (3.1 against 5.5 ms)
};
// Levels whose vectors are lines, and that read some lanes of one.
inline constexpr bool kReadsLines = SOW_HAS_X86_KERNELS != 0 && kVectorBytes == 64;

// The first columns of a vector, and no more of the memory.
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
template <class T>
SOW_VECTOR RowBits<T> load_first(const char* from, int columns) {
  const uint32_t in = (1u << columns) - 1;
  if constexpr (sizeof(T) == 8)
    return (F64)_mm512_maskz_loadu_epi64(static_cast<__mmask8>(in), from);
  if constexpr (sizeof(T) == 4)
    return (U32)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(in), from);
  if constexpr (sizeof(T) == 2) return (U16)_mm512_maskz_loadu_epi16(in, from);
}
template <class T>
SOW_VECTOR void store_first(char* to, int columns, RowBits<T> bits) {
  const uint32_t in = (1u << columns) - 1;
  const auto row = (__m512i)bits;
  if constexpr (sizeof(T) == 8) _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(in), row);
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(in), row);
  if constexpr (sizeof(T) == 2) _mm512_mask_storeu_epi16(to, in, row);
}
#else
template <class T>
RowBits<T> load_first(const char* from, int columns);
template <class T>
void store_first(char* to, int columns, RowBits<T> bits);
#endif

// `Vectors` of columns from a column of the tile on.
template <class T, int Vectors, Rows How>
class RowReader {
 public:
  SOW_VECTOR RowReader(const RowTile& tile, int first)
      : tile_(tile), src_(tile.src + first * kSize), old_(tile.dst + first * kSize) {
    if (How == Rows::part) last_ = std::min<int64_t>(last_, tile.columns - first - kColumns<T>);
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
    const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(tile.src) % 64 / 4);
    const U32 order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    order_ = order + shift;
    past_ = static_cast<__mmask16>((1u << shift) - 1);
#endif
  }
  // The column of the reader's first that a vector begins at.
  SOW_VECTOR int64_t column(int i) const {
    return How == Rows::part && i == Vectors - 1 ? last_ : i * kColumns<T>;
  }

  SOW_VECTOR void read(int64_t k, RowBits<T>* out) const {
    const char* const row = src_ + tile_.ids[k] * tile_.src_step;
    if constexpr (How == Rows::shifted) {
      this->read_lines(row, out);
    } else {
      read_from(row, out);
    }
  }
  SOW_VECTOR void read_old(RowBits<T>* out) const { read_from(old_, out); }
  // Where the i-th vector of row k is; null where it is not read as a whole.
  SOW_VECTOR const T* place(int64_t k, int i) const {
    if (How == Rows::shifted || How == Rows::few) return nullptr;
    return reinterpret_cast<const T*>(src_ + tile_.ids[k] * tile_.src_step) + column(i);
  }

  // Into the second-level cache rows that come much later, and from there one that comes soon: but
  // not the line after its last whole one, or more is fetched than anyone asked for.
  SOW_VECTOR void prefetch_row(int64_t k) const {
    if (k < tile_.far_count) prefetch_far(k);
    if (k + kMidRows < tile_.known) prefetch_lines<true>(tile_.ids[k + kMidRows]);
    if (k + kNearRows < tile_.known) prefetch_lines<false>(tile_.ids[k + kNearRows]);
  }
  // What the next row has more than this one.
  SOW_VECTOR void prefetch_remaining() const {
    for (int64_t k = tile_.count; k < tile_.far_count; ++k) prefetch_far(k);
  }

 private:
  static constexpr int64_t kSize = sizeof(T);

  // Of a row: as many lines as it has vectors where one group of them is all of it.
  SOW_VECTOR int64_t bytes() const {
    if (How == Rows::whole || How == Rows::shifted) return kTileColumns * kSize;
    if (How == Rows::few || (kReadsLines && kSize < 8)) return Vectors * kVectorBytes;
    return tile_.columns * kSize;
  }
  template <bool Second>
  SOW_VECTOR void prefetch_lines(uint32_t id) const {
    const char* const row = tile_.src + id * tile_.src_step;
    const int64_t end = bytes();
    for (int64_t i = 0; i < end; i += 64) {
      if constexpr (Second) {
        prefetch_l2(row, i);
      } else {
        prefetch(row, i);
      }
    }
  }
  SOW_VECTOR void prefetch_far(int64_t k) const {
    prefetch_lines<true>(tile_.far[k]);
    prefetch_l2(tile_.src + tile_.far[k] * tile_.src_step, bytes() - 1);
  }
  SOW_VECTOR void read_from(const char* row, RowBits<T>* out) const {
    if constexpr (How == Rows::few) {
      out[0] = load_first<T>(row, tile_.columns);
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < Vectors; ++i) out[i] = load<RowBits<T>>(row + column(i) * kSize);
    }
  }
#if SOW_HAS_X86_KERNELS && SOW_VECTOR_BYTES == 64
  SOW_VECTOR void read_lines(const char* row, RowBits<T>* out) const {
    row = reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(row) & ~uintptr_t{63});
    __m512i line = _mm512_maskz_load_epi32(static_cast<__mmask16>(~past_), row);
#pragma GCC unroll 4
    for (int i = 0; i < Vectors; ++i) {
      const __mmask16 in = i == Vectors - 1 ? past_ : static_cast<__mmask16>(0xffff);
      const __m512i next = _mm512_maskz_load_epi32(in, row + 64 * (i + 1));
      out[i] = (RowBits<T>)_mm512_permutex2var_epi32(line, (__m512i)order_, next);
      line = next;
    }
  }
  U32 order_;
  __mmask16 past_;
#endif

  const RowTile& tile_;
  const char *src_, *old_;
  int64_t last_ = (Vectors - 1) * kColumns<T>;
};

}  // namespace
}  // namespace sow::detail::SOW_LEVEL
