// Folds updates of a block of places most of which meet one at most: every update is applied as if
// it were alone, and the few places that meet several are then folded from what they were before.
#pragma once

#include <cstring>

#include "cpu/cell_fold.h"
#include "transfer/canonical.h"

namespace sow::detail {

class SinglesFold {
 public:
  // Of blocks with up to `places` places; `updates`: of all blocks together.
  SinglesFold(const FoldKernels& kernels, int64_t places, int64_t updates, Carver& carver);
  // Once, before the first block.
  void clear() { fold_.clear(); }

  // walk(f) calls f(cells, values, count) with the updates of the block in source order, `count` in
  // all. Values that lie one after the other need not be copied: they begin at `one_run` if that is
  // not null.
  template <class Walk>
  void run(const Block& block, int64_t count, const char* one_run, Walk&& walk) {
    if (count > most_) return fold_all(block, walk);
    const auto size = static_cast<size_t>(kernels_.value_size);
    int64_t at = 0;
    walk([&](const uint32_t* cells, const char* values, int more) {
      std::copy_n(cells, more, cells_ + at);
      if (one_run == nullptr) {
        std::memcpy(values_ + static_cast<size_t>(at) * size, values,
                    static_cast<size_t>(more) * size);
      }
      at += more;
    });
    apply(block, one_run != nullptr ? one_run : values_, at);
  }

 private:
  static constexpr uint32_t kSlot = uint32_t{1} << 31;

  void apply(const Block& block, const char* values, int64_t count);
  template <int Width>
  void fold_listed(const Block& block, const char* values, int64_t earlier);

  // So many updates to a place that none is likely to be alone.
  template <class Walk>
  void fold_all(const Block& block, Walk&& walk) {
    std::memset(stamps_, 0, static_cast<size_t>(places_) * sizeof(uint32_t));
    slots_ = 0;
    const auto read = [&](auto&& take) {
      walk([&](const uint32_t* cells, const char* values, int count) {
        Updates updates;
        updates.count = count;
        updates.cells = batch_.cells;
        updates.values = values;
        updates.offsets = offsets_;
        for (int i = 0; i < count; ++i) {
          uint32_t& stamp = stamps_[cells[i]];
          if (stamp == 0) stamp = kSlot | static_cast<uint32_t>(slots_++);
          batch_.cells[i] = stamp & ~kSlot;
          offsets_[i] = cells[i] * block.step;
        }
        take(updates);
      });
    };
    fold(block, read);
  }
  template <class Read>
  void fold(const Block& block, Read&& read) {
    const Destination dst{block.first, 1, block.include_self};
    read([&](const Updates& updates) { fold_.add(dst, updates); });
    fold_.finish(dst, read);
  }

  const FoldKernels& kernels_;
  int64_t places_, most_;
  uint32_t* cells_;
  char* values_;
  // The number of the last update of a place, or the slot of its cell; of places that are not met
  // anything.
  uint32_t* stamps_;
  uint32_t* list_;   // updates that are not the last of their place
  char* olds_;       // what they found there
  uint32_t* lasts_;  // the last update of each slot's place
  int64_t slots_ = 0;
  CellFold fold_;
  Leftovers batch_;
  int64_t* offsets_;
};

}  // namespace sow::detail
