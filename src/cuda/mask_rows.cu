// Masks that choose whole rows, because they are broadcast along the trailing dimensions: each row
// is copied by the rank of its true; the mask is never expanded.
#include <cstring>

#include "cuda/failure.cuh"
#include "cuda/mask.cuh"
#include "cuda/row_mover.cuh"
#include "cuda/strategies.h"

namespace sow::detail::cuda {

namespace {

// row_rank[m] becomes the rank of mask position m, or -1 where it is false.
__global__ void __launch_bounds__(kThreads) rank_rows(const __grid_constant__ MaskProblem p, int64_t tiles,
                                                      const int64_t* tile_rank, int64_t* row_rank, const Flag* flag) {
  const bool bad = is_bad(flag);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kMaskTile + threadIdx.x * kMaskPerThread;
    const uint32_t bits = bad ? 0 : read_mask(p, first);
    int total = 0;
    int64_t rank = scan_block(__popc(bits), total) + (tile_rank == nullptr ? 0 : tile_rank[tile]);
    for (int i = 0; i < kMaskPerThread && first + i < p.mask_count; ++i) {
      row_rank[first + i] = (bits >> i) & 1 ? rank++ : -1;
    }
  }
}

constexpr int kFewTiles = 16;

// The same for a small mask, counts and limit included, by one block.
__global__ void __launch_bounds__(kThreads) rank_few_rows(const __grid_constant__ MaskProblem p, int64_t* row_rank,
                                                          const __grid_constant__ MaskReporter reporter) {
  __shared__ uint16_t bits[kFewTiles][kThreads], before[kFewTiles][kThreads];
  __shared__ int64_t ranks[kFewTiles];
  const int tiles = static_cast<int>((p.mask_count + kMaskTile - 1) / kMaskTile);
  int64_t all = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    const uint32_t mine = read_mask(p, static_cast<int64_t>(tile) * kMaskTile + threadIdx.x * kMaskPerThread);
    bits[tile][threadIdx.x] = static_cast<uint16_t>(mine);
    int total = 0;
    before[tile][threadIdx.x] = static_cast<uint16_t>(scan_block(__popc(mine), total));
    if (threadIdx.x == 0) ranks[tile] = all;
    all += total;
  }
  __syncthreads();
  const bool bad = p.side != MaskSide::skip && all * p.row > p.rank_limit;
  if (bad && threadIdx.x == 0) reporter.keep_trues(all * p.row);
  for (int m = static_cast<int>(threadIdx.x); m < p.mask_count; m += kThreads) {
    const int tile = m / kMaskTile, group = m % kMaskTile / kMaskPerThread, in_group = m % kMaskPerThread;
    const uint32_t word = bits[tile][group];
    const int64_t rank = ranks[tile] + before[tile][group] + __popc(word & ((1u << in_group) - 1));
    row_rank[m] = !bad && ((word >> in_group) & 1) ? rank : -1;
  }
}

struct RankedRows {
  MaskProblem p;
  int64_t step[4];  // bytes from one access to the next, of each operand
  bool whole_rows;  // else every row has one element
  const int64_t* row_rank;

  __device__ bool off() const { return false; }
  __device__ RowMove operator()(int64_t row, bool&) const {
    const int64_t m = whole_rows ? row : row / p.row;
    const int64_t rank = row_rank[m];
    if (rank < 0 && p.base == nullptr) return {};
    int64_t at[4] = {};
    if (whole_rows) {
      walk_to(p.mask_walk, m, 4, at);
    } else if (p.spelled[0] != nullptr) {
      for (int k = 0; k < 4; ++k) at[k] = p.spelled[k][row];
    } else {
      walk_to(p.walk, row, 4, at);
    }
    const int64_t ranked = (rank * p.row + (whole_rows ? 0 : row - m * p.row)) * p.rank_stride;
    const int64_t dst = p.side == MaskSide::destination ? ranked : at[MaskProblem::kDst];
    const int64_t src = p.side == MaskSide::source ? ranked : at[MaskProblem::kSrc];
    char* to = p.dst + dst * p.width;
    if (rank < 0) return {to, p.base + at[MaskProblem::kBase] * p.width, step[MaskProblem::kDst], step[MaskProblem::kBase]};
    const char* from = p.src == nullptr ? reinterpret_cast<const char*>(p.scalar) : p.src + src * p.width;
    return {to, from, step[MaskProblem::kDst], step[MaskProblem::kSrc]};
  }
};

