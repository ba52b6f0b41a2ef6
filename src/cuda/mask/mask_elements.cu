// SPDX-License-Identifier: Apache-2.0
// Strategy mask_elements: masks that choose single elements. Ranks by tile, then expand, compress
// or select in one pass.
#include <cstring>

#include "cuda/common/dependent_launch.cuh"
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
  wait_for_launch_before();
  const bool bad = is_bad(known.flag);
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first = tile * kMaskTile;
    __syncthreads();
    rank_tile(p, first, bad, one_tile, ranks);
    const int64_t base_rank = known.part == nullptr ? 0 : rank_of_tile(known, tile);
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
// is read and written whole: the memory behind the cache does no less for a part of a sector. Where
// values are there without a rank, all packs are read before the mask is known.
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
  bool loads;  // the base, before the mask
  Units values[kBatch];

  __device__ Blend(const MaskProblem& problem, int64_t begin)
      : p(problem),
        first(begin),
        here(static_cast<int>(min(p.mask_count - begin, static_cast<int64_t>(kMaskPart)))),
        dst(reinterpret_cast<Unit*>(p.dst) + begin),
        base(p.base == nullptr ? dst : reinterpret_cast<const Unit*>(p.base) + begin),
        loads(p.base != nullptr || p.side == MaskSide::skip) {}

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
      if (!loads && e + V <= here && bits[b] != 0 && bits[b] != kAll) {
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

// What the mask chooses of a dense source, one after the other. Lanes take neighbouring positions
// and read what is chosen of them, many on their way at once; what a warp has read is put together
// in shared memory and written without gaps.
template <int W>
__global__ void __launch_bounds__(kThreads)
    compress_pairs(const __grid_constant__ MaskProblem p, int64_t pairs,
                   const __grid_constant__ MaskRanks known) {
  using Unit = WordOf<W>;
  constexpr int kBatch = W < 16 ? 16 : 8;  // steps of 32 positions
  __shared__ Unit staged[kThreads / 32][kBatch * 32];
  const int64_t pair = global_thread() / 32;
  if (pair >= pairs) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t lower = (1u << lane) - 1;
  wait_for_launch_before();
  if (is_bad(known.flag)) return;
  const PairRanks ranks(known, pair);
  const Unit* const from =
      reinterpret_cast<const Unit*>(p.src) + pair * PairRanks::kPositions + lane;
  Unit* const to = reinterpret_cast<Unit*>(p.dst) + ranks.base * p.rank_stride;
  Unit* const mine = staged[threadIdx.x / 32];
  for (int begin = 0; begin < 32; begin += kBatch) {
    Unit value[kBatch];
#pragma unroll
    for (int s = 0; s < kBatch; ++s) {
      const uint32_t word = __shfl_sync(~0u, ranks.word, begin + s);
      if ((word >> lane) & 1) value[s] = from[(begin + s) * 32];
    }
    const int first = __shfl_sync(~0u, ranks.before, begin);
    const int next = __shfl_sync(~0u, ranks.before, (begin + kBatch) % 32);
    const int end = begin + kBatch < 32 ? next : ranks.total;
#pragma unroll
    for (int s = 0; s < kBatch; ++s) {
      const uint32_t word = __shfl_sync(~0u, ranks.word, begin + s);
      const int before = __shfl_sync(~0u, ranks.before, begin + s) - first;
      if ((word >> lane) & 1) mine[before + __popc(word & lower)] = value[s];
    }
    __syncwarp();
    for (int t = first + lane; t < end; t += 32) to[t * p.rank_stride] = mine[t - first];
    __syncwarp();
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
  Blended blend(p, first);
  if (blend.loads) blend.load_base(0);
  wait_for_launch_before();
  PartRanks ranks;
  if (is_bad(known.flag))
    ranks.bits = 0;
  else if (known.bits != nullptr)
    ranks.bits = known.bits[part * 32 + lane];
  else
    ranks.bits = read_mask(p, first + lane * kMaskPerThread);
  const int64_t base_rank = known.part != nullptr ? rank_of_part(known, part) : 0;
  ranks.before = scan_warp(__popc(ranks.bits)) - __popc(ranks.bits);
  for (int step = 0; step < Blended::kSteps; step += Blended::kBatch) {
    if (blend.loads && step > 0) blend.load_base(step);
    blend.run(step, base_rank, ranks);
  }
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
  wait_for_launch_before();
  PartRanks ranks;
  ranks.bits = known.bits[part * 32 + lane];
  ranks.before = scan_warp(__popc(ranks.bits)) - __popc(ranks.bits);
  const Unit* const ranked = reinterpret_cast<const Unit*>(p.src) + rank_of_part(known, part);
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
  if (!p.all_dense || (p.side == MaskSide::destination && p.src == nullptr)) return false;
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
  plan.zeroed = sizeof(ScanHead);
  plan.reports = true;  // the scan does
}

// What there is to launch once ranks are known; `scanned` by the launch just before.
struct Choosing {
  const Launch& launch;
  const MaskProblem& p;
  const MaskRanks& ranks;
  bool scanned;

  template <auto kernel, class... Args>
  void start(int blocks, int threads, const Args&... args) const {
    if (scanned)
      launch_dependent<kernel>(launch, blocks, threads, args...);
    else
      kernel<<<blocks, threads, 0, launch.stream>>>(args...);
  }
  // Warps that know nothing of each other: few of them are spread over the processors.
  template <auto kernel, class... Args>
  void start_warps(int64_t warps, const Args&... args) const {
    const int threads = warps < int64_t{launch.device.processors} * 8 ? 64 : kThreads;
    start<kernel>(blocks_for(warps, threads / 32), threads, args...);
  }

  template <int W>
  void dense() const {
    const int64_t parts = (p.mask_count + kMaskPart - 1) / kMaskPart;
    if (p.side == MaskSide::destination) {
      const int64_t pairs = (parts + 1) / 2;
      return start_warps<compress_pairs<W>>(pairs, p, pairs, ranks);
    }
    const bool by_rank = p.side == MaskSide::source && p.src != nullptr && p.rank_stride == 1;
    if (!by_rank) return start_warps<choose_dense<W, false>>(parts, p, parts, int64_t{0}, ranks);
    const int64_t whole = p.mask_count / kMaskPart;
    if (p.base == nullptr)
      start_warps<expand_parts<W, true>>(whole, p, whole, ranks);
    else
      start_warps<expand_parts<W, false>>(whole, p, whole, ranks);
    if (whole < parts)
      choose_dense<W, true><<<1, kThreads, 0, launch.stream>>>(p, parts, whole, ranks);
  }
};

void run(const Launch& launch) {
  MaskProblem p = launch.mask;
  Carver carver(launch.workspace);
  const int64_t tiles = mask_tiles(p);
  MaskRanks ranks = carve_ranks(carver, tiles > 1 ? tiles : 0, can_be_dense(p));
  materialise(p, launch.transfer, carver.take<char>(1), launch.stream);
  const MaskRanks kept = kept_ranks(launch.transfer, tiles);
  const bool known = kept.bits != nullptr;
  const OneTile one_tile{tiles == 1 && !known, make_mask_reporter(launch.context, launch.transfer)};
  const bool scanned = !known && p.side != MaskSide::skip && !one_tile.yes;
  if (known)
    ranks = kept;
  else if (!scanned)
    ranks = {};
  else
    scan_mask(p, ranks, reinterpret_cast<ScanHead*>(launch.zeroed), &one_tile.reporter,
              launch.stream);
  with_width(p.width, [&](auto w) {
    constexpr int W = decltype(w)::value;
    const Choosing choosing{launch, p, ranks, scanned};
    if (can_be_dense(p) && (!one_tile.yes || p.side == MaskSide::skip))
      choosing.dense<W>();
    else
      choosing.start<choose_strided<W>>(blocks_for(tiles, 1), kThreads, p, tiles, ranks, one_tile);
  });
  check_launch("mask");
}

}  // namespace

const Strategy k_mask_elements = {
    "mask_elements", "ranks by tile, then expand, compress or choose in one pass",
    supports,        cost,
    lay_out,         run};

}  // namespace sow::detail::cuda
