// SPDX-License-Identifier: Apache-2.0
// Transposes in tiles, so that each cache line of both sides is touched once.
#include "cpu/copy/transpose.h"

#include <algorithm>

#include "cpu/common/byte_width.h"

namespace sow::detail {
namespace {

template <int Width>
constexpr int kLine = 64 / Width;  // elements of a cache line

// The sides of the squares that fit into registers.
template <int Width>
constexpr int kSide = Width == 16  ? 1
                      : Width == 8 ? 2
                      : Width == 4 ? 4
                                   : 8;

// A small square is read whole before it is written; for 1, 2 and 16 bytes the compiler finds the
// shuffles by itself.
template <int Width>
void transpose_square(const char* src, int64_t src_column, char* dst, int64_t dst_row) {
  constexpr int side = kSide<Width>;
  Word<Width> square[side][side];
  for (int c = 0; c < side; ++c) {
    __builtin_memcpy(square[c], src + c * src_column * Width, side * Width);
  }
  for (int r = 0; r < side; ++r) {
    Word<Width> row[side];
    for (int c = 0; c < side; ++c) row[c] = square[c][r];
    __builtin_memcpy(dst + r * dst_row * Width, row, side * Width);
  }
}

template <class Vector>
Vector load(const char* from) {
  Vector value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

template <>
void transpose_square<4>(const char* src, int64_t src_column, char* dst, int64_t dst_row) {
  using Vector __attribute__((vector_size(16))) = uint32_t;
  const auto a = load<Vector>(src);
  const auto b = load<Vector>(src + src_column * 4);
  const auto c = load<Vector>(src + src_column * 8);
  const auto d = load<Vector>(src + src_column * 12);
  const Vector ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5);
  const Vector ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
  const Vector bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5);
  const Vector bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  const Vector rows[4] = {__builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5),
                          __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7),
                          __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5),
                          __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7)};
  for (int r = 0; r < 4; ++r) __builtin_memcpy(dst + r * dst_row * 4, &rows[r], 16);
}

template <>
void transpose_square<8>(const char* src, int64_t src_column, char* dst, int64_t dst_row) {
  using Vector __attribute__((vector_size(16))) = uint64_t;
  const auto a = load<Vector>(src);
  const auto b = load<Vector>(src + src_column * 8);
  const Vector first = __builtin_shufflevector(a, b, 0, 2);
  const Vector second = __builtin_shufflevector(a, b, 1, 3);
  __builtin_memcpy(dst, &first, 16);
  __builtin_memcpy(dst + dst_row * 8, &second, 16);
}

// A square whose sides are a cache line. With strides of a power of two all its lines fall into
// one set of the cache: through a buffer each is read once and written once, whole.
template <int Width>
void transpose_lines(const char* src, int64_t src_column, char* dst, int64_t dst_row) {
  constexpr int side = kSide<Width>;
  constexpr int line = kLine<Width>;
  alignas(64) char buffer[line * 64];
  for (int c = 0; c < line; ++c) {
    const char* from = src + c * src_column * Width;
    __builtin_prefetch(from + line * src_column * Width);  // a tile ahead; no prefetcher sees it
    __builtin_memcpy(buffer + c * 64, from, 64);
  }
  for (int r = 0; r < line; r += side) {
    for (int c = 0; c < line; c += side) {
      transpose_square<Width>(buffer + c * 64 + r * Width, line, dst + (r * dst_row + c) * Width,
                              dst_row);
    }
  }
}

template <int Width>
void copy_plain(const Tiles& tiles, int64_t row, int64_t row_end, int64_t column,
                int64_t column_end) {
  auto* dst = reinterpret_cast<Word<Width>*>(tiles.dst);
  const auto* src = reinterpret_cast<const Word<Width>*>(tiles.src);
  for (int64_t r = row; r < row_end; ++r) {
    for (int64_t c = column; c < column_end; ++c) {
      dst[r * tiles.dst_row + c * tiles.dst_column] = src[r * tiles.src_row + c * tiles.src_column];
    }
  }
}

template <int Width>
void copy_tiles_of(const Tiles& tiles) {
  constexpr int64_t line = kLine<Width>;
  const bool unit = tiles.dst_column == 1 && tiles.src_row == 1;
  const int64_t rows = unit ? tiles.rows / line * line : 0;
  for (int64_t first = 0; first < tiles.columns; first += line) {
    const int64_t end = std::min(first + line, tiles.columns);
    const int64_t whole = end - first == line ? rows : 0;
    for (int64_t r = 0; r < whole; r += line) {
      transpose_lines<Width>(tiles.src + (r + first * tiles.src_column) * Width, tiles.src_column,
                             tiles.dst + (r * tiles.dst_row + first) * Width, tiles.dst_row);
    }
    copy_plain<Width>(tiles, whole, tiles.rows, first, end);
  }
}

}  // namespace

void copy_tiles(const Tiles& tiles, size_t width) {
  with_width(width, [&](auto constant) { copy_tiles_of<decltype(constant)::value>(tiles); });
}

}  // namespace sow::detail
