// SPDX-License-Identifier: Apache-2.0
// Accumulators of a block of columns side by side: what a destination row is folded in.
//
// add() is inlined into functions that carry a target attribute and compiles to vector code there.
#pragma once

#include "core/exact/exact_tile.h"
#include "cpu/fold/accumulator.h"

namespace sow::detail {

// Columns that are folded together; their accumulators stay in the first-level cache.
inline constexpr int kRowColumns = 64;

// One State a column.
template <class T, Reduce R, class Enable = void>
struct RowState {
  using A = Accumulator<T, R>;
  typename A::State states[kRowColumns];

  SOW_INLINE void start(int n) {
    for (int c = 0; c < n; ++c) states[c] = A::start();
  }
  SOW_INLINE void seed(const T* old, int n) {
    for (int c = 0; c < n; ++c) A::seed(states[c], old[c]);
  }
  SOW_INLINE void add(const T* row, int n, int64_t) {
    for (int c = 0; c < n; ++c) A::add(states[c], row[c], 0);
  }
  // inconclusive is written only where the result is false.
  bool finish(int64_t updates, bool self, T* out, uint8_t* inconclusive, int n) {
    bool all = true;
    for (int c = 0; c < n; ++c) {
      const bool certain = A::finish(states[c], updates, self, out[c]);
      if constexpr (may_be_inconclusive<T, R>) inconclusive[c] = !certain;
      all &= certain;
    }
    return all;
  }
};

// Exact float sums: an array per part, one for the narrow types and two for float64.
template <class T, Reduce R>
struct RowState<T, R, std::enable_if_t<is_float_sum<T, R>>> {
  static constexpr bool kTwo = kCheckedParts<T> == 2;
  double high[kRowColumns], lost[kRowColumns], low[kTwo ? kRowColumns : 1];

  SOW_INLINE void start(int n) {
    for (int c = 0; c < n; ++c) high[c] = -0.0;
    for (int c = 0; c < n; ++c) lost[c] = 0;
    if constexpr (kTwo) {
      for (int c = 0; c < n; ++c) low[c] = 0;
    }
  }
  SOW_INLINE void seed(const T* old, int n) { add(old, n, 0); }
  SOW_INLINE void add(const T* row, int n, int64_t) {
    if constexpr (kTwo) {
      checked_add_row(row, high, low, lost, n);
    } else {
      checked_add_row(row, high, lost, n);
    }
  }
  CheckedSum<T> sum(int c) const { return {high[c], kTwo ? low[kTwo ? c : 0] : 0.0, lost[c]}; }

  bool finish(int64_t updates, bool self, T* out, uint8_t* inconclusive, int n) {
    if constexpr (R == Reduce::add) {
      return round(out, inconclusive, n);
    } else {
      double sums[kRowColumns];
      if (round(sums, inconclusive, n)) {
        for (int c = 0; c < n; ++c) out[c] = mean_of<T>(sums[c], updates + self);
        return true;
      }
      for (int c = 0; c < n; ++c) {
        if (!inconclusive[c]) out[c] = mean_of<T>(sums[c], updates + self);
      }
      return false;
    }
  }

 private:
  template <class Target>
  bool round(Target* out, uint8_t* inconclusive, int n) const {
    if constexpr (kTwo) {
      return checked_finish_row<T>(high, low, lost, n, out, inconclusive);
    } else {
      return checked_finish_row<T>(high, lost, n, out, inconclusive);
    }
  }
};

// Products: the running chunk, and what the chunks before it came to.
template <class T>
struct RowState<T, Reduce::mul, std::enable_if_t<is_float_element<T> || is_complex_element<T>>> {
  using Wide = typename Product<T>::Wide;
  Wide total[kRowColumns], chunk[kRowColumns];
  bool begun;

  SOW_INLINE void start(int n) {
    for (int c = 0; c < n; ++c) chunk[c] = Wide(1);
    begun = false;
  }
  SOW_INLINE void seed(const T* old, int n) {
    for (int c = 0; c < n; ++c) total[c] = Product<T>::widened(old[c]);
    begun = true;
  }
  SOW_INLINE void add(const T* row, int n, int64_t k) {
    for (int c = 0; c < n; ++c) chunk[c] = times(chunk[c], Product<T>::widened(row[c]));
    if (k % kMulChunk == kMulChunk - 1) close(n);
  }
  void close(int n) {
    for (int c = 0; c < n; ++c) total[c] = begun ? times(total[c], chunk[c]) : chunk[c];
    for (int c = 0; c < n; ++c) chunk[c] = Wide(1);
    begun = true;
  }
  bool finish(int64_t updates, bool, T* out, uint8_t*, int n) {
    if (updates % kMulChunk != 0) close(n);
    for (int c = 0; c < n; ++c) out[c] = Product<T>::rounded(total[c]);
    return true;
  }
};

}  // namespace sow::detail
