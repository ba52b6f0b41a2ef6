// Exact sums of short rows in 64-bit integers: whole numbers of one unit for all of them, and what
// does not fit goes aside.
#pragma once

#include <cstdint>

#include "core/exact_sum.h"
#include "cpu/touch.h"
#include "sow/dtype.h"
#include "sow/reduce.h"

namespace sow::detail {

inline constexpr int kShortColumns = 16;

// Some items, and the rows that they meet.
struct ShortItems {
  const char* src = nullptr;  // of item 0
  int64_t step = 0;           // bytes from an item to the next
  const uint32_t* items = nullptr;
  const uint32_t* rows = nullptr;  // so many more may be read, to send for them: kShortAhead
  int64_t count = 0;
  int columns = 1;
  bool far = true;  // not everything is in the second-level cache
};

// Rows are sent for twice, into the second-level cache first. What is read one after the other is
// sent for too: the hardware foresees it by itself, but only while it finds that it guesses well,
// and rows here and there teach it otherwise. So many rows ahead, and bytes of items and of keys.
// 2^23 elements in rows of 2, 4 and 8 took 8.4, 5.1 and 3.5 ms with rows sent for once, 24 ahead;
// 7.0, 4.0 and 2.7 so; 7.6, 4.9 and 3.5 without the items, 7.3, 4.6 and 3.2 with the keys alone;
// as long 60 or 120 rows ahead (2 cores of a Zen 4 class EPYC, 2026-11-16).
inline constexpr int kShortAhead = 80, kShortNear = 16;
inline constexpr int64_t kShortSourceBytes = 8192, kShortKeyBytes = 16384;

// For what items after item i need: rows at `rows`, `bytes` apart.
[[gnu::always_inline]] inline void send_for_short_rows(const void* rows, int64_t bytes,
                                                       const ShortItems& items, int64_t i) {
  send_for(rows, items.rows[i + kShortNear] * bytes);
  if (!items.far) return;
  send_ahead(rows, items.rows[i + kShortAhead] * bytes);
  send_ahead(items.src, items.items[i] * items.step + kShortSourceBytes);
}

// Cells count units of 2^exponent. Terms are whole numbers of them, up to a limit that lets no sum
// overflow.
struct ShortWindow {
  int exponent = 0;
  double scale = 1, limit = 0;
};

// Terms that are no such numbers, -0 among them: a cell above, the bits of a value below.
struct ShortRests {
  uint64_t* terms = nullptr;
  int64_t count = 0, room = 0;
};

// Adds items to the cells of their rows, which are dense. False: the rests have no room.
using AddShortRows = bool (*)(int64_t* cells, const ShortItems&, const ShortWindow&, ShortRests&);

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
  // Finds the window for `count` items by looking at some of them.
  ShortWindow (*window)(const ShortItems& some, int64_t count);
  // Writes all rows.
  void (*finish)(ShortBlock, const ShortRests&, const ShortCounter&);
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
// -1 if a key is out of bounds. There is room for all, and kShortAhead more.
using KeepShortRows = int (*)(const ShortKeys&, int count, uint32_t* items, uint32_t* rows);
KeepShortRows keep_short_rows(DType index);

// src/cpu/short_sums_avx512.cc
AddShortRows short_adder_avx512(DType dtype, int columns);
KeepShortRows keep_short_rows_avx512(DType index);
// Finishes eight sums of float32 that are nothing special; says which of them are, unwritten.
uint32_t finish_eight_avx512(const int64_t* cells, float* to, double unit);

// One item after the other, in plain C++.
template <class T>
inline bool add_short_row(int64_t* cells, const T* from, uint32_t row, int columns,
                          const ShortWindow& window, ShortRests& rests) {
  for (int c = 0; c < columns; ++c) {
    const T value = from[c];
    const double scaled = widen(value) * window.scale;
    const uint32_t cell = row * static_cast<uint32_t>(columns) + static_cast<uint32_t>(c);
    if (scaled >= -window.limit && scaled <= window.limit) {
      const auto units = static_cast<int64_t>(scaled);
      if (bit_cast<uint64_t>(static_cast<double>(units)) == bit_cast<uint64_t>(scaled)) {
        cells[cell] += units;
        continue;
      }
    }
    if (rests.count == rests.room) return false;
    rests.terms[rests.count++] =
        uint64_t{cell} << 32 | bit_cast<typename FloatTraits<T>::Bits>(value);
  }
  return true;
}

}  // namespace sow::detail
