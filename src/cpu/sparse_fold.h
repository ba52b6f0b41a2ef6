// Folds updates of a block of places few of which are met: those with one update are written at
// once, only the others need cells.
#pragma once

#include <cstring>

#include "cpu/cell_fold.h"
#include "transfer/canonical.h"

namespace sow::detail {

class SparseFold {
 public:
  SparseFold(const FoldKernels& kernels, int64_t places, int64_t updates, Carver& carver)
      : kernels_(kernels),
        places_(places),
        met_(carver.take<uint8_t>(places)),
        fold_(kernels, places, std::min(places, updates), 1, carver) {
    left_.cells = carver.take<uint32_t>(kTileItems);
    left_.values = carver.take<char>(int64_t{kTileItems} * kernels.value_size);
    offsets_ = carver.take<int64_t>(kTileItems);
  }
  // Once, before the first block.
  void clear() {
    std::memset(met_, 0, static_cast<size_t>(places_));
    fold_.clear();
  }

  // codes(f) calls f(cells, count), walk(f) calls f(cells, values, count) with all updates.
  template <class Codes, class Walk>
  void run(const Block& block, Codes&& codes, Walk&& walk) {
    const Destination dst{block.first, 1, block.include_self};
    codes([&](const uint32_t* cells, int count) { kernels_.count_met(block, met_, cells, count); });
    walk([&](const uint32_t* cells, const char* values, int count) {
      Updates left;
      left.count = kernels_.write_singles(block, met_, cells, values, count, left_);
      if (left.count == 0) return;
      left.cells = left_.cells;
      left.values = left_.values;
      left.offsets = offsets_;
      for (int i = 0; i < left.count; ++i) offsets_[i] = left_.cells[i] * block.step;
      fold_.add(dst, left);
    });
    const Touched& touched = fold_.touched();
    for (int64_t i = 0; i < touched.count; ++i) met_[touched.cells[i]] = 0;
    fold_.finish(dst, [&](auto&& again) {
      walk([&](const uint32_t* cells, const char* values, int count) {
        Updates updates;
        updates.count = count;
        updates.cells = cells;
        updates.values = values;
        again(updates);
      });
    });
  }

 private:
  const FoldKernels& kernels_;
  int64_t places_;
  uint8_t* met_;  // 0, 1, or 2 for more
  CellFold fold_;
  Leftovers left_;
  int64_t* offsets_;
};

}  // namespace sow::detail
