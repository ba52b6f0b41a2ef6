// SPDX-License-Identifier: Apache-2.0
// Strategy mask_rows: masks that choose whole rows, because they are broadcast along the trailing
// dimensions; each row is copied by the rank of its true, and the mask is never expanded.
#include <algorithm>
#include <cstring>

#include "cuda/copy/row_copy.cuh"
#include "cuda/mask/mask.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

// row_rank[m] becomes the rank of mask position m, or -1 where it is false.
__global__ void __launch_bounds__(kThreads)
    rank_rows(const __grid_constant__ MaskProblem p, int64_t tiles,
              const __grid_constant__ MaskRanks ranks, int64_t* row_rank) {
  const bool bad = is_bad(ranks.flag);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kMaskTile + threadIdx.x * kMaskPerThread;
    const uint32_t bits = bad ? 0 : read_mask(p, first);
    int total = 0;
    int64_t rank =
        scan_block(__popc(bits), total) + (ranks.part == nullptr ? 0 : rank_of_tile(ranks, tile));
    for (int i = 0; i < kMaskPerThread && first + i < p.mask_count; ++i) {
      row_rank[first + i] = (bits >> i) & 1 ? rank++ : -1;
    }
  }
}

constexpr int kFewTiles = 16, kFewThreads = 1024;
constexpr int kFewGroups = kFewTiles * kMaskTile / kMaskPerThread / kFewThreads;  // a thread's
constexpr int kFewRows = 512;  // of a block, at most

struct RankedRows {
  MaskProblem p;
  int64_t step[4];  // bytes from one access to the next, of each operand
  bool whole_rows;  // else every row has one element
  const int64_t* row_rank;

  __device__ bool off() const { return false; }
  __device__ RowCopy operator()(int64_t row, bool&) const {
    const int64_t m = whole_rows ? row : row / p.row;
    return move(m, row, row_rank[m]);
  }
  // Mask position m, of that rank or -1; `row` is its number among all rows.
  __device__ RowCopy move(int64_t m, int64_t row, int64_t rank) const {
    if (rank < 0 && p.base == nullptr) return {};
    int64_t at[4] = {};
    if (whole_rows) {
      walk_to(p.mask_walk, m, 4, at);
    } else if (p.tables[0] != nullptr) {
      for (int k = 0; k < 4; ++k) at[k] = p.tables[k][row];
    } else {
      walk_to(p.walk, row, 4, at);
    }
    const int64_t ranked = (rank * p.row + (whole_rows ? 0 : row - m * p.row)) * p.rank_stride;
    const int64_t dst = p.side == MaskSide::destination ? ranked : at[MaskProblem::kDst];
    const int64_t src = p.side == MaskSide::source ? ranked : at[MaskProblem::kSrc];
    char* to = p.dst + dst * p.width;
    if (rank < 0)
      return {to, p.base + at[MaskProblem::kBase] * p.width, step[MaskProblem::kDst],
              step[MaskProblem::kBase]};
    const char* from =
        p.src == nullptr ? reinterpret_cast<const char*>(p.scalar) : p.src + src * p.width;
    return {to, from, step[MaskProblem::kDst], step[MaskProblem::kSrc]};
  }
};

