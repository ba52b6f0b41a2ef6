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
};

struct Window {
  int exponent = 0;  // cells count units of 2^exponent
  bool minus_zeros = false;
};

// The window in which no sum of `count` values of the range overflows; false: they lie too far
// apart, or one is not finite. `digits` is the precision of the type that they come from.
inline bool window_of(const WindowRange& range, int64_t count, int digits, Window& window) {
  if (range.largest >= 0x7f800000u) return false;
  const int top = static_cast<int>(range.largest >> 23) - 126;  // magnitudes are below 2^top
  const uint32_t smallest = range.smallest_less_one + 1;        // 0 when all are zeros
  const int biased = static_cast<int>(smallest >> 23);
  window.exponent = smallest == 0 ? top : std::max(biased - 126 - digits, -149);
  window.minus_zeros = range.lowest == INT32_MIN;
  const int count_bits = 64 - __builtin_clzll(static_cast<uint64_t>(count) | 1);
  return top - window.exponent + count_bits <= 62;
}

// The cell loops of one type and reduction (add, mean of the narrow floats).
struct WindowKernels {
  int digits;
  bool counts;  // results depend on the number of updates
  void (*scan)(const char* values, int64_t count, WindowRange&);
  // Adds values to their cells; `seen` may be null, otherwise it counts the updates.
  void (*add)(int64_t* cells, uint32_t* seen, const uint32_t* ids, const char* values,
              int64_t count, Window);
  // Writes the cells [begin, end), as FoldKernels::finish_block. With no counts a sum of zero may
  // be a cell without updates: where that makes a difference, it is refused.
  int64_t (*finish)(const int64_t* cells, const uint32_t* seen, const Block&, int64_t begin,
                    int64_t end, Window, Touched& refused, int64_t room);
  // Moves what the cells hold into opened Cells, and empties them. Where updates are not counted,
  // the counts become 1.
  void (*flush)(int64_t* cells, const Cells& to, int64_t count, Window, bool counted);
  // After a flush, a sum of zero has forgotten its sign, and where updates are not counted a cell
  // may have met zeros only: what cannot be told is made to refuse.
  void (*doubt)(const Cells&, const Block&, int64_t count, bool minus_zeros, bool counted);
};

// Null where sums cannot go through windows.
const WindowKernels* window_kernels(DType dtype, Reduce reduce);

}  // namespace sow::detail
