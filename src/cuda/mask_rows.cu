// Masks that choose whole rows, because they are broadcast along the trailing dimensions: each row
// is copied by the rank of its true; the mask is never expanded.
#include <cstring>

#include "cuda/mask.cuh"
#include "cuda/vector.cuh"

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

// A unit is one access of W bytes: mask position x column of its row.
template <int W>
__global__ void __launch_bounds__(kThreads) move_by_rank(const __grid_constant__ MaskProblem p, int64_t columns,
                                                         FastDivider divider, bool narrow, const int64_t* row_rank) {
  using Unit = WordOf<W>;
  constexpr int kUnroll = 4;
  const int64_t total = p.mask_count * columns;
  const int64_t each = p.row / columns;  // elements a unit
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  Unit value[kUnroll];
  char* to[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t unit = first + u * kThreads;
    to[u] = nullptr;
    if (unit >= total) continue;
    const int64_t m = narrow ? divider.quotient(static_cast<uint32_t>(unit)) : unit / columns;
    const int64_t r = (unit - m * columns) * each;
    const int64_t rank = row_rank[m];
    if (rank < 0 && p.base == nullptr) continue;
    int64_t at[4] = {};
    if (p.spelled[0] != nullptr) {
      for (int k = 0; k < 4; ++k) at[k] = p.spelled[k][m * p.row + r];
    } else if (p.row_is_axis) {
      walk_to(p.mask_walk, m, 4, at);
#pragma unroll
      for (int k = 1; k < 4; ++k) at[k] += r * p.row_stride[k];
    } else {
      walk_to(p.walk, m * p.row + r, 4, at);
    }
    const int64_t ranked = (rank * p.row + r) * p.rank_stride;
    const int64_t dst = p.side == MaskSide::destination ? ranked : at[MaskProblem::kDst];
    const int64_t src = p.side == MaskSide::source ? ranked : at[MaskProblem::kSrc];
    to[u] = p.dst + dst * p.width;
    if (rank < 0) value[u] = *reinterpret_cast<const Unit*>(p.base + at[MaskProblem::kBase] * p.width);
    else if (p.src == nullptr) value[u] = *reinterpret_cast<const Unit*>(p.scalar);
    else value[u] = *reinterpret_cast<const Unit*>(p.src + src * p.width);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (to[u] != nullptr) *reinterpret_cast<Unit*>(to[u]) = value[u];
  }
}

// The widest access that all rows allow.
int access_width(const MaskProblem& p) {
  if (!p.row_is_axis || p.spelled[0] != nullptr) return p.width;
  int64_t all = 16 | p.row * p.width;
  const auto include = [&](int slot, const char* data, bool ranked) {
    if (data == nullptr) return;
    all |= static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
    if ((ranked ? p.rank_stride : p.row_stride[slot]) != 1) all |= p.width;
    for (int i = 0; !ranked && i < p.mask_walk.rank; ++i) all |= p.walk.axis[i].stride[slot] * p.width;
  };
  include(MaskProblem::kDst, p.dst, p.side == MaskSide::destination);
  include(MaskProblem::kSrc, p.src, p.side == MaskSide::source);
  include(MaskProblem::kBase, p.base, false);
  return std::max(static_cast<int>(all & -all), p.width);
}

bool supports(const Case& c) {
  return c.transfer.mask_side != MaskSide::none && make_mask_problem(c.transfer).row != 1;
}

double cost(const Case&) { return 1; }  // the only one for its problems

size_t workspace(const Case& c) {
  const MaskProblem p = make_mask_problem(c.transfer);
  Carver carver(nullptr);
  carver.take<int64_t>(mask_tiles(p));
  carver.take<int64_t>(p.mask_count);
  carver.take<char>(static_cast<int64_t>(spelling_bytes(p, c.transfer)));
  return carver.used();
}

void run(const Launch& launch) {
  MaskProblem p = make_mask_problem(launch.problem_case.transfer);
  Carver carver(launch.workspace);
  const int64_t tiles = mask_tiles(p);
  int64_t* tile_rank = carver.take<int64_t>(tiles);
  int64_t* row_rank = carver.take<int64_t>(p.mask_count);
  spell_out(p, launch.problem_case.transfer, carver.take<char>(1), launch.stream);
  if (p.side == MaskSide::skip) tile_rank = nullptr;
  else scan_mask(launch, p, tile_rank);
  rank_rows<<<blocks_for(tiles, 1), kThreads, 0, launch.stream>>>(p, tiles, tile_rank, row_rank, launch.flag);
  const int width = access_width(p);
  for (int at = p.width; at < 16; at += p.width) std::memcpy(p.scalar + at, p.scalar, p.width);
  const int64_t columns = p.row * p.width / width, total = p.mask_count * columns;
  FastDivider divider;
  const bool narrow = total <= INT32_MAX;
  if (narrow) divider.set(static_cast<uint32_t>(columns));
  // Row strides of the leading axes, for every operand, are in mask_walk as well.
  p.mask_walk = p.walk;
  p.mask_walk.rank = p.row_is_axis ? p.walk.rank - 1 : p.walk.rank;
  with_width(width, [&](auto w) {
    move_by_rank<decltype(w)::value><<<blocks_for(total, 4 * kThreads), kThreads, 0, launch.stream>>>(
        p, columns, divider, narrow, row_rank);
  });
  check_launch("mask");
}

}  // namespace

const Strategy kMaskRows = {"mask rows", "whole rows copied by the rank of their true", supports, cost, workspace, run};

}  // namespace sow::detail::cuda