// A small mask of whole rows in one launch: every block ranks the whole mask, and copies its share
// of the rows; where the others stay as they are, its share of those that are chosen.
template <int W>
__global__ void __launch_bounds__(kFewThreads)
    move_few_rows(const __grid_constant__ RankedRows rows, int columns,
                  const __grid_constant__ FastDivider divider,
                  const __grid_constant__ MaskReporter reporter) {
  using Unit = WordOf<W>;
  __shared__ int warp_sums[kFewThreads / 32];
  __shared__ RowCopy moves[kFewRows];
  const MaskProblem& p = rows.p;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int groups = static_cast<int>((p.mask_count + kMaskPerThread - 1) / kMaskPerThread);
  const int each = (groups + kFewThreads - 1) / kFewThreads;
  uint32_t bits[kFewGroups];
  int mine = 0;
#pragma unroll
  for (int g = 0; g < kFewGroups; ++g) {
    const int group = thread * each + g;
    bits[g] =
        g < each && group < groups ? read_mask(p, static_cast<int64_t>(group) * kMaskPerThread) : 0;
    mine += __popc(bits[g]);
  }
  int inclusive = mine;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  const int sum = warp_sums[lane];  // as many warps as lanes
  const int all = __reduce_add_sync(~0u, sum);
  int rank = __reduce_add_sync(~0u, lane < warp ? sum : 0) + inclusive - mine;
  const bool bad = p.side != MaskSide::skip && static_cast<int64_t>(all) * p.row > p.rank_limit;
  if (bad && blockIdx.x == 0 && thread == 0) reporter.keep_trues(static_cast<int64_t>(all) * p.row);
  const bool in_place = p.base == nullptr;
  if (bad && in_place) return;
  // This block's share: of ranks in place, of mask positions otherwise.
  const int64_t total = in_place ? all : p.mask_count;
  const int begin = static_cast<int>(total * blockIdx.x / gridDim.x);
  const int end = static_cast<int>(total * (blockIdx.x + 1) / gridDim.x);
#pragma unroll
  for (int g = 0; g < kFewGroups; ++g) {
    const int first = (thread * each + g) * kMaskPerThread;
    if (g >= each || first >= p.mask_count) break;
    if (in_place) {
      if (rank + __popc(bits[g]) <= begin || rank >= end) {
        rank += __popc(bits[g]);
        continue;
      }
      for (uint32_t rest = bits[g]; rest != 0; rest &= rest - 1, ++rank) {
        const int m = first + __ffs(static_cast<int>(rest)) - 1;
        if (rank >= begin && rank < end) moves[rank - begin] = rows.move(m, m, rank);
      }
      continue;
    }
    for (int i = 0; i < kMaskPerThread && first + i < p.mask_count; ++i) {
      const bool chosen = (bits[g] >> i) & 1;
      if (first + i >= begin && first + i < end)
        moves[first + i - begin] = rows.move(first + i, first + i, chosen && !bad ? rank : -1);
      rank += chosen;
    }
  }
  __syncthreads();
  constexpr int kUnroll = 4;
  const int units = (end - begin) * columns;
  for (int base = thread; base < units; base += kFewThreads * kUnroll) {
    Unit value[kUnroll];
    char* to[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int unit = base + u * kFewThreads;
      to[u] = nullptr;
      if (unit >= units) continue;
      const int i = static_cast<int>(divider.quotient(static_cast<uint32_t>(unit)));
      const int column = unit - i * columns;
      const RowCopy& move = moves[i];
      to[u] = move.to + column * move.to_step;
      value[u] = *reinterpret_cast<const Unit*>(move.from + column * move.from_step);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (to[u] != nullptr) *reinterpret_cast<Unit*>(to[u]) = value[u];
    }
  }
}

int64_t element_step(const MaskProblem& p, int slot) {
  const bool ranked = (slot == MaskProblem::kDst && p.side == MaskSide::destination) ||
                      (slot == MaskProblem::kSrc && p.side == MaskSide::source);
  return ranked ? p.rank_stride : p.row_stride[slot];
}

// The widest access that all rows allow.
int access_width(const MaskProblem& p) {
  if (!p.row_is_axis || p.tables[0] != nullptr) return p.width;
  int64_t all = 16 | p.row * p.width;
  const char* data[4] = {nullptr, p.dst, p.src, p.base};
  for (int slot = 1; slot < 4; ++slot) {
    if (data[slot] == nullptr) continue;
    all |= static_cast<int64_t>(reinterpret_cast<uintptr_t>(data[slot]));
    if (element_step(p, slot) != 1) all |= p.width;
    for (int i = 0; i + 1 < p.walk.rank; ++i) all |= p.walk.axis[i].stride[slot] * p.width;
  }
  return std::max(static_cast<int>(all & -all), p.width);
}

