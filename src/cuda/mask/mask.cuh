// Reading masks on the device: sixteen bytes per thread, as bits.
#pragma once

#include "cuda/common/decode.cuh"
#include "cuda/mask/mask.h"

namespace sow::detail::cuda {

inline constexpr int kMaskPerThread = 16;
static_assert(kMaskTile == kThreads * kMaskPerThread);

__device__ inline int64_t mask_offset(const MaskProblem& p, int64_t position) {
  if (p.mask_dense) return position;
  if (p.mask_table != nullptr) return p.mask_table[position];
  int64_t at[1] = {};
  walk_to(p.mask_walk, position, 1, at);
  return at[0];
}

// A bit for each of four bytes that are not zero.
__device__ inline uint32_t nonzero_bits(uint32_t bytes) {
  const uint32_t set = __vcmpne4(bytes, 0) & 0x08040201u;
  return (set | (set >> 8) | (set >> 16) | (set >> 24)) & 15;
}

// Which of the sixteen positions from `first` on are true; those past the end are not.
__device__ inline uint32_t read_mask(const MaskProblem& p, int64_t first) {
  if (p.mask_dense && first + kMaskPerThread <= p.mask_count &&
      reinterpret_cast<uintptr_t>(p.mask + first) % 16 == 0) {
    const uint4 bytes = *reinterpret_cast<const uint4*>(p.mask + first);
    return nonzero_bits(bytes.x) | (nonzero_bits(bytes.y) << 4) | (nonzero_bits(bytes.z) << 8) |
           (nonzero_bits(bytes.w) << 12);
  }
  uint32_t bits = 0;
  for (int i = 0; i < kMaskPerThread && first + i < p.mask_count; ++i) {
    bits |= static_cast<uint32_t>(p.mask[mask_offset(p, first + i)] != 0) << i;
  }
  return bits;
}

// The trues before a tile.
__device__ inline int64_t rank_of_tile(const MaskRanks& ranks, int64_t tile) {
  return ranks.range[tile >> ranks.shift] + ranks.tile[tile];
}

// The sum of `value` over the threads before this one, and over the block.
__device__ inline int scan_block(int value, int& total) {
  __shared__ int warp_sums[kThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int inclusive = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  __syncthreads();
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return before + inclusive - value;
}

}  // namespace sow::detail::cuda
