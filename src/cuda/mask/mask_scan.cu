// The prefix sum of a mask: counts the trues of every tile and adds the counts up.
#include "cuda/mask/count_true.h"
#include "cuda/mask/mask.cuh"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kScanThreads = 1024;

// A block takes a range of tiles, each warp one part of every tile; several are in flight.
__global__ void __launch_bounds__(kThreads)
    count_range(const __grid_constant__ MaskProblem p, int64_t tiles,
                const __grid_constant__ MaskRanks ranks) {
  static_assert(kThreads / 32 == kTileParts);
  constexpr int kUnroll = 4, kMost = 1 << kRangeBits;
  __shared__ uint16_t counts[kMost * kTileParts];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = static_cast<int64_t>(blockIdx.x) << ranks.shift;
  const int here = static_cast<int>(min(int64_t{1} << ranks.shift, tiles - first));
  for (int t = 0; t < here; t += kUnroll) {
    uint32_t bits[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t part = (first + t + u) * kTileParts + warp;
      bits[u] = t + u < here ? read_mask(p, part * kMaskPart + lane * kMaskPerThread) : 0;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (t + u >= here) break;
      const int64_t part = (first + t + u) * kTileParts + warp;
      if (ranks.bits != nullptr) ranks.bits[part * 32 + lane] = static_cast<uint16_t>(bits[u]);
      const int total = __reduce_add_sync(~0u, __popc(bits[u]));
      if (lane == 0) counts[(t + u) * kTileParts + warp] = static_cast<uint16_t>(total);
    }
  }
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  if (ranks.part != nullptr && mine < here * kTileParts)
    ranks.part[first * kTileParts + mine] = counts[mine];
  if (warp != 0) return;
  int total = 0;
  for (int i = 0; i < kTileParts && lane < here; ++i) total += counts[lane * kTileParts + i];
  int inclusive = total;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (ranks.tile != nullptr && lane < here)
    ranks.tile[first + lane] = static_cast<uint32_t>(inclusive - total);
  if (lane == 31) ranks.range[blockIdx.x] = inclusive;
}

// The trues of each range become those before it, by one block.
__global__ void __launch_bounds__(kScanThreads)
    scan_ranges(int64_t* ranges, int64_t count, int64_t row, int64_t limit, int64_t* total_out,
                Flag* flag, bool told, const __grid_constant__ MaskReporter reporter) {
  __shared__ int64_t warp_sums[kScanThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto scan_warp = [&](int64_t value) {
    for (int step = 1; step < 32; step *= 2) {
      const int64_t other = __shfl_up_sync(~0u, value, step);
      if (lane >= step) value += other;
    }
    return value;
  };
  int64_t carried = 0;
  for (int64_t first = 0; first < count; first += kScanThreads) {
    const int64_t at = first + threadIdx.x, mine = at < count ? ranges[at] : 0,
                  inclusive = scan_warp(mine);
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    const int64_t above = scan_warp(warp_sums[lane]);  // as many warps as lanes
    const int64_t all = __shfl_sync(~0u, above, 31),
                  before = __shfl_sync(~0u, above, warp == 0 ? 0 : warp - 1);
    if (at < count) ranges[at] = carried + (warp == 0 ? 0 : before) + inclusive - mine;
    carried += all;
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const int64_t trues = carried * row;
  if (total_out != nullptr) *total_out = trues;
  if (flag == nullptr) return;
  flag->bad = trues > limit ? 1 : 0;
  if (trues > limit && told) reporter.keep_trues(trues);
}

}  // namespace

void scan_mask(const MaskProblem& p, const MaskRanks& ranks, const MaskReporter* reporter,
               cudaStream_t stream) {
  const int64_t tiles = mask_tiles(p), ranges = mask_ranges(tiles);
  count_range<<<static_cast<unsigned>(ranges), kThreads, 0, stream>>>(p, tiles, ranks);
  scan_ranges<<<1, kScanThreads, 0, stream>>>(ranks.range, ranges, p.row, p.rank_limit, nullptr,
                                              ranks.flag, reporter != nullptr,
                                              reporter != nullptr ? *reporter : MaskReporter{});
  check_launch("mask");
}

int64_t count_true(const CudaContext& context, const void* mask, int64_t count) {
  if (count == 0) return 0;
  const cudaStream_t stream = stream_of(context);
  expect_not_captured(stream);
  MaskProblem p;
  p.mask = static_cast<const char*>(mask);
  p.mask_count = count;
  p.mask_dense = true;
  const int64_t tiles = mask_tiles(p), ranges = mask_ranges(tiles);
  Carver measure(nullptr);
  measure.take<int64_t>(ranges);
  measure.take<int64_t>(1);
  Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  MaskRanks ranks;
  ranks.shift = range_shift(tiles);
  ranks.range = carver.take<int64_t>(ranges);
  int64_t* total = carver.take<int64_t>(1);
  count_range<<<static_cast<unsigned>(ranges), kThreads, 0, stream>>>(p, tiles, ranks);
  scan_ranges<<<1, kScanThreads, 0, stream>>>(ranks.range, ranges, 1, 0, total, nullptr, false,
                                              MaskReporter{});
  check_launch("mask");
  int64_t out = 0;
  check(cudaMemcpyAsync(&out, total, sizeof(out), cudaMemcpyDeviceToHost, stream), "mask");
  check(cudaStreamSynchronize(stream), "mask");
  return out;
}

}  // namespace sow::detail::cuda
