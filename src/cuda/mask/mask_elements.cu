// Strategy mask_elements: masks that choose single elements. Ranks by tile, then expand, compress
// or select in one pass.
#include <cstring>

#include "cuda/common/vector.cuh"
#include "cuda/mask/mask.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

// The mask of a tile, and the trues before each group of sixteen.
struct TileRanks {
  uint16_t bits[kThreads];
  uint16_t before[kThreads];
};

// What tells failures where the whole mask is one tile; elsewhere the scan has set the flag.
struct OneTile {
  bool yes;
  MaskReporter reporter;
};

__device__ void rank_tile(const MaskProblem& p, int64_t first, bool bad, const OneTile& one_tile,
                          TileRanks& ranks) {
  const uint32_t bits = bad ? 0 : read_mask(p, first + threadIdx.x * kMaskPerThread);
  int total = 0;
  const int before = scan_block(__popc(bits), total);
  const bool too_few = one_tile.yes && p.side != MaskSide::skip && total > p.rank_limit;
  if (too_few && threadIdx.x == 0) one_tile.reporter.keep_trues(total);
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

// Any strides, one element per thread at a time.
template <int W>
__global__ void __launch_bounds__(kThreads)
    choose_strided(const __grid_constant__ MaskProblem p, int64_t tiles,
                   const __grid_constant__ MaskRanks known,
                   const __grid_constant__ OneTile one_tile) {
  using Unit = WordOf<W>;
  __shared__ TileRanks ranks;
  const bool bad = is_bad(known.flag);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kMaskTile;
    __syncthreads();
    rank_tile(p, first, bad, one_tile, ranks);
    const int64_t base_rank = known.tile == nullptr ? 0 : rank_of_tile(known, tile);
    for (int e = threadIdx.x; e < kMaskTile && first + e < p.mask_count; e += kThreads) {
      const uint32_t bits = ranks.bits[e / 16];
      const bool chosen = (bits >> (e % 16)) & 1;
      if (!chosen && p.base == nullptr) continue;
      const int64_t rank = base_rank + ranks.before[e / 16] + __popc(bits & ((1u << (e % 16)) - 1));
      int64_t at[4] = {};
      if (p.tables[0] != nullptr) {
        for (int k = 0; k < 4; ++k) at[k] = p.tables[k][first + e];
      } else {
        walk_to(p.walk, first + e, 4, at);
      }
      const int64_t to =
          p.side == MaskSide::destination ? rank * p.rank_stride : at[MaskProblem::kDst];
      reinterpret_cast<Unit*>(p.dst)[to] =
          chosen ? chosen_value<Unit>(p, rank, at[MaskProblem::kSrc])
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

// Steps of 16 bytes per lane, several in flight. In place, a pack with some of its elements chosen
// is read and written whole: the memory behind the cache does no less for a part of a sector.
template <class Unit, bool Ranked>
struct Blend {
  static constexpr int V = 16 / sizeof(Unit);
  static constexpr int kSteps = sizeof(Unit);  // a step is 512 bytes
  static constexpr int kBatch = kSteps < 4 ? kSteps : 4;
  static constexpr uint32_t kAll = (1u << V) - 1;
  using Units = Pack<Unit, V>;

  const MaskProblem& p;
  int64_t first;
  int here;  // positions of the part
  Unit* dst;
  const Unit* base;
  Units values[kBatch];

  __device__ Blend(const MaskProblem& problem, int64_t begin)
      : p(problem),
        first(begin),
        here(static_cast<int>(min(p.mask_count - begin, static_cast<int64_t>(kMaskPart)))),
        dst(reinterpret_cast<Unit*>(p.dst) + begin),
        base(p.base == nullptr ? dst : reinterpret_cast<const Unit*>(p.base) + begin) {}

  __device__ static int element(int step) {
    return (step * 32 + static_cast<int>(threadIdx.x) % 32) * V;
  }
  __device__ void load_base(int step) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int e = element(step + b);
      if (e + V <= here) values[b] = *reinterpret_cast<const Units*>(base + e);
    }
  }
  __device__ void run(int step, int64_t base_rank, const PartRanks& ranks) {
    const bool in_place = p.base == nullptr;
    const Unit* const ranked = Ranked ? reinterpret_cast<const Unit*>(p.src) + base_rank : nullptr;
    uint32_t bits[kBatch];
    int rank[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int e = element(step + b);
      bits[b] = ranks.at<V>(e, rank[b]);
      if (in_place && e + V <= here && bits[b] != 0 && bits[b] != kAll) {
        values[b] = *reinterpret_cast<const Units*>(base + e);
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (((bits[b] >> k) & 1) == 0) continue;
        if constexpr (Ranked)
          values[b].at[k] = ranked[rank[b]++];
        else
          values[b].at[k] =
              chosen_value<Unit>(p, base_rank + rank[b]++, first + element(step + b) + k);
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int e = element(step + b);
      if (e >= here || (in_place && bits[b] == 0)) continue;
      if (e + V <= here) {
        *reinterpret_cast<Units*>(dst + e) = values[b];
        continue;
      }
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (e + k >= here) break;
        if ((bits[b] >> k) & 1)
          dst[e + k] = values[b].at[k];
        else if (!in_place)
          dst[e + k] = base[e + k];
      }
    }
  }
};

// The trues of a warp's part are listed, so that lanes are busy with trues alone.
template <class Unit>
__device__ inline void compress_part(const MaskProblem& p, int64_t first, int64_t base_rank,
                                     const PartRanks& ranks) {
  __shared__ uint16_t listed[kThreads / 32][kMaskPart];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint16_t* trues = listed[threadIdx.x / 32];
  int at = ranks.before;
  for (uint32_t rest = ranks.bits; rest != 0; rest &= rest - 1)
    trues[at++] = static_cast<uint16_t>(lane * kMaskPerThread + __ffs(static_cast<int>(rest)) - 1);
  const int total = __shfl_sync(~0u, at, 31);
  __syncwarp();
#pragma unroll 4
  for (int t = lane; t < total; t += 32) {
    reinterpret_cast<Unit*>(p.dst)[(base_rank + t) * p.rank_stride] =
        reinterpret_cast<const Unit*>(p.src)[first + trues[t]];
  }
}

// Everything that is not addressed by rank is dense and aligned: a warp takes a part, on its own.
template <int W, bool Ranked>
__global__ void __launch_bounds__(kThreads)
    choose_dense(const __grid_constant__ MaskProblem p, int64_t parts, int64_t begin,
                 const __grid_constant__ MaskRanks known) {
  using Unit = WordOf<W>;
  using Blended = Blend<Unit, Ranked>;
  const int64_t part = begin + global_thread() / 32;
  if (part >= parts) return;
  const int64_t first = part * kMaskPart;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool compresses = p.side == MaskSide::destination, loads = !compresses && p.base != nullptr;
  Blended blend(p, first);
  if (loads) blend.load_base(0);  // does not wait for the mask
  PartRanks ranks;
  if (is_bad(known.flag))
    ranks.bits = 0;
  else if (known.bits != nullptr)
    ranks.bits = known.bits[part * 32 + lane];
  else
    ranks.bits = read_mask(p, first + lane * kMaskPerThread);
  int64_t base_rank = 0;
  if (known.tile != nullptr) {
    const int64_t tile_part = part / kTileParts * kTileParts;
    const int in_tile = lane < part - tile_part ? known.part[tile_part + lane] : 0;
    base_rank = rank_of_tile(known, part / kTileParts) + __reduce_add_sync(~0u, in_tile);
  }
  int inclusive = __popc(ranks.bits);
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  ranks.before = inclusive - __popc(ranks.bits);
  if (compresses) return compress_part<Unit>(p, first, base_rank, ranks);
  for (int step = 0; step < Blended::kSteps; step += Blended::kBatch) {
    if (loads && step > 0) blend.load_base(step);
    blend.run(step, base_rank, ranks);
  }
}

// What a warp knows of its part: the trues before it, and each lane's.
__device__ inline int64_t rank_part(const MaskRanks& known, int64_t part, PartRanks& ranks) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t tile_part = part / kTileParts * kTileParts;
  ranks.bits = known.bits[part * 32 + lane];
  const int in_tile = lane < part - tile_part ? known.part[tile_part + lane] : 0;
  int inclusive = __popc(ranks.bits);
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  ranks.before = inclusive - __popc(ranks.bits);
  return rank_of_tile(known, part / kTileParts) + __reduce_add_sync(~0u, in_tile);
}

