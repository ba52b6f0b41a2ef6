// Counts the trues of every tile of a mask and adds the counts up.
#include "cuda/count_true.h"
#include "cuda/mask.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kScanThreads = 1024;

__global__ void __launch_bounds__(kThreads) count_tiles(const __grid_constant__ MaskProblem p, int64_t tiles,
                                                        int64_t* counts, uint16_t* parts) {
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const uint32_t bits = read_mask(p, tile * kMaskTile + threadIdx.x * kMaskPerThread);
    int total = 0;
    const int before = scan_block(__popc(bits), total);
    if (threadIdx.x == 0) counts[tile] = total;
    if (parts != nullptr && threadIdx.x % 32 == 0) {
      parts[tile * kTileParts + threadIdx.x / 32] = static_cast<uint16_t>(before);
    }
  }
}

// In place: counts become the sums before them. One block, eight tiles a thread at a time.
__global__ void __launch_bounds__(kScanThreads) scan_tiles(int64_t* counts, int64_t tiles, int64_t row, int64_t limit,
                                                           int64_t* total_out, Flag* flag) {
  constexpr int kEach = 8;
  __shared__ int64_t warp_sums[kScanThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int64_t carried = 0;
  for (int64_t first = 0; first < tiles; first += kScanThreads * kEach) {
    const int64_t mine = first + threadIdx.x * kEach;
    int64_t count[kEach], sum = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      count[k] = mine + k < tiles ? counts[mine + k] : 0;
      sum += count[k];
    }
    int64_t inclusive = sum;
    for (int step = 1; step < 32; step *= 2) {
      const int64_t other = __shfl_up_sync(~0u, inclusive, step);
      if (lane >= step) inclusive += other;
    }
    __syncthreads();
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    int64_t before = carried + inclusive - sum;
    for (int w = 0; w < kScanThreads / 32; ++w) {
      if (w < warp) before += warp_sums[w];
      carried += warp_sums[w];
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (mine + k < tiles) counts[mine + k] = before;
      before += count[k];
    }
  }
  if (threadIdx.x != 0) return;
  const int64_t trues = carried * row;
  if (total_out != nullptr) *total_out = trues;
  if (flag != nullptr && trues > limit) {
    flag->trues = trues;
    mark_bad(flag);
  }
}

}  // namespace

void scan_mask(const Launch& launch, const MaskProblem& p, const MaskRanks& ranks) {
  const int64_t tiles = mask_tiles(p);
  const int blocks = blocks_for(tiles, 1, 16 * launch.device.processors);
  count_tiles<<<blocks, kThreads, 0, launch.stream>>>(p, tiles, ranks.tile, ranks.part);
  scan_tiles<<<1, kScanThreads, 0, launch.stream>>>(ranks.tile, tiles, p.row, p.rank_limit, nullptr, launch.flag);
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
  const int64_t tiles = mask_tiles(p);
  Carver measure(nullptr);
  measure.take<int64_t>(tiles);
  measure.take<int64_t>(1);
  Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  int64_t* counts = carver.take<int64_t>(tiles);
  int64_t* total = carver.take<int64_t>(1);
  const int blocks = blocks_for(tiles, 1, 16 * device_state(context.device).processors);
  count_tiles<<<blocks, kThreads, 0, stream>>>(p, tiles, counts, nullptr);
  scan_tiles<<<1, kScanThreads, 0, stream>>>(counts, tiles, 1, 0, total, nullptr);
  check_launch("mask");
  int64_t out = 0;
  check(cudaMemcpyAsync(&out, total, sizeof(out), cudaMemcpyDeviceToHost, stream), "mask");
  check(cudaStreamSynchronize(stream), "mask");
  return out;
}

}  // namespace sow::detail::cuda
