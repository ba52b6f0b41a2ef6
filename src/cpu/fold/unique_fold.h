// SPDX-License-Identifier: Apache-2.0
// Folds updates of a block of places most of which meet one at most: every update is applied as if
// it were alone, and the few places that meet several are then folded from what they were before.
#pragma once

#include <cstring>

#include "cpu/fold/cell_fold.h"
#include "transfer/canonical.h"

namespace sow::detail {

class UniqueFold {
 public:
  // Of blocks with up to `places` places; `updates`: of all blocks together.
  UniqueFold(const FoldKernels& kernels, int64_t places, int64_t updates, Carver& carver)
      : UniqueFold(kernels, places, Room{std::min(2 * places, updates), std::min(places, updates)},
                   carver) {}
  // Of blocks that have this many updates each, no more than there are places, by cells() where
  // values are `in_place`.
  static UniqueFold for_each_of(const FoldKernels& kernels, int64_t places, int64_t updates,
                                bool in_place, Carver& carver) {
    return UniqueFold(
        kernels, places,
        Room{updates, updates / 2 + 1, in_place ? 0 : updates, mark_size(places, updates)}, carver);
  }
  // Once, before the first block.
  void clear() {
    fold_.clear();
    next_ = 0;
  }

  // The ids of a block's updates are written here, then folded.
  uint32_t* cells() { return cells_; }
  void run(const PlaceRange& block, const char* values, int64_t count);

  // walk(f) calls f(cells, values, count) with the updates of the block in source order, `count` in
  // all.
  template <class Walk>
  void run(const PlaceRange& block, int64_t count, Walk&& walk) {
    if (count > most_) return fold_all(block, walk);
    const auto size = static_cast<size_t>(kernels_.value_size);
    int64_t at = 0;
    walk([&](const uint32_t* cells, const char* values, int more) {
      std::copy_n(cells, more, cells_ + at);
      std::memcpy(values_ + static_cast<size_t>(at) * size, values,
                  static_cast<size_t>(more) * size);
      at += more;
    });
    run(block, values_, at);
  }

 private:
  static constexpr uint32_t kSlot = uint32_t{1} << 31;

  struct Room {
    int64_t updates, folded;
    int64_t values = updates;
    int mark = sizeof(uint32_t);
  };
  UniqueFold(const FoldKernels& kernels, int64_t places, const Room& room, Carver& carver);

  // Of an epoch mark for so many updates per block.
  static int mark_size(int64_t places, int64_t updates);
  void number(UniqueUpdates& unique);
  void fold_listed(const UniqueUpdates& unique, int64_t listed);

  // So many updates to a place that none is likely to be alone.
  template <class Walk>
  void fold_all(const PlaceRange& block, Walk&& walk) {
    auto* numbers = reinterpret_cast<uint32_t*>(epoch_marks_);
    std::memset(numbers, 0, static_cast<size_t>(places_) * sizeof(uint32_t));
    next_ = 0;
    int64_t slots = 0;
    const auto read = [&](auto&& take) {
      walk([&](const uint32_t* cells, const char* values, int count) {
        Updates updates;
        updates.count = count;
        updates.cells = batch_.cells;
        updates.values = values;
        updates.offsets = offsets_;
        for (int i = 0; i < count; ++i) {
          uint32_t& number = numbers[cells[i]];
          if (number == 0) number = kSlot | static_cast<uint32_t>(slots++);
          batch_.cells[i] = number & ~kSlot;
          offsets_[i] = cells[i] * block.step;
        }
        take(updates);
      });
    };
    const Destination dst{block.first, 1, block.include_self};
    read([&](const Updates& updates) { fold_.add(dst, updates); });
    fold_.finish(dst, read);
  }

  const FoldKernels& kernels_;
  int64_t places_, most_;
  int mark_bytes_;  // bytes that there are for one
  uint32_t* cells_;
  char* values_;
  char* epoch_marks_;
  uint64_t next_ = 0;  // the number of the next update; 0: no epoch mark is of any use
  bool short_marks_ = false;
  uint32_t* repeated_;
  char* olds_;
  uint32_t* slots_;
  CellFold fold_;
  Leftovers batch_;
  int64_t* offsets_;
};

}  // namespace sow::detail
