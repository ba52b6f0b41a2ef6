// Float sums in one plain float64 a place, good as long as every addition is exact: nearly always
// where updates are few. Nothing is written before all of them were.
#pragma once

#include "cpu/cell_kernels.h"

namespace sow::detail {

template <class T>
struct PlainSums {
  static void open(const Block& block, int64_t places, double* sums) {
    if (!block.include_self) {
      std::fill_n(sums, places, -0.0);  // the identity
      return;
    }
    const T* old = reinterpret_cast<const T*>(block.first);
    if (block.step == 1) {
      for (int64_t i = 0; i < places; ++i) sums[i] = widen(old[i]);
    } else {
      for (int64_t i = 0; i < places; ++i) sums[i] = widen(old[i * block.step]);
    }
  }

  // False if a sum may not be exact, and for infinities and NaN.
  static bool add(double* sums, const uint32_t* cells, const char* values, int64_t count) {
    uint64_t lost = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double a = sums[cells[i]];
      const double b = widen(load_element<T>(values + i * static_cast<int64_t>(sizeof(T))));
      const double sum = a + b;
      const double b_part = sum - a;  // two_sum, with both errors seen instead of added
      lost |= bit_cast<uint64_t>(a - (sum - b_part)) | bit_cast<uint64_t>(b - b_part);
      sums[cells[i]] = sum;
    }
    return lost << 1 == 0;  // a zero of either sign
  }

  static void write(const Block& block, const double* sums, const uint32_t* cells, int64_t count) {
    T* to = reinterpret_cast<T*>(block.first);
    for (int64_t i = 0; i < count; ++i) to[cells[i] * block.step] = static_cast<T>(sums[cells[i]]);
  }
};

}  // namespace sow::detail
