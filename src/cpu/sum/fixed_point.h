// SPDX-License-Identifier: Apache-2.0
// Exact float sums in 64-bit integers: a batch of values whose exponents lie close together is
// added as whole numbers of one small unit, one integer addition an update and nothing to check.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu/fold/fold_kernels.h"

namespace sow::detail {

// The magnitudes of a batch, as the bits of float32, or as the upper half of those of float64.
// Starts empty.
struct MagnitudeRange {
  uint32_t largest = 0;
  uint32_t smallest_less_one = UINT32_MAX;  // zeros wrap around and drop out
  int32_t lowest = INT32_MAX;               // INT32_MIN: there is a -0

  // One magnitude; signs are the caller's.
  [[gnu::always_inline]] void include(uint32_t magnitude) {
    largest = std::max(largest, magnitude);
    smallest_less_one = std::min(smallest_less_one, magnitude - 1);
  }
  void include(const MagnitudeRange& other) {
    largest = std::max(largest, other.largest);
    smallest_less_one = std::min(smallest_less_one, other.smallest_less_one);
    lowest = std::min(lowest, other.lowest);
  }
};

struct FixedPointKernels;

// Digits of a number, which is not 0.
inline int bit_width(int64_t number) {
  return 64 - __builtin_clzll(static_cast<uint64_t>(number) | 1);
}

struct FixedPointScale {
  static constexpr int kBits = 62;       // of a cell's magnitude
  static constexpr int kValueBits = 51;  // of a value's: as many as vectors convert at once
  static constexpr int kSpare = 5;       // by which the second integers of float64 are smaller

  int exponent = 0;    // cells count units of 2^exponent
  int value_bits = 0;  // a value is less than 2^value_bits units
  uint32_t limit = 0;  // of their magnitudes, as in a range; 0: there is no fixed-point scale
  bool minus_zeros = false;

  // The fixed-point scale in which no sum of `count` values of the range overflows, as fine as
  // needed or as it can be; false: a value is not finite, or all are too small.
  bool set(const MagnitudeRange& range, int64_t count, const FixedPointKernels& kernels);
  // The same where more values will come, some of them larger: as fine as it can be.
  bool guess(const MagnitudeRange& range, int64_t count, const FixedPointKernels& kernels);

  // Whether the smallest value of a range has no more than so many digits below the last unit: some
  // are chance, of a thousand normal values 10 at most, of any number of them 40.
  bool reaches(const MagnitudeRange& range, const FixedPointKernels& kernels, int more) const;

  // The magnitudes of all values that cells took, in units, or more: no cell is beyond it. Of
  // float64 also those of the second integers, in their units.
  double sum = 0;

  // What a value is less than, and how many values more leave all cells below 2^kBits.
  double most() const { return std::ldexp(1.0, value_bits); }
  int64_t room() const {
    const double left = (std::ldexp(1.0, kBits) - sum) / most();
    return left >= 1 ? static_cast<int64_t>(left) : 0;  // none where it is not a number
  }
  // Where no bit of a cell differs from the next above the `changes`.
  void look(uint64_t changes) { sum = static_cast<double>(changes) + 1; }

 private:
  bool set(const MagnitudeRange& range, int64_t count, const FixedPointKernels& kernels, int more,
           bool finest);
};

// What a fixed-point scale of few bits leaves over: terms that are not whole numbers of its unit. A
// few in a million of normal values; data of another kind soon has no room here, and leaves the
// fixed-point scale.
struct Residuals {
  // Where they are resolved, each looks at all others; where they are flushed, none does.
  static constexpr int kFew = 256, kMany = 1024;
  double* values = nullptr;  // exact
  uint32_t* cells = nullptr;
  int count = 0, room = 0;
};

// Sums of values of any exponent in opened Cells, for what leaves fixed point: a float64 a
// cell, and a bound on what its additions rounded away, which nearly always leaves one answer.
// Updates are counted where results depend on it. All null for float64.
struct BoundedSums {
  void (*open)(const Cells&, const PlaceRange&, int64_t count) = nullptr;
  void (*add)(const Cells&, bool counted, const uint32_t* ids, const char* values, int64_t count,
              const char* to_prefetch) = nullptr;
  // For the updates [first, first + count) of keys, until one is not a cell; returns how many.
  int64_t (*add_keys)(const Cells&, bool counted, const KeyedValues&, int64_t first,
                      int64_t count) = nullptr;
  // For float32, a cell below its value.
  void (*add_pairs)(const Cells&, const uint64_t* pairs, int64_t count,
                    const void* to_prefetch) = nullptr;
  void (*merge)(const Cells& to, const Cells& from, int64_t begin, int64_t end,
                bool counted) = nullptr;
  // As BlockKernels::finish.
  int64_t (*finish)(const Cells&, bool counted, const PlaceRange&, int64_t begin, int64_t end,
                    Touched& inconclusive, int64_t room) = nullptr;
  // The positions of the updates whose cells are repaired.
  int (*find_tagged)(const Cells&, const uint32_t* ids, int count, uint32_t* positions) = nullptr;
};

// The cell loops of one type and reduction (add, mean of the narrow floats).
struct FixedPointKernels {
  int words;        // integers per cell
  int range_shift;  // digits of a magnitude of a range that follow the first
  int digits;
  int unit;     // the exponent of the type's smallest value
  int top;      // all of its finite values are below 2^top
  bool counts;  // results depend on the number of updates
  void (*scan)(const char* values, int64_t count, MagnitudeRange&);
  // Adds values to their cells until one is beyond the fixed-point scale or the residuals have no
  // room; returns how many. `seen` may be null, otherwise it counts the updates. `to_prefetch` is
  // what will be read next, or null: it is prefetched.
  int64_t (*add)(int64_t* cells, uint32_t* seen, const uint32_t* ids, const char* values,
                 int64_t count, FixedPointScale&, Residuals&, const char* to_prefetch);
  // The same for the updates [first, first + count) of keys; it stops at those that are not cells
  // as well.
  int64_t (*add_keys)(int64_t* cells, uint32_t* seen, const KeyedValues&, int64_t first,
                      int64_t count, FixedPointScale&, Residuals&);
  // Writes the cells [begin, end), as BlockKernels::finish. With no counts a sum of zero may
  // be a cell without updates: where that makes a difference, it is inconclusive.
  int64_t (*finish)(const int64_t* cells, const uint32_t* seen, const PlaceRange&, int64_t begin,
                    int64_t end, FixedPointScale, Touched& inconclusive, int64_t room);
  // The results of the cells that left residuals, one per residual, before finish changes their old
  // values; `write` puts them in place after it.
  void (*resolve)(const int64_t* cells, const uint32_t* seen, const PlaceRange&, FixedPointScale,
                  const Residuals&, char* results);
  void (*write)(const PlaceRange&, const Residuals&, const char* results);
  // Moves what the cells and residuals hold into opened Cells, and empties them. Where updates are
  // not counted, the counts become 1.
  void (*flush)(int64_t* cells, const Cells& to, int64_t count, FixedPointScale, const Residuals&,
                bool counted);
  // After a flush, a sum of zero has forgotten its sign, and where updates are not counted a cell
  // may have met zeros only: what cannot be told is made inconclusive.
  void (*mark_inconclusive)(const Cells&, const PlaceRange&, int64_t count, bool minus_zeros,
                            bool counted);
  BoundedSums bounded;
};

// Null where sums cannot be in fixed point.
const FixedPointKernels* fixed_point_kernels(DType dtype, Reduce reduce);

}  // namespace sow::detail
