// Moves many rows: a block's threads first work out where its rows lie, one row each, then copy them
// together, W bytes an access.
#pragma once

#include "cuda/decode.cuh"
#include "cuda/runtime.h"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

// Where one row goes and comes from. `to` null: it stays as it is; `from` null: zeros. Steps are the
// bytes from one access to the next.
struct RowMove {
  char* to;
  const char* from;
  int64_t to_step, from_step;
};

// How rows are cut into pieces and shared among blocks.
struct RowTiling {
  int64_t rows, columns;  // columns: accesses of a row
  int64_t pieces;         // a row's
  int piece;              // accesses of a piece
  int tile;               // pieces of a block
  FastDivider divider;    // by piece

  static constexpr int kMostTile = 512, kMostPiece = 2048;

  RowTiling(int64_t row_count, int64_t column_count) : rows(row_count), columns(column_count) {
    piece = static_cast<int>(columns < kMostPiece ? columns : kMostPiece);
    pieces = (columns + piece - 1) / piece;
    tile = kMostPiece / piece;
    if (tile > kMostTile) tile = kMostTile;
    divider.set(static_cast<uint32_t>(piece));
  }
  int blocks() const { return blocks_for(rows * pieces, tile); }
};

// Decode has `bool off()`: whether nothing at all is to be moved, and `RowMove operator()(row, bad)`;
// where keys may be bad here, `told(bad)` hears of it from every thread.
template <int W, class Decode>
__global__ void __launch_bounds__(kThreads) move_tiles(const __grid_constant__ Decode decode,
                                                       const __grid_constant__ RowTiling t) {
  using Unit = WordOf<W>;
  constexpr int kUnroll = 4;
  __shared__ RowMove moves[RowTiling::kMostTile];
  __shared__ int lengths[RowTiling::kMostTile];
  if (decode.off()) return;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * t.tile;
  bool bad = false;
  for (int i = static_cast<int>(threadIdx.x); i < t.tile; i += kThreads) {
    int length = 0;
    RowMove move{};
    if (first + i < t.rows * t.pieces) {
      const int64_t row = t.pieces == 1 ? first + i : (first + i) / t.pieces;
      const int64_t start = (first + i - row * t.pieces) * t.piece;
      move = decode(row, bad);
      if (move.to != nullptr) {
        move.to += start * move.to_step;
        if (move.from != nullptr) move.from += start * move.from_step;
        length = static_cast<int>(min(t.columns - start, static_cast<int64_t>(t.piece)));
      }
    }
    moves[i] = move;
    lengths[i] = length;
  }
  if constexpr (requires { decode.told(bad); }) decode.told(bad);
  __syncthreads();
  const int total = t.tile * t.piece;
  for (int base = static_cast<int>(threadIdx.x); base < total; base += kThreads * kUnroll) {
    Unit value[kUnroll];
    char* to[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int unit = base + u * kThreads;
      to[u] = nullptr;
      if (unit >= total) continue;
      const int i = static_cast<int>(t.divider.quotient(static_cast<uint32_t>(unit)));
      const int column = unit - i * t.piece;
      if (column >= lengths[i]) continue;
      const RowMove& move = moves[i];
      to[u] = move.to + column * move.to_step;
      value[u] = move.from == nullptr ? Unit{} : *reinterpret_cast<const Unit*>(move.from + column * move.from_step);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (to[u] != nullptr) *reinterpret_cast<Unit*>(to[u]) = value[u];
    }
  }
}

// The steps of a problem's rows when W bytes are moved at a time.
struct RowSteps {
  int64_t dst, src;
};
inline RowSteps row_steps(const Problem& p, int width) {
  RowSteps steps;
  steps.dst = width == p.width ? p.row_dst * p.width : width;
  steps.src = p.src == nullptr ? 0 : width == p.width ? p.row_src * p.width : width;
  return steps;
}

template <class Decode>
void launch_moves(int width, const Decode& decode, const RowTiling& tiling, cudaStream_t stream) {
  with_width(width, [&](auto w) {
    move_tiles<decltype(w)::value><<<tiling.blocks(), kThreads, 0, stream>>>(decode, tiling);
  });
  check_launch("move");
}

}  // namespace sow::detail::cuda
