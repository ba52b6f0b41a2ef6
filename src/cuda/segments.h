// Positions grouped by the place they meet in: sorted stably, and cut into segments.
#pragma once

#include "cuda/strategy.h"

namespace sow::detail::cuda {

// Products are cut here by definition; sums are, so that one hot place keeps many threads busy.
inline constexpr int kChunk = 256;

struct Segment {
  int64_t begin, end;  // in `order`
};

// Segments of more than a chunk, with the number of their first chunk.
struct LongSegment {
  int64_t begin, end, first_chunk;
};

struct SegmentCounts {
  unsigned long long shorts;
  unsigned long long longs;  // count << 36 | chunks
};
inline constexpr int kChunkBits = 36;

struct Segments {
  const void* order = nullptr;  // sorted positions, uint32 or uint64; null: every position itself
  bool wide = false;
  const Segment* shorts = nullptr;
  const LongSegment* longs = nullptr;
  const SegmentCounts* counts = nullptr;
  // Upper bounds, for grids and workspace.
  int64_t most_shorts = 0, most_longs = 0, most_chunks = 0;
};

// The upper bounds alone.
Segments segment_bounds(const Problem& problem);
size_t segments_workspace(const Case& problem_case);
// Bad keys set the flag.
Segments make_segments(const Launch& launch, char* workspace);

}  // namespace sow::detail::cuda
