// Counts the trues of every tile of a mask and adds the counts up.
#include "cuda/count_true.h"
#include "cuda/mask.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kScanThreads = 1024;

__global__ void __launch_bounds__(kThreads) count_tiles(const __grid_constant__ MaskProblem p, int64_t tiles,
                                                        int64_t* counts) {
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const uint32_t bits = read_mask(p, tile * kMaskTile + threadIdx.x * kMaskPerThread);
    int total = 0;
    scan_block(__popc(bits), total);
    if (threadIdx.x == 0) counts[tile] = total;
  }
}

// In place: counts become the sums before them. One block; a thread takes a run of tiles.
__global__ void __launch_bounds__(kScanThreads) scan_tiles(int64_t* counts, int64_t tiles, int64_t row, int64_t limit,
                                                           int64_t* total_out, Flag* flag) {
  __shared__ int64_t sums[kScanThreads];
  const int64_t run = (tiles + kScanThreads - 1) / kScanThreads;
  const int64_t first = min(tiles, threadIdx.x * run), last = min(tiles, first + run);
  int64_t sum = 0;
  for (int64_t t = first; t < last; ++t) sum += counts[t];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 1; step < kScanThreads; step *= 2) {
    const int64_t other = static_cast<int>(threadIdx.x) >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
    __syncthreads();
  }
  int64_t before = sums[threadIdx.x] - sum;
  for (int64_t t = first; t < last; ++t) {
    const int64_t count = counts[t];
    counts[t] = before;
    before += count;
  }
  if (threadIdx.x != kScanThreads - 1) return;
  const int64_t trues = sums[kScanThreads - 1] * row;
  if (total_out != nullptr) *total_out = trues;
  if (flag != nullptr && trues > limit) {
    flag->trues = trues;
    mark_bad(flag);
  }
}

}  // namespace

void scan_mask(const Launch& launch, const MaskProblem& p, int64_t* tile_rank) {
  const int64_t tiles = mask_tiles(p);
  const int blocks = blocks_for(tiles, 1, 16 * launch.device.processors);
  count_tiles<<<blocks, kThreads, 0, launch.stream>>>(p, tiles, tile_rank);
  scan_tiles<<<1, kScanThreads, 0, launch.stream>>>(tile_rank, tiles, p.row, p.rank_limit, nullptr, launch.flag);
  check_launch("mask");
}

int64_t count_true(const CudaContext& context, const void* mask, int64_t count) {
  if (count == 0) return 0;
  const cudaStream_t stream = stream_of(context);
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
  count_tiles<<<blocks, kThreads, 0, stream>>>(p, tiles, counts);
  scan_tiles<<<1, kScanThreads, 0, stream>>>(counts, tiles, 1, 0, total, nullptr);
  check_launch("mask");
  int64_t out = 0;
  check(cudaMemcpyAsync(&out, total, sizeof(out), cudaMemcpyDeviceToHost, stream), "mask");
  check(cudaStreamSynchronize(stream), "mask");
  return out;
}

}  // namespace sow::detail::cuda
