// Folds updates in a block of cells, one for every place of a range of the destination.
#pragma once

#include <algorithm>

#include "cpu/cell_fold.h"
#include "cpu/tuning.h"

namespace sow::detail {

class BlockFold {
 public:
  BlockFold(const FoldKernels& kernels, int64_t cells, Carver& carver) : kernels_(kernels) {
    cells_.counts = carver.take<uint32_t>(cells);
    cells_.states = carver.take<char>(cells * kernels.state_size);
    if (kernels.long_size > 0) {
      slots_ = std::clamp<int64_t>(tuning::kRepairBytes / kernels.long_size, 1, cells);
      refused_.offsets = carver.take<int64_t>(slots_);
      refused_.cells = carver.take<uint32_t>(slots_);
      repairs_.longs = carver.take<char>(slots_ * kernels.long_size);
      repairs_.updates = carver.take<int64_t>(slots_);
    }
  }

  void open(const Block& block, int64_t cells) { kernels_.open_block(cells_, block, cells); }
  void add(const uint32_t* cells, const char* values, int64_t count) {
    kernels_.add_to_block(cells_, cells, values, count);
  }
  void merge(const BlockFold& later, int64_t begin, int64_t end) {
    kernels_.merge(cells_, later.cells_, begin, end);
  }

  // Writes the cells [begin, end). Sums that refused are repaired by repair(this), which must
  // offer every update to add_again() of this or of a helper and join the helpers.
  template <class Repair>
  void finish(const Block& block, int64_t begin, int64_t end, Repair&& repair) {
    const Destination dst{block.first, 1, block.include_self};
    while (begin < end) {
      begin = kernels_.finish_block(cells_, block, begin, end, refused_, slots_);
      if (refused_.count == 0) continue;
      kernels_.repair_begin(cells_, refused_, repairs_);
      repair();
      kernels_.repair_end(cells_, dst, refused_, repairs_);
      refused_.count = 0;
    }
  }
  void add_again(const uint32_t* cells, const char* values, int count) { add_again_for(*this, cells, values, count); }

  // A worker that shares the updates adds them again to Longs of its own, for cells of `owner`.
  void help(const BlockFold& owner) { kernels_.repair_clear(cells_, owner.refused_.count, repairs_); }
  void add_again_for(const BlockFold& owner, const uint32_t* cells, const char* values, int count) {
    Updates updates;
    updates.count = count;
    updates.cells = cells;
    updates.values = values;
    kernels_.repair_add(owner.cells_, updates, repairs_);
  }
  void join_help(const BlockFold& helper) {
    kernels_.repair_merge(cells_, refused_.count, repairs_, helper.repairs_);
  }

 private:
  const FoldKernels& kernels_;
  Cells cells_;
  int64_t slots_ = 1;
  Touched refused_;
  Repairs repairs_;
};

}  // namespace sow::detail