int64_t element_step(const MaskProblem& p, int slot) {
  const bool ranked = (slot == MaskProblem::kDst && p.side == MaskSide::destination) ||
                      (slot == MaskProblem::kSrc && p.side == MaskSide::source);
  return ranked ? p.rank_stride : p.row_stride[slot];
}

// The widest access that all rows allow.
int access_width(const MaskProblem& p) {
  if (!p.row_is_axis || p.spelled[0] != nullptr) return p.width;
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

bool supports(const Case& c) {
  return c.transfer.mask_side != MaskSide::none && make_mask_problem(c.transfer).row != 1;
}

double cost(const Case&) { return 1; }  // the only one for its problems

bool is_few(const MaskProblem& p) { return mask_tiles(p) <= kFewTiles; }
bool reports(const Case& c) { return is_few(make_mask_problem(c.transfer)); }

size_t workspace(const Case& c) {
  const MaskProblem p = make_mask_problem(c.transfer);
  Carver carver(nullptr);
  carve_ranks(carver, mask_tiles(p));
  carver.take<int64_t>(p.mask_count);
  carver.take<char>(static_cast<int64_t>(spelling_bytes(p, c.transfer)));
  return carver.used();
}

void rank(const Launch& launch, const MaskProblem& p, MaskRanks ranks, int64_t* row_rank) {
  if (is_few(p)) {
    rank_few_rows<<<1, kThreads, 0, launch.stream>>>(p, row_rank,
                                                     make_mask_reporter(launch.context, launch.problem_case.transfer));
    return;
  }
  if (p.side == MaskSide::skip) ranks.tile = nullptr;
  else scan_mask(launch, p, ranks);
  const int64_t tiles = mask_tiles(p);
  rank_rows<<<blocks_for(tiles, 1), kThreads, 0, launch.stream>>>(p, tiles, ranks.tile, row_rank, launch.flag);
}

void run(const Launch& launch) {
  MaskProblem p = make_mask_problem(launch.problem_case.transfer);
  Carver carver(launch.workspace);
  const MaskRanks ranks = carve_ranks(carver, mask_tiles(p));
  int64_t* row_rank = carver.take<int64_t>(p.mask_count);
  spell_out(p, launch.problem_case.transfer, carver.take<char>(1), launch.stream);
  rank(launch, p, ranks, row_rank);
  const int width = access_width(p);
  for (int at = p.width; at < 16; at += p.width) std::memcpy(p.scalar + at, p.scalar, static_cast<size_t>(p.width));
  RankedRows rows{p, {}, p.row_is_axis && p.spelled[0] == nullptr, row_rank};
  // The leading axes with every operand's strides, for whole rows.
  rows.p.mask_walk = p.walk;
  if (rows.whole_rows) --rows.p.mask_walk.rank;
  for (int slot = 1; slot < 4; ++slot) rows.step[slot] = width == p.width ? element_step(p, slot) * p.width : width;
  if (p.src == nullptr) rows.step[MaskProblem::kSrc] = 0;
  const RowTiling tiling(rows.whole_rows ? p.mask_count : p.positions(), rows.whole_rows ? p.row * p.width / width : 1);
  launch_moves(width, rows, tiling, launch.stream);
}

}  // namespace

const Strategy kMaskRows = {"mask rows", "whole rows copied by the rank of their true",
                            supports, cost, workspace, run, reports};

}  // namespace sow::detail::cuda
