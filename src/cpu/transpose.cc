// Transposes in tiles, so that the lines of both sides stay in the first-level cache.
#include "cpu/transpose.h"

#include <algorithm>

#include "cpu/word.h"

namespace sow::detail {
namespace {

// A small square is read whole before it is written: the compiler keeps it in registers and
// shuffles there.
template <int Width, int Side>
void transpose_square(const char* src, int64_t src_column, char* dst, int64_t dst_row) {
  using Element = Word<Width>;
  Element square[Side][Side];
  for (int c = 0; c < Side; ++c) {
    __builtin_memcpy(square[c], src + c * src_column * Width, Side * Width);
  }
  for (int r = 0; r < Side; ++r) {
    Element row[Side];
    for (int c = 0; c < Side; ++c) row[c] = square[c][r];
    __builtin_memcpy(dst + r * dst_row * Width, row, Side * Width);
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
  constexpr int side = Width >= 8 ? 4 : 8;
  constexpr int64_t tile = Width >= 8 ? 16 : 32;  // columns: a cache line and more of each row
  const bool unit = tiles.dst_column == 1 && tiles.src_row == 1;
  const int64_t rows = unit ? tiles.rows / side * side : 0;
  const int64_t columns = unit ? tiles.columns / side * side : 0;
  for (int64_t first = 0; first < tiles.columns; first += tile) {
    const int64_t end = std::min(first + tile, tiles.columns);
    const int64_t squares = std::min(end, columns);
    for (int64_t r = 0; r < rows; r += side) {
      for (int64_t c = first; c < squares; c += side) {
        transpose_square<Width, side>(tiles.src + (r + c * tiles.src_column) * Width,
                                      tiles.src_column, tiles.dst + (r * tiles.dst_row + c) * Width,
                                      tiles.dst_row);
      }
    }
    copy_plain<Width>(tiles, 0, rows, std::max(first, squares), end);
    copy_plain<Width>(tiles, rows, tiles.rows, first, end);
  }
}

}  // namespace

void copy_tiles(const Tiles& tiles, size_t width) {
  with_width(width, [&](auto constant) { copy_tiles_of<decltype(constant)::value>(tiles); });
}

}  // namespace sow::detail
