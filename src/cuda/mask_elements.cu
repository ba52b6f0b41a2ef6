// Masks that choose single elements: ranks by tile, then expand, compress or choose, in one pass.
#include <cstring>

#include "cuda/failure.cuh"
#include "cuda/mask.cuh"
#include "cuda/strategies.h"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

namespace {

// The mask of a tile, and the trues before each group of sixteen.
struct TileRanks {
  uint16_t bits[kThreads];
  uint16_t before[kThreads];
};

// What tells failures where the whole mask is one tile; elsewhere the scan has set the flag.
struct Alone {
  bool yes;
  MaskReporter reporter;
};

__device__ void rank_tile(const MaskProblem& p, int64_t first, bool bad, const Alone& alone, TileRanks& ranks) {
  const uint32_t bits = bad ? 0 : read_mask(p, first + threadIdx.x * kMaskPerThread);
  int total = 0;
  const int before = scan_block(__popc(bits), total);
  const bool too_few = alone.yes && p.side != MaskSide::skip && total > p.rank_limit;
  if (too_few && threadIdx.x == 0) alone.reporter.keep_trues(total);
  ranks.bits[threadIdx.x] = static_cast<uint16_t>(too_few ? 0 : bits);
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
                                                           const int64_t* tile_rank, const Flag* flag,
                                                         const __grid_constant__ Alone alone) {
  using Unit = WordOf<W>;
  __shared__ TileRanks ranks;
  const bool bad = is_bad(flag);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kMaskTile;
    __syncthreads();
    rank_tile(p, first, bad, alone, ranks);
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

// The mask of a warp's part: sixteen positions a lane.
struct PartRanks {
  uint32_t bits;
  int before;  // trues in the lanes before this one

  // Which of the V elements from e on are chosen, and how many before them.
  template <int V>
  __device__ uint32_t at(int e, int& rank) const {
    const uint32_t group = __shfl_sync(~0u, bits, e / 16);
    rank = __shfl_sync(~0u, before, e / 16) + __popc(group & ((1u << (e % 16)) - 1));
    return (group >> (e % 16)) & ((1u << V) - 1);
  }
};

// Steps of 16 bytes a lane, several in flight. In place, a pack with some of its elements chosen is
// read and written whole: the memory behind the cache does no less for a part of a sector.
template <class Unit, int Batch>
__device__ inline void blend_steps(const MaskProblem& p, int64_t first, int step, int64_t base_rank,
                                   const PartRanks& ranks) {
  constexpr int V = 16 / sizeof(Unit);
  constexpr uint32_t kAll = (1u << V) - 1;
  using Units = Pack<Unit, V>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Unit* const dst = reinterpret_cast<Unit*>(p.dst) + first;
  const bool in_place = p.base == nullptr;
  const Unit* const base = in_place ? dst : reinterpret_cast<const Unit*>(p.base) + first;
  const int here = static_cast<int>(min(p.mask_count - first, static_cast<int64_t>(kMaskPart)));
  Units values[Batch];
  uint32_t bits[Batch];
  int rank[Batch];
#pragma unroll
  for (int b = 0; b < Batch; ++b) {
    const int e = ((step + b) * 32 + lane) * V;
    bits[b] = ranks.at<V>(e, rank[b]);
    if (e + V > here || (in_place && (bits[b] == 0 || bits[b] == kAll))) continue;
    values[b] = *reinterpret_cast<const Units*>(base + e);
  }
#pragma unroll
  for (int b = 0; b < Batch; ++b) {
    const int e = ((step + b) * 32 + lane) * V;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if ((bits[b] >> k) & 1) values[b].at[k] = chosen_value<Unit>(p, base_rank + rank[b]++, first + e + k);
    }
  }
#pragma unroll
  for (int b = 0; b < Batch; ++b) {
    const int e = ((step + b) * 32 + lane) * V;
    if (e >= here || (in_place && bits[b] == 0)) continue;
    if (e + V <= here) {
      *reinterpret_cast<Units*>(dst + e) = values[b];
      continue;
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if (e + k >= here) break;
      if ((bits[b] >> k) & 1) dst[e + k] = values[b].at[k];
      else if (!in_place) dst[e + k] = base[e + k];
    }
  }
}

template <class Unit>
__device__ inline void compress_part(const MaskProblem& p, int64_t first, int64_t base_rank, const PartRanks& ranks) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 4
  for (int e = lane; e < kMaskPart; e += 32) {
    int rank;
    if (ranks.at<1>(e, rank) == 0) continue;
    reinterpret_cast<Unit*>(p.dst)[(base_rank + rank) * p.rank_stride] = reinterpret_cast<const Unit*>(p.src)[first + e];
  }
}

