// Folds updates in a block of cells, one for every place of a range of the destination.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/cell_fold.h"
#include "cpu/tuning.h"
#include "cpu/window_sum.h"

namespace sow::detail {

// `each` is the number of updates that a worker has for a cell.
inline tuning::BlockNs block_ns(const FoldKernels& kernels, const WindowKernels* window,
                                double each) {
  if (window != nullptr) return tuning::kWindowBlock;
  if (kernels.add_often != nullptr) {
    return each >= tuning::kOftenUpdates ? tuning::kOftenBlock : tuning::kExtremeBlock;
  }
  return kernels.long_size > 0 ? tuning::kAccumulatorBlock : tuning::kNumberBlock;
}

class BlockFold {
 public:
  // For blocks of up to `cells` places and `updates` updates. `window` may be null: sums then go
  // through accumulators only.
  BlockFold(const FoldKernels& kernels, const WindowKernels* window, int64_t cells, int64_t updates,
            Carver& carver)
      : kernels_(kernels), window_(window) {
    cells_.counts = carver.take<uint32_t>(cells);
    cells_.states = carver.take<char>(cells * kernels.state_size);
    if (window != nullptr) {
      // A fold of one batch uses either: both lie in the same memory.
      batch_ = batch_for(cells);
      one_batch_ = updates <= batch_;
      rests_.values = carver.take<double>(WindowRests::kRoom);
      rests_.cells = carver.take<uint32_t>(WindowRests::kRoom);
      settled_ = carver.take<char>(WindowRests::kRoom * kernels.value_size);
      units_ = one_batch_ ? reinterpret_cast<int64_t*>(cells_.states) : carver.take<int64_t>(cells);
    }
    if (kernels.long_size > 0) {
      slots_ = std::clamp<int64_t>(tuning::kRepairBytes / kernels.long_size, 1, cells / 4 + 1);
      refused_.offsets = carver.take<int64_t>(slots_);
      refused_.cells = carver.take<uint32_t>(slots_);
      repairs_.longs = carver.take<char>(slots_ * kernels.long_size);
      repairs_.updates = carver.take<int64_t>(slots_);
    }
  }

  // The next block. `self` is include_self of the whole Transfer; `block.include_self` may be false
  // where only another share of the updates meets the old values.
  void open(const Block& block, int64_t cells, bool self) {
    block_ = block;
    count_ = cells;
    counted_ = window_ != nullptr && (window_->counts || !self);
    wide_ = flushed_ = minus_zeros_ = false;
    rests_.count = 0;
  }

  // Adds the updates [first, last), once a block. read(first, last, f) calls f(cells, values,
  // count) and read_values(first, last, f) calls f(values, count), part by part. To be merged, a
  // fold must hold its sums in accumulators. `known` may be a range that all values are in.
  template <class Read, class ReadValues>
  void add(int64_t first, int64_t last, bool merges, Read&& read, ReadValues&& read_values,
           const WindowRange* known = nullptr) {
    if (window_ == nullptr) return add_wide(first, last, read);
    const int64_t batch = batch_;
    const bool several = merges || (!one_batch_ && last - first > batch);
    if (several) open_wide();
    clear_units(several);
    for (int64_t at = first; at < last; at += batch) {
      const int64_t end = std::min(at + batch, last);
      bool fits = known != nullptr && add_in(*known, at, end, read);
      if (!fits) {
        WindowRange range;
        read_values(at, end, [&](const char* values, int64_t count) {
          window_->scan(values, count, range);
        });
        fits = add_in(range, at, end, read);
      }
      if (!fits) {
        add_wide(at, end, read);
      } else if (several) {
        window_->flush(units_, cells_, count_, frame_, rests_, counted_);
        flushed_ = true;
      }
    }
  }
  void merge(const BlockFold& later, int64_t begin, int64_t end) {
    kernels_.merge(cells_, later.cells_, begin, end);
  }
  // Once everything of it was merged.
  void note_merged(const BlockFold& later) {
    minus_zeros_ |= later.minus_zeros_;
    flushed_ |= later.flushed_;
  }

