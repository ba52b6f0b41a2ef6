// SPDX-License-Identifier: Apache-2.0
// Folds updates in cells: an accumulator for every place of a range, opened at its first update.
#pragma once

#include <algorithm>

#include "core/memory/carver.h"
#include "cpu/fold/fold_kernels.h"

namespace sow::detail {

class CellFold {
 public:
  // For up to `cells` cells, of which no more than `most_touched` meet an update between two
  // calls of finish.
  CellFold(const FoldKernels& kernels, int64_t cells, int64_t most_touched, int width,
           Carver& carver);
  // Empties every cell; once, before the first update.
  void clear();
  // The columns of the next updates, no more than at first; between updates only.
  void set_width(int width) { cells_.width = width; }

  void add(const Destination& dst, const Updates& updates) {
    kernels_.cell.add(cells_, dst, updates, &touched_);
  }
  // The first cells together: fill(cells, touched) does what add() would, from no cell in use on.
  template <class Fill>
  void fill(Fill&& fill) {
    fill(cells_, touched_);
  }
  // Writes every touched place. `walk(f)` must call f(Updates) with all updates once more: sums
  // that are inconclusive are repaired from them, before anything of theirs is written.
  template <class Walk>
  void finish(const Destination& dst, Walk&& walk) {
    Touched inconclusive = touched_;
    inconclusive.count = kernels_.cell.finish(cells_, dst, touched_);
    touched_.count = 0;
    while (inconclusive.count > 0) {
      Touched batch = inconclusive;
      batch.count = std::min(inconclusive.count, slots_);
      kernels_.repair.begin(cells_, batch, repairs_);
      walk([&](const Updates& updates) { kernels_.repair.add(cells_, updates, repairs_); });
      kernels_.repair.end(cells_, dst, batch, repairs_);
      inconclusive.cells += batch.count;
      inconclusive.offsets += batch.count;
      inconclusive.count -= batch.count;
    }
  }

  const Touched& touched() const { return touched_; }

 private:
  const FoldKernels& kernels_;
  int64_t count_;
  int64_t slots_;
  Cells cells_;
  Touched touched_;
  Repairs repairs_;
};

}  // namespace sow::detail
