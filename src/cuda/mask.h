// A masked Transfer as kernels take it, and the scan that gives every true its rank.
#pragma once

#include "cuda/strategy.h"

namespace sow::detail::cuda {

// Positions are mask positions x row: the trailing dimensions the mask does not depend on.
struct MaskProblem {
  static constexpr int kMask = 0, kDst = 1, kSrc = 2, kBase = 3;

  Walk walk;       // of all positions
  Walk mask_walk;  // of the mask's positions alone, slot 0
  // Where the dimensions are too many for a Walk: offsets by position.
  const int64_t* spelled[4] = {};
  const int64_t* spelled_mask = nullptr;  // by mask position
  int64_t mask_count = 1, row = 1;
  FastDivider row_divider;
  bool mask_dense = false;  // the mask is one run of bytes
  bool all_dense = false;   // so are all the operands that are not addressed by rank
  int64_t row_stride[4] = {};  // of the row, where it is one axis
  bool row_is_axis = false;

  const char* mask = nullptr;
  char* dst = nullptr;
  const char* src = nullptr;
  const char* base = nullptr;
  alignas(16) unsigned char scalar[16] = {};
  MaskSide side = MaskSide::source;
  int64_t rank_limit = 0, rank_stride = 1;
  int width = 4;

  int64_t positions() const { return mask_count * row; }
};

MaskProblem make_mask_problem(const Transfer& transfer);
// Bytes, and offsets written there, for what does not fit a Walk; nothing otherwise.
size_t spelling_bytes(const MaskProblem& problem, const Transfer& transfer);
void spell_out(MaskProblem& problem, const Transfer& transfer, char* workspace, cudaStream_t stream);

inline constexpr int kMaskTile = 4096;
inline int64_t mask_tiles(const MaskProblem& p) { return (p.mask_count + kMaskTile - 1) / kMaskTile; }

// Tiles are cut into parts, one a warp.
inline constexpr int kMaskPart = 512;
inline constexpr int kTileParts = kMaskTile / kMaskPart;

// What is known of a mask once it was scanned. Tiles are counted by ranges of a power of two, a block each.
// Null where nobody asks for ranks.
struct MaskRanks {
  int64_t* range = nullptr;   // the trues before each range
  uint32_t* tile = nullptr;   // those before each tile in its range
  uint16_t* part = nullptr;   // those of each part
  uint16_t* bits = nullptr;   // the mask itself, sixteen positions a word, so that it is read once
  Flag* flag = nullptr;       // set where there are more trues than values for them
  int shift = 0;              // of a tile's number to its range's
};
// As many ranges as one block adds up at once, but no longer ones than a warp does.
inline constexpr int kRangeBits = 5;
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
  ranks.flag = carver.take<Flag>(1);
  ranks.tile = carver.take<uint32_t>(tiles);
  ranks.part = carver.take<uint16_t>(tiles * kTileParts);
  if (with_bits) ranks.bits = carver.take<uint16_t>(tiles * kMaskTile / 16);
  return ranks;
}

struct MaskReporter;
// Fills `ranks`. Where there are more trues than values the flag is set, and the reporter, if any, told.
void scan_mask(const MaskProblem& problem, const MaskRanks& ranks, const MaskReporter* reporter, cudaStream_t stream);

}  // namespace sow::detail::cuda
