// SPDX-License-Identifier: Apache-2.0
// Segments: the items of each place side by side, after a stable sort or a grouping by place.
#pragma once

#include "cuda/plan/strategy.h"

namespace sow::detail::cuda {

// Products are cut here by definition; sums are, so that one hot place keeps many threads busy.
inline constexpr int kChunk = 256;

struct Segment {
  int64_t begin;  // its first item
  int64_t dst;    // element offset of its place
  int32_t count;  // of items; 0: nothing to do
};

// The same of rows, read at once.
struct alignas(16) Head {
  uint32_t begin, count, place;
};

// Segments of more than a chunk, with the number of their first chunk.
struct LongSegment {
  int64_t begin, dst, count, first_chunk;
};

struct SegmentCounts {
  unsigned long long shorts;
  unsigned long long longs;  // count << 36 | chunks
};
inline constexpr int kChunkBits = 36;

struct Segments {
  bool is_64_bit = false;  // keys and items; else they are 32-bit
  const void* keys =
      nullptr;  // sorted places; null without an index, or where rows were grouped without a sort
  // In that order: the element offsets of the sources, or, with `payload`, the values themselves
  // (single elements of up to 4 bytes).
  const void* items = nullptr;
  bool payload = false;
  bool runs = false;  // short runs of such values: the first of each folds it, and there is no list
  bool long_rows = false;   // listed as heads
  uint32_t item_bytes = 0;  // of rows: what an item counts
  const Segment* shorts = nullptr;
  const Head* heads = nullptr;
  const LongSegment* longs = nullptr;
  const SegmentCounts* counts = nullptr;
  // Upper bounds, for grids and workspace.
  int64_t most_shorts = 0, most_longs = 0, most_chunks = 0;
};

// The order that somebody holds, on this device, if the items are exactly the held keys; else null.
// Its keys were checked when it was made.
const IndexOrder* held_order(const Transfer& transfer, const Canonical& canonical);

// How items are brought in the order of their places, and what that takes.
enum class Ordering {
  as_is,  // they are in order: nothing is indexed
  held,   // by an order that somebody holds
  group,  // by buckets, in any order within a place
  sort,
};
struct SegmentLayout {
  Ordering ordering = Ordering::sort;
  Segments bounds;        // without lists
  size_t sort_bytes = 0;  // of scratch, for a sort or a grouping
  size_t workspace = 0;
};
SegmentLayout lay_out_segments(const Case& problem_case);
// Whether values travel with their keys.
bool has_payload(const Problem& problem);
// Bad keys set the flag. For an assign the items are positions, and there are no lists.
Segments make_segments(const Launch& launch, const SegmentLayout& layout, char* workspace);

}  // namespace sow::detail::cuda
