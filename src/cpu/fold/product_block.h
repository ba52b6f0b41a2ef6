// SPDX-License-Identifier: Apache-2.0
// Products of real floats in a block of cells: the running chunks lie by themselves, so that an
// update meets 12 bytes a place and not the product of the chunks before, which few places have.
#pragma once

#include "core/isa.h"
#include "cpu/fold/accumulator.h"
#include "cpu/fold/fold_kernels.h"

namespace sow::detail {

template <class T>
struct ProductBlock {
  // The product of the old value and all whole chunks, then the chunk that is growing; 1 is exact.
  static void open(const Cells& cells, const PlaceRange& block, int64_t count) {
    double* const chunks = chunks_of(cells);
    double* const totals = reinterpret_cast<double*>(cells.totals);
    const T* old = reinterpret_cast<const T*>(block.first);
    for (int64_t i = 0; i < count; ++i) chunks[i] = 1;
    if (!block.include_self) {
      for (int64_t i = 0; i < count; ++i) totals[i] = 1;
    } else if (block.step == 1) {
      for (int64_t i = 0; i < count; ++i) totals[i] = widen(old[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) totals[i] = widen(old[i * block.step]);
    }
  }

  static void add(const Cells& cells, const uint32_t* ids, const char* values, int64_t count) {
    double* const chunks = chunks_of(cells);
    const T* from = reinterpret_cast<const T*>(values);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t id = ids[i], seen = cells.counts[id]++;
      chunks[id] *= widen(from[i]);
      if (__builtin_expect(seen % kMulChunk == kMulChunk - 1, 0)) {
        reinterpret_cast<double*>(cells.totals)[id] *= chunks[id];
        chunks[id] = 1;
      }
    }
  }

  static int64_t finish(const Cells& cells, const PlaceRange& block, int64_t begin, int64_t end,
                        Touched&, int64_t) {
    const auto write = by_isa(finish_here, finish_avx2, finish_avx512);
    write(cells.counts, chunks_of(cells), reinterpret_cast<const double*>(cells.totals),
          reinterpret_cast<T*>(block.first), block.step, begin, end);
    return end;
  }

 private:
  static double* chunks_of(const Cells& cells) { return reinterpret_cast<double*>(cells.states); }

  SOW_TARGET_AVX512 static void finish_avx512(const uint32_t* counts, const double* chunks,
                                              const double* totals, T* to, int64_t step,
                                              int64_t begin, int64_t end) {
    finish_here(counts, chunks, totals, to, step, begin, end);
  }
  SOW_TARGET_AVX2 static void finish_avx2(const uint32_t* counts, const double* chunks,
                                          const double* totals, T* to, int64_t step, int64_t begin,
                                          int64_t end) {
    finish_here(counts, chunks, totals, to, step, begin, end);
  }
  // What was not met may be another call's: it is not written, by a mask where there are such.
  // Those of 16 bits are rounded one by one, so that branches are quicker.
  [[gnu::always_inline]] static inline void finish_here(const uint32_t* counts,
                                                        const double* chunks, const double* totals,
                                                        T* to, int64_t step, int64_t begin,
                                                        int64_t end) {
    if (sizeof(T) >= 4 && step == 1) {
      for (int64_t i = begin; i < end; ++i) {
        const T product = Product<T>::rounded(totals[i] * chunks[i]);
        if (counts[i] != 0) to[i] = product;
      }
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      if (counts[i] != 0) to[i * step] = Product<T>::rounded(totals[i] * chunks[i]);
    }
  }
};

}  // namespace sow::detail
