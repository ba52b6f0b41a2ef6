// Counts the trues of every tile of a mask and adds the counts up.
#include "cuda/count_true.h"
#include "cuda/mask.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kScanThreads = 1024;

// A warp takes parts, on its own; several are on their way.
__global__ void __launch_bounds__(kThreads) count_parts(const __grid_constant__ MaskProblem p, int64_t parts,
                                                        uint16_t* counts, uint16_t* words) {
  constexpr int kUnroll = 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t step = grid_threads() / 32;
  for (int64_t first = global_thread() / 32; first < parts; first += kUnroll * step) {
    uint32_t bits[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t part = first + u * step;
      bits[u] = part < parts ? read_mask(p, part * kMaskPart + lane * kMaskPerThread) : 0;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t part = first + u * step;
      if (part >= parts) break;
      if (words != nullptr) words[part * 32 + lane] = static_cast<uint16_t>(bits[u]);
      const int total = __reduce_add_sync(~0u, __popc(bits[u]));
      if (lane == 0) counts[part] = static_cast<uint16_t>(total);
    }
  }
}

// A tile's parts are eight counts side by side.
__device__ inline int tile_total(const uint16_t* parts, int64_t tile) {
  static_assert(kTileParts * sizeof(uint16_t) == sizeof(uint4));
  const uint4 all = reinterpret_cast<const uint4*>(parts)[tile];
  const uint32_t pairs = all.x + all.y + all.z + all.w;  // no half can overflow into the other
  return static_cast<int>((pairs & 0xffff) + (pairs >> 16));
}

// The trues before each tile, by one block: rounds of neighbouring tiles, all of them read before the first
// is added up.
__global__ void __launch_bounds__(kScanThreads) scan_tiles(const uint16_t* parts, int64_t* before, int64_t tiles,
                                                           int64_t row, int64_t limit, int64_t* total_out, Flag* flag) {
  constexpr int kRounds = 32, kWarps = kScanThreads / 32;
  __shared__ int warp_sums[kRounds * kWarps];  // as many as threads
  __shared__ int block_sums[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto scan_warp = [&](int value) {
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, value, step);
      if (lane >= step) value += other;
    }
    return value;
  };
  int64_t carried = 0;
  for (int64_t first = 0; first < tiles; first += kRounds * kScanThreads) {
    int count[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int64_t tile = first + r * kScanThreads + threadIdx.x;
      count[r] = tile < tiles ? tile_total(parts, tile) : 0;
    }
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int inclusive = scan_warp(count[r]);
      if (lane == 31) warp_sums[r * kWarps + warp] = inclusive;
      count[r] = inclusive - count[r];
    }
    __syncthreads();
    const int sum = warp_sums[threadIdx.x], inclusive = scan_warp(sum);
    if (lane == 31) block_sums[warp] = inclusive;
    __syncthreads();
    const int above = block_sums[lane];
    const int all = __reduce_add_sync(~0u, above), mine = __reduce_add_sync(~0u, lane < warp ? above : 0);
    warp_sums[threadIdx.x] = mine + inclusive - sum;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const int64_t tile = first + r * kScanThreads + threadIdx.x;
      if (before != nullptr && tile < tiles) before[tile] = carried + warp_sums[r * kWarps + warp] + count[r];
    }
    carried += all;
    __syncthreads();
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

namespace {

// Parts past the end of the mask have no trues, so that every tile has all of its parts.
void count_mask(const MaskProblem& p, uint16_t* counts, uint16_t* words, int processors, cudaStream_t stream) {
  const int64_t parts = mask_tiles(p) * kTileParts;
  count_parts<<<blocks_for(parts, kThreads / 32, 8 * processors), kThreads, 0, stream>>>(p, parts, counts, words);
}

}  // namespace

void scan_mask(const Launch& launch, const MaskProblem& p, const MaskRanks& ranks) {
  count_mask(p, ranks.part, ranks.bits, launch.device.processors, launch.stream);
  scan_tiles<<<1, kScanThreads, 0, launch.stream>>>(ranks.part, ranks.tile, mask_tiles(p), p.row, p.rank_limit, nullptr,
                                                    launch.flag);
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
  measure.take<uint16_t>(tiles * kTileParts);
  measure.take<int64_t>(1);
  Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  uint16_t* parts = carver.take<uint16_t>(tiles * kTileParts);
  int64_t* total = carver.take<int64_t>(1);
  count_mask(p, parts, nullptr, device_state(context.device).processors, stream);
  scan_tiles<<<1, kScanThreads, 0, stream>>>(parts, nullptr, tiles, 1, 0, total, nullptr);
  check_launch("mask");
  int64_t out = 0;
  check(cudaMemcpyAsync(&out, total, sizeof(out), cudaMemcpyDeviceToHost, stream), "mask");
  check(cudaStreamSynchronize(stream), "mask");
  return out;
}

}  // namespace sow::detail::cuda
