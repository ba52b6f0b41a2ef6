// Folds of up to 64 columns of one destination row in vector registers, by instruction set.
#pragma once

#include <cstdint>

#include "core/isa.h"
#include "sow/dtype.h"
#include "sow/reduce.h"

namespace sow::detail {

struct RowTile {
  const char* src = nullptr;  // the tile's first column of source row 0
  int64_t src_step = 0;       // bytes between source rows
  const uint32_t* codes = nullptr;
  int64_t count = 0;  // source rows that meet here, at least one
  // Rows that will be read later: far[k] is fetched into the second-level cache while the k-th row
  // is added, and codes[k + kNearRows] from there into the first, if k + kNearRows < known.
  const uint32_t* far = nullptr;
  int64_t far_count = 0;
  int64_t known = 0;
  char* dst = nullptr;
  int columns = 0;
  bool include_self = true;
};

inline constexpr int kTileColumns = 64;

// Fetching straight into the first-level cache is limited by the few misses that it keeps open at a
// time. 500,000 rows of 64 floats out of 128 MB in random order: 8.3 ms 16 rows ahead, into the
// second level 6.6, and into the first 8 rows ahead on top of that 4.8 (2 cores of a Zen 4 class
// EPYC, 2026-11-15).
inline constexpr int64_t kFarRows = 48;
inline constexpr int64_t kNearRows = 8;

// A sum is proved exact by the spread of its terms' exponents, which many terms spread too far.
inline constexpr int64_t kSpreadItems = 256;

// Writes the row and returns true; or false, and nothing was written: a sum that it can't prove.
using FoldRowTile = bool (*)(const RowTile&);

// For so many columns, or null where the current instruction set has none.
FoldRowTile row_tile_kernel(DType dtype, Reduce reduce, int columns);

FoldRowTile row_tile_avx512(DType dtype, Reduce reduce, int columns);
FoldRowTile row_tile_avx2(DType dtype, Reduce reduce, int columns);

}  // namespace sow::detail
