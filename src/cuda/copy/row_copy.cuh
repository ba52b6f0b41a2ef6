// SPDX-License-Identifier: Apache-2.0
// Copies many rows: the threads of a block first work out where its rows lie, one row each, then
// copy them together, W bytes per access.
#pragma once

#include "cuda/common/decode.cuh"
#include "cuda/common/vector.cuh"
#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

// Where one row goes and comes from. `to` null: it stays as it is; `from` null: zeros. Steps are
// the bytes from one access to the next.
struct RowCopy {
  char* to;
  const char* from;
  int64_t to_step, from_step;
};

// How rows are cut into parts and shared among blocks.
struct RowTiling {
  int64_t rows, columns;  // columns: accesses of a row
  int64_t parts;          // a row's
  int part;               // accesses of a part
  int tile;               // parts of a block
  FastDivider divider;    // by part

  static constexpr int kMostTile = 512, kMostPart = 2048, kFewBlocks = 256;

  RowTiling(int64_t row_count, int64_t column_count) : rows(row_count), columns(column_count) {
    part = static_cast<int>(columns < kMostPart ? columns : kMostPart);
    parts = (columns + part - 1) / part;
    tile = kMostPart / part;
    if (tile > kMostTile) tile = kMostTile;
    // Few rows are spread over more blocks, down to an access a thread.
    while (tile > 1 && tile * part > kThreads && rows * parts < int64_t{kFewBlocks} * tile)
      tile = (tile + 1) / 2;
    divider.set(static_cast<uint32_t>(part));
  }
  int blocks() const { return blocks_for(rows * parts, tile); }
};

// Decode has `bool off()`: whether nothing at all is to be moved, and `RowCopy operator()(row,
// bad)`; where keys may be bad here, `told(bad)` hears of it from every thread.
template <int W, class Decode>
__global__ void __launch_bounds__(kThreads)
    copy_tiles(const __grid_constant__ Decode decode, const __grid_constant__ RowTiling t) {
  using Unit = WordOf<W>;
  constexpr int kUnroll = 4;
  __shared__ RowCopy copies[RowTiling::kMostTile];
  __shared__ int lengths[RowTiling::kMostTile];
  if (decode.off()) return;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * t.tile;
  bool bad = false;
  for (int i = static_cast<int>(threadIdx.x); i < t.tile; i += kThreads) {
    int length = 0;
    RowCopy copy{};
    if (first + i < t.rows * t.parts) {
      const int64_t row = t.parts == 1 ? first + i : (first + i) / t.parts;
      const int64_t start = (first + i - row * t.parts) * t.part;
      copy = decode(row, bad);
      if (copy.to != nullptr) {
        copy.to += start * copy.to_step;
        if (copy.from != nullptr) copy.from += start * copy.from_step;
        length = static_cast<int>(min(t.columns - start, static_cast<int64_t>(t.part)));
      }
    }
    copies[i] = copy;
    lengths[i] = length;
  }
  if constexpr (requires { decode.told(bad); }) decode.told(bad);
  __syncthreads();
  const int total = t.tile * t.part;
  for (int base = static_cast<int>(threadIdx.x); base < total; base += kThreads * kUnroll) {
    Unit value[kUnroll];
    char* to[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int unit = base + u * kThreads;
      to[u] = nullptr;
      if (unit >= total) continue;
      const int i = static_cast<int>(t.divider.quotient(static_cast<uint32_t>(unit)));
      const int column = unit - i * t.part;
      if (column >= lengths[i]) continue;
      const RowCopy& copy = copies[i];
      to[u] = copy.to + column * copy.to_step;
      value[u] = copy.from == nullptr
                     ? Unit{}
                     : *reinterpret_cast<const Unit*>(copy.from + column * copy.from_step);
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
void launch_copies(int width, const Decode& decode, const RowTiling& tiling, cudaStream_t stream) {
  with_width(width, [&](auto w) {
    copy_tiles<decltype(w)::value><<<tiling.blocks(), kThreads, 0, stream>>>(decode, tiling);
  });
  check_launch("copy");
}

}  // namespace sow::detail::cuda
