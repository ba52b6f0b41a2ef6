// Exact float sums in 64-bit integers: a batch of values whose exponents lie close together is
// added as whole numbers of one small unit, one integer addition an update and nothing to check.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/fold_kernels.h"

namespace sow::detail {

// The magnitudes of a batch, as the bits of float32. Starts empty.
struct WindowRange {
  uint32_t largest = 0;
  uint32_t smallest_less_one = UINT32_MAX;  // zeros wrap around and drop out
  int32_t lowest = INT32_MAX;               // INT32_MIN: there is a -0

  void include(const WindowRange& other) {
    largest = std::max(largest, other.largest);
    smallest_less_one = std::min(smallest_less_one, other.smallest_less_one);
    lowest = std::min(lowest, other.lowest);
  }
};

struct Window {
  int exponent = 0;  // cells count units of 2^exponent
  bool minus_zeros = false;
};

// What a window of few bits leaves over: terms that are not whole numbers of its unit. A few in a
// million of normal values; data of another kind soon has no room here, and leaves the window.
struct WindowRests {
  static constexpr int kRoom = 256;
  double* values = nullptr;  // exact
  uint32_t* cells = nullptr;
  int count = 0;
};

// The window in which no sum of `count` values of the range overflows, as fine as needed or as it
// can be; false: a value is not finite. `digits` and `unit` (the exponent of its smallest value)
// are those of the values' type.
inline bool window_of(const WindowRange& range, int64_t count, int digits, int unit,
                      Window& window) {
  if (range.largest >= 0x7f800000u) return false;
  const int top = static_cast<int>(range.largest >> 23) - 126;  // magnitudes are below 2^top
  const uint32_t smallest = range.smallest_less_one + 1;        // 0 when all are zeros
  const int finest =
      smallest == 0 ? top : std::max(static_cast<int>(smallest >> 23) - 126 - digits, unit);
  const int count_bits = 64 - __builtin_clzll(static_cast<uint64_t>(count) | 1);
  window.exponent = std::max(finest, top + count_bits - 62);
  window.minus_zeros = range.lowest == INT32_MIN;
  return true;
}

// The cell loops of one type and reduction (add, mean of the narrow floats).
struct WindowKernels {
  int digits;
  int unit;
  bool counts;  // results depend on the number of updates
  void (*scan)(const char* values, int64_t count, WindowRange&);
  // Adds values to their cells until the rests have no room; returns how many. `seen` may be null,
  // otherwise it counts the updates. `soon` is what will be read next, or null: it is sent for.
  int64_t (*add)(int64_t* cells, uint32_t* seen, const uint32_t* ids, const char* values,
                 int64_t count, Window, WindowRests&, const char* soon);
  // Writes the cells [begin, end), as FoldKernels::finish_block. With no counts a sum of zero may
  // be a cell without updates: where that makes a difference, it is refused.
  int64_t (*finish)(const int64_t* cells, const uint32_t* seen, const Block&, int64_t begin,
                    int64_t end, Window, Touched& refused, int64_t room);
  // The results of the cells that left rests, one a rest, before finish changes their old values;
  // `write` puts them in place after it.
  void (*settle)(const int64_t* cells, const uint32_t* seen, const Block&, Window,
                 const WindowRests&, char* results);
  void (*write)(const Block&, const WindowRests&, const char* results);
  // Moves what the cells and rests hold into opened Cells, and empties them. Where updates are not
  // counted, the counts become 1.
  void (*flush)(int64_t* cells, const Cells& to, int64_t count, Window, const WindowRests&,
                bool counted);
  // After a flush, a sum of zero has forgotten its sign, and where updates are not counted a cell
  // may have met zeros only: what cannot be told is made to refuse.
  void (*doubt)(const Cells&, const Block&, int64_t count, bool minus_zeros, bool counted);
};

// Null where sums cannot go through windows.
const WindowKernels* window_kernels(DType dtype, Reduce reduce);

}  // namespace sow::detail
