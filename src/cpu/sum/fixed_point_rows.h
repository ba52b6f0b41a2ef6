// SPDX-License-Identifier: Apache-2.0
// Exact sums of short rows in 64-bit integers: whole numbers of one unit for all of them, and what
// does not fit goes aside.
#pragma once

#include <cstdint>

#include "core/exact/exact_sum.h"
#include "cpu/common/prefetch.h"
#include "sow/dtype.h"
#include "sow/reduce.h"

namespace sow::detail {

inline constexpr int kShortColumns = 16;

// Some items, and the rows that they meet.
struct ShortItems {
  const char* src = nullptr;  // of item 0
  int64_t step = 0;           // bytes from an item to the next
  const uint32_t* items = nullptr;
  const uint32_t* rows = nullptr;  // so many more may be read, to prefetch them: kShortPrefetchFar
  int64_t count = 0;
  int columns = 1;
  bool far = true;  // not everything is in the second-level cache
};

// Rows are prefetched twice, into the second-level cache first, and so is what is read one after
// the other: rows here and there teach the hardware not to foresee it. [short_prefetch] in the
// notebook.
inline constexpr int kShortPrefetchFar = 80, kShortPrefetchNear = 16;
inline constexpr int64_t kShortSourceBytes = 8192, kShortKeyBytes = 16384;

// For what items after item i need: rows at `rows`, `bytes` apart.
[[gnu::always_inline]] inline void prefetch_short_rows(const void* rows, int64_t bytes,
                                                       const ShortItems& items, int64_t i) {
  prefetch(rows, items.rows[i + kShortPrefetchNear] * bytes);
  if (!items.far) return;
  prefetch_l2(rows, items.rows[i + kShortPrefetchFar] * bytes);
  prefetch_l2(items.src, items.items[i] * items.step + kShortSourceBytes);
}

// Cells count units of 2^exponent. Terms are whole numbers of them, up to a limit that lets no sum
// overflow.
struct RowScale {
  int exponent = 0;
  double factor = 1, limit = 0;
};

// Terms that are no such numbers, -0 among them: a cell above, the bits of a value below.
struct RowResiduals {
  uint64_t* terms = nullptr;
  int64_t count = 0, room = 0;
};

// Adds items to the cells of their rows, which are dense. False: the residuals have no room.
using AddShortRows = bool (*)(int64_t* cells, const ShortItems&, const RowScale&, RowResiduals&);

// Rows of cells, and where they go.
struct ShortBlock {
  const int64_t* cells = nullptr;
  const uint32_t* seen = nullptr;  // updates of each row; null: not counted
  int64_t rows = 0;
  char* dst = nullptr;
  int64_t step = 0;  // bytes from a row to the next
  int columns = 1;
  bool include_self = true;
  int exponent = 0;
};

// Counts the updates of a block's rows where they were not counted from the beginning: only an old
// -0 or NaN asks for it.
struct ShortCounter {
  const void* context = nullptr;
  int worker = 0;
  const uint32_t* (*count)(const void* context, int worker) = nullptr;
};

struct ShortKernels {
  AddShortRows add;
  // Finds the fixed-point scale for `count` items by looking at some of them.
  RowScale (*scale)(const ShortItems& some, int64_t count);
  // Writes all rows.
  void (*finish)(ShortBlock, const RowResiduals&, const ShortCounter&);
};
// Null where there are none.
const ShortKernels* short_kernels(DType dtype, Reduce reduce);

// Some keys of an index, and the rows that are of interest: those from `lowest` on.
struct ShortKeys {
  const char* keys = nullptr;
  int64_t extent = 1;
  uint32_t first = 0;  // item
  uint32_t lowest = 0, rows = 1;
};
// Lists the items whose keys are such rows, and which rows of these they are. Returns how many, or
// -1 if a key is out of bounds. There is room for all, and kShortPrefetchFar more.
using KeepShortRows = int (*)(const ShortKeys&, int count, uint32_t* items, uint32_t* rows);
KeepShortRows keep_short_rows(DType index);

// src/cpu/sum/fixed_point_rows_vector.cc
AddShortRows short_adder(DType dtype, int columns);
// Finishes sums of float32 that are nothing special, up to the first vector in which some are:
// returns how many; `stopped` is how many come next that are to be looked at.
int64_t finish_short_sums(const int64_t* cells, float* to, int64_t count, double unit,
                          int64_t& stopped);

// src/cpu/sum/fixed_point_rows_avx512.cc
AddShortRows short_adder_avx512(DType dtype, int columns);

// One item after the other, in plain C++.
template <class T>
inline bool add_short_row(int64_t* cells, const T* from, uint32_t row, int columns,
                          const RowScale& scale, RowResiduals& residuals) {
  for (int c = 0; c < columns; ++c) {
    const T value = from[c];
    const double scaled = widen(value) * scale.factor;
    const uint32_t cell = row * static_cast<uint32_t>(columns) + static_cast<uint32_t>(c);
    if (scaled >= -scale.limit && scaled <= scale.limit) {
      const auto fixed = static_cast<int64_t>(scaled);
      if (bit_cast<uint64_t>(static_cast<double>(fixed)) == bit_cast<uint64_t>(scaled)) {
        cells[cell] += fixed;
        continue;
      }
    }
    if (residuals.count == residuals.room) return false;
    residuals.terms[residuals.count++] =
        uint64_t{cell} << 32 | bit_cast<typename FloatTraits<T>::Bits>(value);
  }
  return true;
}

}  // namespace sow::detail
