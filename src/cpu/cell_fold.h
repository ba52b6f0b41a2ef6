// Folds updates in cells: an accumulator for every place of a range, opened at its first update.
#pragma once

#include <algorithm>

#include "cpu/fold_kernels.h"

namespace sow::detail {

// Takes a workspace apart, piece by piece; with no workspace it counts bytes.
class Carver {
 public:
  explicit Carver(char* workspace) : start_(reinterpret_cast<uintptr_t>(workspace)), at_(0) {}
  template <class T>
  T* take(int64_t count) {
    T* piece = reinterpret_cast<T*>(start_ + at_);
    at_ += (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return at_; }

 private:
  uintptr_t start_;
  size_t at_;
};

class CellFold {
 public:
  // For up to `cells` cells, of which no more than `most_touched` meet an update between two
  // calls of finish.
  CellFold(const FoldKernels& kernels, int64_t cells, int64_t most_touched, int width, Carver& carver);
  // Empties every cell; once, before the first update.
  void clear();
  // The columns of the next updates, no more than at first; between updates only.
  void set_width(int width) { cells_.width = width; }

  void add(const Destination& dst, const Updates& updates) {
    kernels_.accumulate(cells_, dst, updates, &touched_);
  }
  // The first cells together: fill(cells, touched) does what add() would, from no cell in use on.
  template <class Fill>
  void fill(Fill&& fill) {
    fill(cells_, touched_);
  }
  // Writes every touched place. `walk(f)` must call f(Updates) with all updates once more: sums
  // that refused are repaired from them, before anything of theirs is written.
  template <class Walk>
  void finish(const Destination& dst, Walk&& walk) {
    Touched refused = touched_;
    refused.count = kernels_.finish(cells_, dst, touched_);
    touched_.count = 0;
    while (refused.count > 0) {
      Touched batch = refused;
      batch.count = std::min(refused.count, slots_);
      kernels_.repair_begin(cells_, batch, repairs_);
      walk([&](const Updates& updates) { kernels_.repair_add(cells_, updates, repairs_); });
      kernels_.repair_end(cells_, dst, batch, repairs_);
      refused.cells += batch.count;
      refused.offsets += batch.count;
      refused.count -= batch.count;
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
