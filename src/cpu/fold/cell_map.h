// SPDX-License-Identifier: Apache-2.0
// Numbers the places of a range as cells: by their id, or, where few of many places are met, in
// the order of their first update through a small hash table.
#pragma once

#include <cstring>

#include "cpu/fold/cell_fold.h"
#include "cpu/read/offset_ids.h"

namespace sow::detail {

class CellMap {
 public:
  CellMap(const OffsetIds& places, int64_t items, bool hashed, Carver& carver) : places_(places) {
    ids_ = carver.take<uint32_t>(kTileItems);
    if (!hashed) return;
    int bits = 1;
    while ((int64_t{1} << bits) < 2 * items) ++bits;
    shift_ = 64 - bits;
    slots_ = int64_t{1} << bits;
    table_ = carver.take<uint32_t>(slots_);
    met_ = carver.take<int64_t>(items);
  }

  // Forgets every place; before the first update of each outer position.
  void clear() {
    if (table_ == nullptr) return;
    std::memset(table_, 0, static_cast<size_t>(slots_) * sizeof(uint32_t));
    count_ = 0;
  }

  // Fills in the cells of a batch whose offsets count from `base`.
  void map(int64_t base, Updates& updates) {
    updates.cells = ids_;
    if (table_ == nullptr) {
      for (int i = 0; i < updates.count; ++i) {
        ids_[i] = static_cast<uint32_t>(places_.id_of(updates.offsets[i] - base));
      }
      return;
    }
    for (int i = 0; i < updates.count; ++i) ids_[i] = look_up(updates.offsets[i]);
  }

 private:
  uint32_t look_up(int64_t offset) {
    uint64_t at = (static_cast<uint64_t>(offset) * 0x9e3779b97f4a7c15u) >> shift_;
    for (;; at = (at + 1) & static_cast<uint64_t>(slots_ - 1)) {
      const uint32_t found = table_[at];
      if (found == 0) break;
      if (met_[found - 1] == offset) return found - 1;
    }
    met_[count_] = offset;
    table_[at] = static_cast<uint32_t>(count_ + 1);
    return static_cast<uint32_t>(count_++);
  }

  const OffsetIds& places_;
  uint32_t* ids_;
  uint32_t* table_ = nullptr;  // cell + 1; 0: free
  int64_t* met_ = nullptr;     // the offset of each cell
  int64_t slots_ = 0, count_ = 0;
  int shift_ = 0;
};

}  // namespace sow::detail