// Values by their rank into whole parts, 512 positions each, without a look at where the mask ends.
// In place a pack with all or none of its elements chosen is not read.
template <int W, bool InPlace>
__global__ void __launch_bounds__(kThreads)
    expand_parts(const __grid_constant__ MaskProblem p, int64_t parts,
                 const __grid_constant__ MaskRanks known) {
  using Unit = WordOf<W>;
  constexpr int V = 16 / W, kSteps = kMaskPart / (32 * V);
  const int64_t part = global_thread() / 32;
  if (part >= parts) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Pack<Unit, V>* const to =
      reinterpret_cast<Pack<Unit, V>*>(reinterpret_cast<Unit*>(p.dst) + part * kMaskPart) + lane;
  Pack<Unit, V> value[kSteps];
  if constexpr (!InPlace) {
    const auto* from = reinterpret_cast<const Pack<Unit, V>*>(
                           reinterpret_cast<const Unit*>(p.base) + part * kMaskPart) +
                       lane;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) value[s] = from[s * 32];
  }
  PartRanks ranks;
  const Unit* const ranked = reinterpret_cast<const Unit*>(p.src) + rank_part(known, part, ranks);
  if (is_bad(known.flag)) {
    if constexpr (InPlace) return;
    ranks.bits = 0;
  }
  uint32_t bits[kSteps];
  int rank[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    bits[s] = ranks.at<V>((s * 32 + lane) * V, rank[s]);
    if (InPlace && bits[s] != 0 && bits[s] != (1u << V) - 1) value[s] = to[s * 32];
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      if ((bits[s] >> k) & 1) value[s].at[k] = ranked[rank[s]++];
    }
    if (!InPlace || bits[s] != 0) to[s * 32] = value[s];
  }
}