bool supports(const Case& c) { return c.transfer.mask_side != MaskSide::none && c.mask.row != 1; }

double cost(const Case&) { return 1; }  // the only one for its problems

// Whole rows, not so long that a block's share of them could not be numbered.
bool is_few(const MaskProblem& p) {
  return mask_tiles(p) <= kFewTiles && p.row_is_axis && p.walk.rank > 0 && p.row < (1 << 20);
}

void lay_out(const Case& c, Plan& plan) {
  const MaskProblem& p = c.mask;
  plan.reports = true;  // the first block that ranks few rows does, or the scan
  if (is_few(p)) {
    plan.variant = "ranks and rows in one launch";
    return;
  }
  Carver carver(nullptr);
  carve_ranks(carver, mask_tiles(p), false);
  carver.take<int64_t>(p.mask_count);
  carver.take<char>(static_cast<int64_t>(materialised_bytes(p)));
  plan.workspace = carver.used();
  plan.zeroed = sizeof(ScanHead);
}

void rank(const Launch& launch, const MaskProblem& p, MaskRanks ranks, int64_t* row_rank) {
  const int64_t tiles = mask_tiles(p);
  if (p.side == MaskSide::skip) {
    ranks = {};
  } else if (launch.transfer.mask_ranks != nullptr) {
    ranks = kept_ranks(launch.transfer, tiles);
  } else {
    const MaskReporter reporter = make_mask_reporter(launch.context, launch.transfer);
    scan_mask(p, ranks, reinterpret_cast<ScanHead*>(launch.zeroed), &reporter, launch.stream);
  }
  rank_rows<<<blocks_for(tiles, 1), kThreads, 0, launch.stream>>>(p, tiles, ranks, row_rank);
}

void run(const Launch& launch) {
  MaskProblem p = launch.mask;
  const bool few = is_few(p);
  Carver carver(launch.workspace);
  int64_t* row_rank = nullptr;
  if (!few) {
    const MaskRanks ranks = carve_ranks(carver, mask_tiles(p), false);
    row_rank = carver.take<int64_t>(p.mask_count);
    materialise(p, launch.transfer, carver.take<char>(1), launch.stream);
    rank(launch, p, ranks, row_rank);
  }
  const int width = access_width(p);
  for (int at = p.width; at < 16; at += p.width)
    std::memcpy(p.scalar + at, p.scalar, static_cast<size_t>(p.width));
  RankedRows rows{p, {}, p.row_is_axis && p.tables[0] == nullptr, row_rank};
  // The leading axes with every operand's strides, for whole rows.
  rows.p.mask_walk = p.walk;
  if (rows.whole_rows) --rows.p.mask_walk.rank;
  for (int slot = 1; slot < 4; ++slot)
    rows.step[slot] = width == p.width ? element_step(p, slot) * p.width : width;
  if (p.src == nullptr) rows.step[MaskProblem::kSrc] = 0;
  if (few) {
    const int columns = static_cast<int>(p.row * p.width / width);
    FastDivider divider;
    divider.set(static_cast<uint32_t>(columns));
    // Enough blocks that none has too many rows.
    const int64_t fewest = (p.mask_count + kFewRows - 2) / (kFewRows - 1);
    const int blocks = static_cast<int>(
        std::max<int64_t>(std::min<int64_t>(launch.device.processors, p.mask_count), fewest));
    const MaskReporter reporter = make_mask_reporter(launch.context, launch.transfer);
    with_width(width, [&](auto w) {
      move_few_rows<decltype(w)::value>
          <<<blocks, kFewThreads, 0, launch.stream>>>(rows, columns, divider, reporter);
    });
    return check_launch("mask_rows");
  }
  const RowTiling tiling(rows.whole_rows ? p.mask_count : p.positions(),
                         rows.whole_rows ? p.row * p.width / width : 1);
  launch_copies(width, rows, tiling, launch.stream);
}

}  // namespace

const Strategy k_mask_rows = {
    "mask_rows", "whole rows copied by the rank of their true", supports, cost, lay_out, run};

}  // namespace sow::detail::cuda
