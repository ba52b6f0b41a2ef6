// SPDX-License-Identifier: Apache-2.0
// The scan of a mask that gives every true its rank, and where its results lie.
#pragma once

#include "cuda/plan/strategy.h"

namespace sow::detail::cuda {

// Bytes, and offsets written there, for what does not fit a Walk; nothing otherwise.
size_t materialised_bytes(const MaskProblem& problem);
void materialise(MaskProblem& problem, const Transfer& transfer, char* workspace,
                 cudaStream_t stream);

inline constexpr int kMaskTile = 4096;
inline int64_t mask_tiles(const MaskProblem& p) {
  return (p.mask_count + kMaskTile - 1) / kMaskTile;
}

// Tiles are cut into parts, one a warp.
inline constexpr int kMaskPart = 512;
inline constexpr int kTileParts = kMaskTile / kMaskPart;

// What is known of a mask once it was scanned. Tiles are counted by ranges of a power of two, a
// block each. Null where nobody asks for ranks.
struct MaskRanks {
  int64_t* range = nullptr;  // the trues before each range
  int64_t* total = nullptr;  // all of them
  uint16_t* part = nullptr;  // those before each part in its range
  uint16_t* bits = nullptr;  // the mask itself, sixteen positions a word, so that it is read once
  Flag* flag = nullptr;      // set where there are more trues than values for them
  int shift = 0;             // of a tile's number to its range's
};
// A block has few enough tiles that all blocks together keep the device busy to the end, and that
// sixteen bits count what comes before its last part.
inline constexpr int kRangeBits = 4;
static_assert((kMaskTile << kRangeBits) - kMaskPart < (1 << 16));
inline int range_shift(int64_t tiles) {
  int shift = 0;
  while (shift < kRangeBits && (tiles >> shift) > 1024) ++shift;
  return shift;
}
inline int64_t mask_ranges(int64_t tiles) { return ((tiles - 1) >> range_shift(tiles)) + 1; }
inline MaskRanks carve_ranks(Carver& carver, int64_t tiles, bool with_bits) {
  MaskRanks ranks;
  if (tiles <= 0) return ranks;
  ranks.shift = range_shift(tiles);
  ranks.range = carver.take<int64_t>(mask_ranges(tiles));
  ranks.total = carver.take<int64_t>(1);
  ranks.flag = carver.take<Flag>(1);
  ranks.part = carver.take<uint16_t>(tiles * kTileParts);
  if (with_bits) ranks.bits = carver.take<uint16_t>(tiles * kMaskTile / 16);
  return ranks;
}

// A counter of the scan's blocks: zero before it and after.
using ScanHead = uint32_t;

struct MaskReporter;
// Fills `ranks`, in one launch. Where there are more trues than values the flag is set, and the
// reporter, if any, told.
void scan_mask(const MaskProblem& problem, const MaskRanks& ranks, ScanHead* head,
               const MaskReporter* reporter, cudaStream_t stream);

// What was kept when somebody counted the mask of the Transfer (count_true.h); null where nobody
// did.
MaskRanks kept_ranks(const Transfer& transfer, int64_t tiles);

}  // namespace sow::detail::cuda