bool can_be_dense(const MaskProblem& p) {
  if (!p.all_dense) return false;
  uintptr_t all = 0;
  if (p.side != MaskSide::destination) all |= reinterpret_cast<uintptr_t>(p.dst);
  if (p.base != nullptr) all |= reinterpret_cast<uintptr_t>(p.base);
  return all % 16 == 0;
}

bool supports(const Case& c) { return c.transfer.mask_side != MaskSide::none && c.mask.row == 1; }

double cost(const Case&) { return 1; }  // the only one for its problems

void lay_out(const Case& c, Plan& plan) {
  const MaskProblem& p = c.mask;
  Carver carver(nullptr);
  carve_ranks(carver, mask_tiles(p) > 1 ? mask_tiles(p) : 0, can_be_dense(p));
  carver.take<char>(static_cast<int64_t>(materialised_bytes(p)));
  plan.workspace = carver.used();
  plan.reports = true;  // the scan does
}

void run(const Launch& launch) {
  MaskProblem p = launch.mask;
  Carver carver(launch.workspace);
  const int64_t tiles = mask_tiles(p);
  MaskRanks ranks = carve_ranks(carver, tiles > 1 ? tiles : 0, can_be_dense(p));
  materialise(p, launch.transfer, carver.take<char>(1), launch.stream);
  const OneTile one_tile{tiles == 1, make_mask_reporter(launch.context, launch.transfer)};
  if (p.side == MaskSide::skip || one_tile.yes)
    ranks = {};
  else
    scan_mask(p, ranks, &one_tile.reporter, launch.stream);
  with_width(p.width, [&](auto w) {
    constexpr int W = decltype(w)::value;
    if (can_be_dense(p) && !one_tile.yes) {
      const int64_t parts = (p.mask_count + kMaskPart - 1) / kMaskPart;
      const int blocks = blocks_for(parts, kThreads / 32);
      if (p.side == MaskSide::source && p.src != nullptr && p.rank_stride == 1) {
        const int64_t whole = p.mask_count / kMaskPart;
        const int most = blocks_for(whole, kThreads / 32);
        if (p.base == nullptr)
          expand_parts<W, true><<<most, kThreads, 0, launch.stream>>>(p, whole, ranks);
        else
          expand_parts<W, false><<<most, kThreads, 0, launch.stream>>>(p, whole, ranks);
        if (whole < parts)
          choose_dense<W, true><<<1, kThreads, 0, launch.stream>>>(p, parts, whole, ranks);
      } else {
        choose_dense<W, false><<<blocks, kThreads, 0, launch.stream>>>(p, parts, 0, ranks);
      }
    } else {
      choose_strided<W>
          <<<blocks_for(tiles, 1), kThreads, 0, launch.stream>>>(p, tiles, ranks, one_tile);
    }
  });
  check_launch("mask");
}

}  // namespace

const Strategy k_mask_elements = {
    "mask_elements", "ranks by tile, then expand, compress or choose in one pass",
    supports,        cost,
    lay_out,         run};

}  // namespace sow::detail::cuda
