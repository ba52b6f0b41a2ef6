// SPDX-License-Identifier: Apache-2.0
// The coordinates of a mask's trues (nonzero), from what counting them has kept.
#include "cuda/mask/count_true.h"
#include "cuda/mask/mask.cuh"

namespace sow::detail::cuda {

namespace {

// Some of the columns of [count, rank]: a position divided by `after` is the column and all those
// before it.
struct Columns {
  int rank = 1, begin = 0, count = 1;
  FastDivider by_count;
  FastDivider after[kWalkAxes + 1];  // the first: of the column before these
  int64_t after_64[kWalkAxes + 1];   // the same where positions do not fit 31 bits
  int64_t size[kWalkAxes];           // of each column
  int64_t* out;
};

// One column after the other differs from lane to lane, which parameters of a kernel are slow for.
template <bool Wide>
struct SharedColumns {
  FastDivider after[kWalkAxes + 1];
  int64_t after_64[kWalkAxes + 1];
  int64_t size[kWalkAxes];

  __device__ int64_t coordinate(int64_t position, int column) const {
    if constexpr (Wide) {
      return position / after_64[column + 1] - position / after_64[column] * size[column];
    } else {
      const uint32_t at = static_cast<uint32_t>(position);
      return static_cast<int64_t>(after[column + 1].quotient(at)) -
             static_cast<int64_t>(after[column].quotient(at)) * size[column];
    }
  }
};

// The positions of a warp's trues, counted from the first of its pair. Few are listed by the lanes
// that have them, many by all lanes together, so that no two meet in a bank.
__device__ inline void list_trues(const PairRanks& ranks, uint16_t* trues) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (ranks.total <= PairRanks::kPositions / 4) {
    int at = ranks.before;
    for (uint32_t rest = ranks.word; rest != 0; rest &= rest - 1)
      trues[at++] = static_cast<uint16_t>(lane * 32 + __ffs(static_cast<int>(rest)) - 1);
  } else {
    const uint32_t lower = (1u << lane) - 1;
    for (int s = 0; s < 32; ++s) {
      const uint32_t word = __shfl_sync(~0u, ranks.word, s);
      const int before = __shfl_sync(~0u, ranks.before, s);
      if ((word >> lane) & 1)
        trues[before + __popc(word & lower)] = static_cast<uint16_t>(s * 32 + lane);
    }
  }
  __syncwarp();
}

template <bool Wide>
__global__ void __launch_bounds__(kThreads)
    write_coordinates(const __grid_constant__ Columns c, int64_t pairs,
                      const __grid_constant__ MaskRanks known) {
  __shared__ SharedColumns<Wide> columns;
  __shared__ uint16_t listed[kThreads / 32][PairRanks::kPositions];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread <= c.count) {
    columns.after[thread] = c.after[thread];
    columns.after_64[thread] = c.after_64[thread];
    if (thread < c.count) columns.size[thread] = c.size[thread];
  }
  __syncthreads();
  const int64_t pair = global_thread() / 32;
  if (pair >= pairs) return;
  const int lane = thread % 32;
  uint16_t* const trues = listed[thread / 32];
  const PairRanks ranks(known, pair);
  list_trues(ranks, trues);
  const int64_t first = pair * PairRanks::kPositions;
  int64_t* const out = c.out + ranks.base * c.rank + c.begin;
  if (c.rank == 1) {
    for (int t = lane; t < ranks.total; t += 32) out[t] = first + trues[t];
    return;
  }
  // Neighbouring lanes write neighbouring numbers.
  for (int i = lane; i < ranks.total * c.count; i += 32) {
    const int t = static_cast<int>(c.by_count.quotient(static_cast<uint32_t>(i)));
    const int column = i - t * c.count;
    out[t * c.rank + column] = columns.coordinate(first + trues[t], column);
  }
}

}  // namespace

void true_coordinates(const CudaContext& context, void* kept, const int64_t* shape, int rank,
                      int64_t* out) {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= shape[d];
  if (count == 0 || rank == 0) return;
  Carver carver(static_cast<char*>(kept));
  const MaskRanks ranks = carve_ranks(carver, (count + kMaskTile - 1) / kMaskTile, true);
  const int64_t pairs = (count + PairRanks::kPositions - 1) / PairRanks::kPositions;
  const int blocks = blocks_for(pairs, kThreads / 32);
  const bool wide = count > INT32_MAX;
  // All columns in one launch, unless there are very many.
  for (int begin = 0; begin < rank; begin += kWalkAxes) {
    Columns c;
    c.rank = rank;
    c.begin = begin;
    c.count = rank - begin < kWalkAxes ? rank - begin : kWalkAxes;
    c.by_count.set(static_cast<uint32_t>(c.count));
    c.out = out;
    for (int k = 0; k <= c.count; ++k) {
      int64_t after = 1;
      for (int d = begin + k; d < rank; ++d) after *= shape[d];
      c.after_64[k] = after;
      if (!wide) c.after[k].set(static_cast<uint32_t>(after));
      if (k < c.count) c.size[k] = shape[begin + k];
    }
    if (wide)
      write_coordinates<true><<<blocks, kThreads, 0, stream_of(context)>>>(c, pairs, ranks);
    else
      write_coordinates<false><<<blocks, kThreads, 0, stream_of(context)>>>(c, pairs, ranks);
  }
  check_launch("nonzero");
}

}  // namespace sow::detail::cuda