  // Writes all cells. Sums that refused are repaired by repair(), which must offer every update to
  // add_again() of this or of a helper and join the helpers.
  template <class Repair>
  void finish(Repair&& repair) {
    const Destination dst{block_.first, 1, block_.include_self};
    if (flushed_) window_->doubt(cells_, block_, count_, minus_zeros_, counted_);
    if (!wide_ && rests_.count > 0) {
      window_->settle(units_, counted_ ? cells_.counts : nullptr, block_, frame_, rests_, settled_);
    }
    bool tagged = wide_ || counted_;  // the counts are there to be tagged
    for (int64_t begin = 0; begin < count_;) {
      begin = wide_ ? kernels_.finish_block(cells_, block_, begin, count_, refused_, slots_)
                    : window_->finish(units_, counted_ ? cells_.counts : nullptr, block_, begin,
                                      count_, frame_, refused_, slots_);
      if (refused_.count == 0) continue;
      if (!tagged) std::memset(cells_.counts, 0, static_cast<size_t>(count_) * sizeof(uint32_t));
      tagged = true;
      kernels_.repair_begin(cells_, refused_, repairs_);
      repair();
      kernels_.repair_end(cells_, dst, refused_, repairs_);
      refused_.count = 0;
    }
    if (!wide_ && rests_.count > 0) window_->write(block_, rests_, settled_);
  }
  void add_again(const uint32_t* cells, const char* values, int count) {
    add_again_for(*this, cells, values, count);
  }

  // A worker that shares the updates adds them again to Longs of its own, for cells of `owner`.
  void help(const BlockFold& owner) {
    kernels_.repair_clear(cells_, owner.refused_.count, repairs_);
  }
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
  // Updates that go through the window at a time: enough to make up for emptying it.
  static int64_t batch_for(int64_t cells) {
    return std::clamp(8 * cells, tuning::kWindowUpdates, 4 * tuning::kWindowUpdates);
  }
  void open_wide() {
    if (!wide_) kernels_.open_block(cells_, block_, count_);
    wide_ = true;
  }
  void clear_units(bool counts_are_clear) {
    std::memset(units_, 0, static_cast<size_t>(count_) * sizeof(int64_t));
    if (counted_ && !counts_are_clear)
      std::memset(cells_.counts, 0, static_cast<size_t>(count_) * sizeof(uint32_t));
  }
  template <class Read>
  bool add_in(const WindowRange& range, int64_t first, int64_t last, Read&& read) {
    minus_zeros_ |= range.lowest == INT32_MIN;
    return window_of(range, last - first, window_->digits, window_->unit, frame_) &&
           add_windowed(first, last, read);
  }
  // Adds one batch; false: its values lie too far apart, and nothing of it was added.
  template <class Read>
  bool add_windowed(int64_t first, int64_t last, Read&& read) {
    uint32_t* seen = counted_ ? cells_.counts : nullptr;
    int64_t added = 0;
    bool fits = true;
    rests_.count = 0;
    read(first, last,
         [&](const uint32_t* ids, const char* values, int64_t count, const char* soon = nullptr) {
           if (!fits) return;
           const int64_t taken =
               window_->add(units_, seen, ids, values, count, frame_, rests_, soon);
           added += taken;
           fits = taken == count;
         });
    if (fits) return true;
    std::memset(units_, 0, static_cast<size_t>(count_) * sizeof(int64_t));
    if (seen == nullptr) return false;
    read(first, last, [&](const uint32_t* ids, const char*, int64_t count) {
      for (int64_t i = 0; i < count && added > 0; ++i, --added) --seen[ids[i]];
    });
    return false;
  }
  template <class Read>
  void add_wide(int64_t first, int64_t last, Read&& read) {
    open_wide();
    const bool often =
        kernels_.add_often != nullptr && last - first >= tuning::kOftenUpdates * count_;
    read(first, last,
         [&](const uint32_t* ids, const char* values, int64_t count, const char* soon = nullptr) {
           if (often) return kernels_.add_often(cells_, ids, values, count, soon);
           kernels_.add_to_block(cells_, ids, values, count);
         });
  }

  const FoldKernels& kernels_;
  const WindowKernels* window_;
  Cells cells_;
  int64_t* units_ = nullptr;  // a cell's sum in units of the window
  int64_t batch_ = 0;
  bool one_batch_ = false;
  WindowRests rests_;
  char* settled_ = nullptr;  // the results of cells with rests
  int64_t slots_ = 1;
  Touched refused_;
  Repairs repairs_;
  Block block_;
  int64_t count_ = 0;
  Window frame_;
  bool counted_ = false;  // the window counts updates
  bool wide_ = false;     // the accumulators are open
  bool flushed_ = false;  // they took sums from the window
  bool minus_zeros_ = false;
};

}  // namespace sow::detail
