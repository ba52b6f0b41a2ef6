// SPDX-License-Identifier: Apache-2.0
// Repairs cells of a block whose sums were inconclusive: their updates are added once more, in long
// accumulators.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/memory/carver.h"
#include "cpu/fold/fold_kernels.h"
#include "cpu/partition/pair_kernels.h"
#include "cpu/sum/fixed_point.h"
#include "transfer/canonical.h"

namespace sow::detail {

// A cell is listed, unwritten, when its sum was found inconclusive; there is room for `room()` of
// them at a time. Between begin() and end() the counts of listed cells hold their slots, tagged
// with kCellTag, and `longs` the sums so far; end() writes their places and empties the list.
class CellRepair {
 public:
  // `bounded` is what the cells hold, if it is that; else null.
  CellRepair(const FoldKernels& kernels, const BoundedSums* bounded)
      : kernels_(kernels), bounded_(bounded) {}
  void take(int64_t slots, Carver& carver) {
    room_ = slots;
    list_.offsets = carver.take<int64_t>(slots);
    list_.cells = carver.take<uint32_t>(slots);
    repairs_.longs = carver.take<char>(slots * kernels_.long_size);
    repairs_.updates = carver.take<int64_t>(slots);
  }

  int64_t room() const { return room_; }
  Touched& list() { return list_; }
  bool is_full() const { return list_.count >= room_; }
  bool is_empty() const { return list_.count == 0; }
  void forget() { list_.count = 0; }
  void take_list_of(CellRepair& other) {
    std::copy_n(other.list_.cells, other.list_.count, list_.cells);
    std::copy_n(other.list_.offsets, other.list_.count, list_.offsets);
    list_.count = other.list_.count;
    other.list_.count = 0;
  }

  void begin(const Cells& cells) { kernels_.repair.begin(cells, list_, repairs_); }
  // Offers updates, of which those of listed cells are added.
  void add(const Cells& cells, const uint32_t* ids, const char* values, int count) {
    Updates updates;
    updates.count = count;
    updates.cells = ids;
    updates.values = values;
    if (bounded_ == nullptr) return kernels_.repair.add(cells, updates, repairs_);
    uint32_t found[kTileItems];
    const int tagged = bounded_->find_tagged(cells, ids, count, found);
    updates.count = 1;
    for (int i = 0; i < tagged; ++i) {
      updates.cells = ids + found[i];
      updates.values = values + int64_t{found[i]} * kernels_.value_size;
      kernels_.repair.add(cells, updates, repairs_);
    }
  }
  void add_pairs(const Cells& cells, const uint64_t* pairs, int64_t count) {
    uint32_t found[kTileItems + 1];
    int tagged = 0;
    for (int64_t i = 0; i < count; ++i) {
      found[tagged] = static_cast<uint32_t>(i);
      tagged += (cells.counts[static_cast<uint32_t>(pairs[i])] & kCellTag) != 0;
    }
    Updates updates;
    updates.count = 1;
    for (int i = 0; i < tagged; ++i) {
      uint32_t cell, value;
      pair_kernels().unpack(pairs + found[i], 1, &cell, &value, kernels_.value_size, pairs);
      updates.cells = &cell;
      updates.values = reinterpret_cast<const char*>(&value);
      kernels_.repair.add(cells, updates, repairs_);
    }
  }
  // Workers that share the updates add theirs to long accumulators of their own, for the cells
  // that `owner` listed, which takes them then.
  void help(const Cells& cells, const CellRepair& owner) {
    kernels_.repair.clear(cells, owner.list_.count, repairs_);
  }
  void join(const Cells& cells, const CellRepair& helper) {
    kernels_.repair.merge(cells, list_.count, repairs_, helper.repairs_);
  }
  void end(const Cells& cells, const PlaceRange& block) {
    kernels_.repair.end(cells, Destination{block.first, 1, block.include_self}, list_, repairs_);
    list_.count = 0;
  }

 private:
  const FoldKernels& kernels_;
  const BoundedSums* bounded_;
  int64_t room_ = 1;
  Touched list_;
  Repairs repairs_;
};

}  // namespace sow::detail
