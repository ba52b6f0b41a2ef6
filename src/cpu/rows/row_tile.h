// SPDX-License-Identifier: Apache-2.0
// Folds of up to 64 columns of one destination row in vector registers, by instruction set.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/isa.h"
#include "sow/dtype.h"
#include "sow/reduce.h"

namespace sow::detail {

struct RowTile {
  const char* src = nullptr;  // the tile's first column of source row 0
  int64_t src_step = 0;       // bytes between source rows
  const uint32_t* ids = nullptr;
  int64_t count = 0;  // source rows that meet here, at least one
  // Rows that will be read later: far[k] is prefetched into the second-level cache while the k-th
  // row is added, ids[k + kMidRows] once more, and ids[k + kNearRows] from there into the first, of
  // `known` ids.
  const uint32_t* far = nullptr;
  int64_t far_count = 0;
  int64_t known = 0;
  char* dst = nullptr;
  int columns = 0;
  bool include_self = true;
  // Of sums: where they go instead, exactly; there is room for all columns of a tile.
  double* sums = nullptr;
};

inline constexpr int kTileColumns = 64;

// Fetching straight into the first-level cache is limited by the few misses that it keeps open at a
// time. 500,000 rows of 64 floats out of 128 MB in random order: 8.3 ms 16 rows ahead; into the
// second level 6.6; that 60 rows ahead, and from there into the first 16 rows ahead, 3.0 (2 cores
// of a Zen 4 class EPYC, 2026-11-15; 2.2 for reading the same bytes in order). What is asked for
// while too many misses are open is forgotten, and then missed later, for longer: so it is asked
// for once more. Maxima of these rows in a held order took 8.3 ms on one thread and 4.0 on two, and
// take 5.6 and 3.0; products and sums fell into either state, a build one, a build the other
// (2026-11-16).
inline constexpr int64_t kFarRows = 60;
inline constexpr int64_t kMidRows = 40;
inline constexpr int64_t kNearRows = 16;

// A sum is proved exact by the spread of its terms' exponents, which many terms spread too far;
// where they lie further apart, float64 still tells how it is rounded, unless they cancel.
inline constexpr int64_t kSpreadItems = 256;

// Writes the row and returns true; or false, and nothing was written: a sum that it can't prove.
using FoldRowTile = bool (*)(const RowTile&);

// Sets what is prefetched of rows that are one tile wide: the next ones in order, of which there
// are `known` ids from the tile's first on.
inline void prefetch_ahead(RowTile& tile, int64_t known) {
  tile.known = known;
  tile.far = tile.ids + kFarRows;
  tile.far_count = std::clamp<int64_t>(known - kFarRows, 0, tile.count);
}

// How the source rows lie: all of them `shift` bytes after the beginning of a cache line, a
// multiple of 4; or anywhere (0). Rows of NumPy's arrays begin 16 bytes into a line.
int row_shift(const void* src, int64_t src_step, int columns);

// For so many columns and a shift, or null where the current instruction set has none.
FoldRowTile row_tile_kernel(DType dtype, Reduce reduce, int columns, int shift);

}  // namespace sow::detail
