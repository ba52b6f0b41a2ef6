// SPDX-License-Identifier: Apache-2.0
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

// A bit for each byte that is not zero: they become 0 or 1 first, and one multiplication puts the
// four of a word side by side.
__device__ inline uint32_t nonzero_bits(uint32_t bytes) {
  const uint32_t ones = ((((bytes & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes) >> 7) & 0x01010101u;
  return (ones * 0x01020408u) >> 24;
}
__device__ inline uint32_t nonzero_bits(const uint4& bytes) {
  return nonzero_bits(bytes.x) | (nonzero_bits(bytes.y) << 4) | (nonzero_bits(bytes.z) << 8) |
         (nonzero_bits(bytes.w) << 12);
}

// Which of the sixteen positions from `first` on are true; those past the end are not.
__device__ inline uint32_t read_mask(const MaskProblem& p, int64_t first) {
  if (p.mask_dense && first + kMaskPerThread <= p.mask_count &&
      reinterpret_cast<uintptr_t>(p.mask + first) % 16 == 0) {
    return nonzero_bits(*reinterpret_cast<const uint4*>(p.mask + first));
  }
  uint32_t bits = 0;
  for (int i = 0; i < kMaskPerThread && first + i < p.mask_count; ++i) {
    bits |= static_cast<uint32_t>(p.mask[mask_offset(p, first + i)] != 0) << i;
  }
  return bits;
}

// The trues before a part, and before a tile.
__device__ inline int64_t rank_of_part(const MaskRanks& ranks, int64_t part) {
  return ranks.range[part / kTileParts >> ranks.shift] + ranks.part[part];
}
__device__ inline int64_t rank_of_tile(const MaskRanks& ranks, int64_t tile) {
  return rank_of_part(ranks, tile * kTileParts);
}

// The sum of `value` over this lane and those before it.
template <class T>
__device__ inline T scan_warp(T value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(~0u, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

// The sum of `value` over the threads before this one, and over the block.
template <class T>
__device__ inline T scan_block(T value, T& total) {
  __shared__ T warp_sums[kThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const T inclusive = scan_warp(value);
  __syncthreads();
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  T before = 0;
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return before + inclusive - value;
}

// The mask of two parts of a warp that takes them one after the other: a word of 32 positions a
// lane, and the trues before it.
struct PairRanks {
  static constexpr int kPositions = 2 * kMaskPart;

  uint32_t word;
  int before;
  int total;
  int64_t base;  // the trues before the pair

  __device__ PairRanks(const MaskRanks& known, int64_t pair)
      : word(reinterpret_cast<const uint32_t*>(known.bits)[pair * 32 + threadIdx.x % 32]),
        base(rank_of_part(known, pair * 2)) {
    const int inclusive = scan_warp(__popc(word));
    before = inclusive - __popc(word);
    total = __shfl_sync(~0u, inclusive, 31);
  }
};

}  // namespace sow::detail::cuda