// Everything that is not addressed by rank is dense and aligned: a warp takes a part, on its own.
template <int W>
__global__ void __launch_bounds__(kThreads) choose_dense(const __grid_constant__ MaskProblem p, int64_t parts,
                                                         const MaskRanks known, const Flag* flag) {
  using Unit = WordOf<W>;
  constexpr int kSteps = W, kBatch = kSteps < 4 ? kSteps : 4;  // a step is 512 bytes
  const int64_t part = global_thread() / 32;
  if (part >= parts) return;
  const int64_t first = part * kMaskPart;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  PartRanks ranks;
  ranks.bits = is_bad(flag) ? 0 : read_mask(p, first + lane * kMaskPerThread);
  const int64_t base_rank = known.tile == nullptr ? 0 : known.tile[part / kTileParts] + known.part[part];
  int inclusive = __popc(ranks.bits);
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  ranks.before = inclusive - __popc(ranks.bits);
  if (p.side == MaskSide::destination) {
    compress_part<Unit>(p, first, base_rank, ranks);
  } else {
    for (int step = 0; step < kSteps; step += kBatch) blend_steps<Unit, kBatch>(p, first, step, base_rank, ranks);
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

bool reports(const Case& c) { return mask_tiles(make_mask_problem(c.transfer)) == 1; }

size_t workspace(const Case& c) {
  const MaskProblem p = make_mask_problem(c.transfer);
  Carver carver(nullptr);
  carve_ranks(carver, mask_tiles(p) > 1 ? mask_tiles(p) : 0);
  carver.take<char>(static_cast<int64_t>(spelling_bytes(p, c.transfer)));
  return carver.used();
}

void run(const Launch& launch) {
  MaskProblem p = make_mask_problem(launch.problem_case.transfer);
  Carver carver(launch.workspace);
  const int64_t tiles = mask_tiles(p);
  MaskRanks ranks = carve_ranks(carver, tiles > 1 ? tiles : 0);
  spell_out(p, launch.problem_case.transfer, carver.take<char>(1), launch.stream);
  const Alone alone{tiles == 1, make_mask_reporter(launch.context, launch.problem_case.transfer)};
  if (p.side == MaskSide::skip || alone.yes) ranks = {};
  else scan_mask(launch, p, ranks);
  with_width(p.width, [&](auto w) {
    constexpr int W = decltype(w)::value;
    if (can_be_dense(p) && !alone.yes) {
      const int64_t parts = (p.mask_count + kMaskPart - 1) / kMaskPart;
      choose_dense<W><<<blocks_for(parts, kThreads / 32), kThreads, 0, launch.stream>>>(p, parts, ranks, launch.flag);
    } else {
      choose_strided<W><<<blocks_for(tiles, 1), kThreads, 0, launch.stream>>>(p, tiles, ranks.tile, launch.flag, alone);
    }
  });
  check_launch("mask");
}

}  // namespace

const Strategy kMaskElements = {"mask elements", "ranks by tile, then expand, compress or choose in one pass",
                                supports, cost, workspace, run, reports};

}  // namespace sow::detail::cuda
