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

// What is known of a mask once it was scanned: the trues before each tile, and those of each part. Null
// where nobody asks for ranks.
struct MaskRanks {
  int64_t* tile = nullptr;
  uint16_t* part = nullptr;
  uint16_t* bits = nullptr;  // the mask itself, sixteen positions a word, so that it is read once
};
inline MaskRanks carve_ranks(Carver& carver, int64_t tiles, bool with_bits) {
  MaskRanks ranks;
  ranks.tile = carver.take<int64_t>(tiles);
  ranks.part = carver.take<uint16_t>(tiles * kTileParts);
  if (with_bits) ranks.bits = carver.take<uint16_t>(tiles * kMaskTile / 16);
  return ranks;
}

// Fills `ranks`; the flag is set where there are more trues than values for them.
void scan_mask(const Launch& launch, const MaskProblem& problem, const MaskRanks& ranks);

}  // namespace sow::detail::cuda
