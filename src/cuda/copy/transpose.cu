// SPDX-License-Identifier: Apache-2.0
// Strategy transpose: strided copies that are dense along different axes on the two sides, through
// tiles in shared memory, so that both sides are accessed in whole lines.
#include "cuda/common/decode.cuh"
#include "cuda/common/vector.cuh"
#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

// Elements of a tile's side: many loads in flight, in runs of 256 bytes (32 elements a
// side: 3.15 ms for 4.3 GB of float32, H200, 2026-11-15).
template <int W>
constexpr int kTileSide = W <= 4 ? 64 : 32;

struct TransposeArgs {
  char* dst;
  const char* src;
  // The destination is dense along `fast`, the source along `slow`.
  int64_t fast, fast_dst, fast_src, slow, slow_dst, slow_src;
  int64_t fast_tiles, slow_tiles;
  Walk rest;  // all other dimensions
};

template <int W>
__global__ void __launch_bounds__(kThreads)
    transpose_tiles(const __grid_constant__ TransposeArgs a) {
  using Unit = WordOf<W>;
  constexpr int kSide = kTileSide<W>, kTileRows = kThreads / kSide;
  __shared__ Unit tile[kSide][kSide + 1];
  const int64_t tiles = a.fast_tiles * a.slow_tiles, which = blockIdx.x / tiles,
                in_tiles = blockIdx.x - which * tiles;
  const int64_t slow_tile = in_tiles / a.fast_tiles;
  const int64_t fast = (in_tiles - slow_tile * a.fast_tiles) * kSide, slow = slow_tile * kSide;
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  int64_t at[2] = {};
  if (a.rest.rank != 0) walk_to(a.rest, which, 2, at);
  const Unit* src = reinterpret_cast<const Unit*>(a.src) + at[1];
  Unit* dst = reinterpret_cast<Unit*>(a.dst) + at[0];
#pragma unroll
  for (int j = 0; j < kSide; j += kTileRows) {
    if (fast + y + j < a.fast && slow + x < a.slow) {
      tile[y + j][x] = src[(fast + y + j) * a.fast_src + (slow + x) * a.slow_src];
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kSide; j += kTileRows) {
    if (slow + y + j < a.slow && fast + x < a.fast) {
      dst[(slow + y + j) * a.slow_dst + (fast + x) * a.fast_dst] = tile[x][y + j];
    }
  }
}

int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }

// The free dimension along which the source is dense while its rows are not, or -1.
int dense_axis(const Problem& p) {
  if (p.row < 8 || distance(p.row_src) <= 1) return -1;
  for (int i = 0; i < p.free.rank; ++i) {
    const WalkAxis& axis = p.free.axis[i];
    if (axis.stride[1] == 1 && axis.size >= 8 && axis.stride[0] != 1) return i;
  }
  return -1;
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  return c.transfer.mask_side == MaskSide::none && p.reduce == Reduce::assign &&
         c.transfer.dst_index.empty() && c.transfer.src_index.empty() && p.src != nullptr &&
         !p.materialised && p.positions() == 1 && dense_axis(p) >= 0;
}

// Less than moving row by row, which reads a whole sector for every element.
double cost(const Case& c) {
  return kLaunchNs + 1.5 * static_cast<double>(c.problem.columns()) * c.problem.width / kBytesPerNs;
}

void run(const Launch& launch) {
  const Problem& p = launch.problem;
  const int dense = dense_axis(p);
  const WalkAxis& slow = p.free.axis[dense];
  TransposeArgs a = {p.dst,          p.src,          p.row, p.row_dst, p.row_src, slow.size,
                     slow.stride[0], slow.stride[1], 0,     0,         {}};
  for (int i = 0; i < p.free.rank; ++i) {
    if (i != dense) a.rest.push(p.free.axis[i].size, p.free.axis[i].stride, 2);
  }
  a.rest.finish();
  with_width(p.width, [&](auto w) {
    constexpr int kSide = kTileSide<decltype(w)::value>;
    a.fast_tiles = (a.fast + kSide - 1) / kSide;
    a.slow_tiles = (a.slow + kSide - 1) / kSide;
    const int blocks = blocks_for(a.fast_tiles * a.slow_tiles * a.rest.count, 1);
    transpose_tiles<decltype(w)::value><<<blocks, kThreads, 0, launch.stream>>>(a);
  });
  check_launch("transpose");
}

}  // namespace

const Strategy k_transpose = {
    "transpose", "strided copy through tiles in shared memory", supports, cost, nullptr, run};

}  // namespace sow::detail::cuda
