// Masks that choose single elements: ranks by tile, then expand, compress or choose, in one pass.
#include <cstring>

#include "cuda/mask.cuh"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

namespace {

// The mask of a tile, and the trues before each group of sixteen.
struct TileRanks {
  uint16_t bits[kThreads];
  uint16_t before[kThreads];
};

__device__ void rank_tile(const MaskProblem& p, int64_t first, bool bad, TileRanks& ranks) {
  const uint32_t bits = bad ? 0 : read_mask(p, first + threadIdx.x * kMaskPerThread);
  int total = 0;
  const int before = scan_block(__popc(bits), total);
  ranks.bits[threadIdx.x] = static_cast<uint16_t>(bits);
  ranks.before[threadIdx.x] = static_cast<uint16_t>(before);
  __syncthreads();
}

template <class Unit>
__device__ Unit chosen_value(const MaskProblem& p, int64_t rank, int64_t src) {
  if (p.src == nullptr) return *reinterpret_cast<const Unit*>(p.scalar);
  const int64_t offset = p.side == MaskSide::source ? rank * p.rank_stride : src;
  return reinterpret_cast<const Unit*>(p.src)[offset];
}

// Any strides, an element a thread at a time.
template <int W>
__global__ void __launch_bounds__(kThreads) choose_strided(const __grid_constant__ MaskProblem p, int64_t tiles,
                                                           const int64_t* tile_rank, const Flag* flag) {
  using Unit = WordOf<W>;
  __shared__ TileRanks ranks;
  const bool bad = is_bad(flag);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kMaskTile;
    __syncthreads();
    rank_tile(p, first, bad, ranks);
    const int64_t base_rank = tile_rank == nullptr ? 0 : tile_rank[tile];
    for (int e = threadIdx.x; e < kMaskTile && first + e < p.mask_count; e += kThreads) {
      const uint32_t bits = ranks.bits[e / 16];
      const bool chosen = (bits >> (e % 16)) & 1;
      if (!chosen && p.base == nullptr) continue;
      const int64_t rank = base_rank + ranks.before[e / 16] + __popc(bits & ((1u << (e % 16)) - 1));
      int64_t at[4] = {};
      if (p.spelled[0] != nullptr) {
        for (int k = 0; k < 4; ++k) at[k] = p.spelled[k][first + e];
      } else {
        walk_to(p.walk, first + e, 4, at);
      }
      const int64_t to = p.side == MaskSide::destination ? rank * p.rank_stride : at[MaskProblem::kDst];
      reinterpret_cast<Unit*>(p.dst)[to] = chosen ? chosen_value<Unit>(p, rank, at[MaskProblem::kSrc])
                                                  : reinterpret_cast<const Unit*>(p.base)[at[MaskProblem::kBase]];
    }
  }
}

// Everything that is not addressed by rank is dense and aligned: 16 bytes a thread at a time.
template <int W>
__global__ void __launch_bounds__(kThreads) choose_dense(const __grid_constant__ MaskProblem p, int64_t tiles,
                                                         const int64_t* tile_rank, const Flag* flag) {
  using Unit = WordOf<W>;
  constexpr int V = 16 / W;
  using Units = Pack<Unit, V>;
  __shared__ TileRanks ranks;
  const bool bad = is_bad(flag);
  Unit* const dst = reinterpret_cast<Unit*>(p.dst);
  const Unit* const src = reinterpret_cast<const Unit*>(p.src);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kMaskTile;
    __syncthreads();
    rank_tile(p, first, bad, ranks);
    const int64_t base_rank = tile_rank == nullptr ? 0 : tile_rank[tile];
#pragma unroll 2
    for (int e = threadIdx.x * V; e < kMaskTile; e += kThreads * V) {
      const int64_t at = first + e;
      if (at >= p.mask_count) break;
      const bool whole = at + V <= p.mask_count;
      const uint32_t group = ranks.bits[e / 16];
      const uint32_t bits = (group >> (e % 16)) & ((1u << V) - 1);
      int64_t rank = base_rank + ranks.before[e / 16] + __popc(group & ((1u << (e % 16)) - 1));
      if (p.side == MaskSide::destination) {
        if (bits == 0) continue;
#pragma unroll
        for (int k = 0; k < V; ++k) {
          if ((bits >> k) & 1) dst[rank++ * p.rank_stride] = src[at + k];
        }
        continue;
      }
      if (bits == 0 && p.base == nullptr) continue;
      Units values;
      if (p.base != nullptr) {
        if (whole) {
          values = *reinterpret_cast<const Units*>(reinterpret_cast<const Unit*>(p.base) + at);
        } else {
          for (int k = 0; k < V && at + k < p.mask_count; ++k) values.at[k] = reinterpret_cast<const Unit*>(p.base)[at + k];
        }
      }
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if ((bits >> k) & 1) values.at[k] = chosen_value<Unit>(p, rank++, at + k);
      }
      if (whole && (p.base != nullptr || bits == (1u << V) - 1)) {
        *reinterpret_cast<Units*>(dst + at) = values;
      } else {
#pragma unroll
        for (int k = 0; k < V; ++k) {
          if (at + k < p.mask_count && (p.base != nullptr || ((bits >> k) & 1))) dst[at + k] = values.at[k];
        }
      }
    }
  }
}

bool can_be_dense(const MaskProblem& p) {
  if (!p.all_dense) return false;
  uintptr_t all = 0;
  if (p.side != MaskSide::destination) all |= reinterpret_cast<uintptr_t>(p.dst);
  if (p.base != nullptr) all |= reinterpret_cast<uintptr_t>(p.base);
  return all % 16 == 0;
}

bool supports(const Case& c) {
  return c.transfer.mask_side != MaskSide::none && make_mask_problem(c.transfer).row == 1;
}

double cost(const Case&) { return 1; }  // the only one for its problems

size_t workspace(const Case& c) {
  const MaskProblem p = make_mask_problem(c.transfer);
  Carver carver(nullptr);
  carver.take<int64_t>(mask_tiles(p));
  carver.take<char>(static_cast<int64_t>(spelling_bytes(p, c.transfer)));
  return carver.used();
}

void run(const Launch& launch) {
  MaskProblem p = make_mask_problem(launch.problem_case.transfer);
  Carver carver(launch.workspace);
  const int64_t tiles = mask_tiles(p);
  int64_t* tile_rank = carver.take<int64_t>(tiles);
  spell_out(p, launch.problem_case.transfer, carver.take<char>(1), launch.stream);
  if (p.side == MaskSide::skip) tile_rank = nullptr;
  else scan_mask(launch, p, tile_rank);
  const int blocks = blocks_for(tiles, 1);
  with_width(p.width, [&](auto w) {
    constexpr int W = decltype(w)::value;
    if (can_be_dense(p)) {
      choose_dense<W><<<blocks, kThreads, 0, launch.stream>>>(p, tiles, tile_rank, launch.flag);
    } else {
      choose_strided<W><<<blocks, kThreads, 0, launch.stream>>>(p, tiles, tile_rank, launch.flag);
    }
  });
  check_launch("mask");
}

}  // namespace

const Strategy kMaskElements = {"mask elements", "ranks by tile, then expand, compress or choose in one pass",
                                supports, cost, workspace, run};

}  // namespace sow::detail::cuda
