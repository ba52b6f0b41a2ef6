// Folds updates in a block of cells, one for every place of a range of the destination.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "cpu/cell_fold.h"
#include "cpu/pair_kernels.h"
#include "cpu/touch.h"
#include "cpu/tuning.h"
#include "cpu/window_sum.h"
#include "transfer/canonical.h"

namespace sow::detail {

// What is read and written of a cell by an update. Extremes of floats are not counted.
inline int cell_bytes(const FoldKernels& kernels, const WindowKernels* window) {
  if (window != nullptr) return 8 * window->words;
  return kernels.state_size + (kernels.open_extremes != nullptr ? 0 : 4);
}

// `each` is the number of updates that a worker has for a cell.
inline tuning::BlockNs block_ns(const FoldKernels& kernels, const WindowKernels* window,
                                double each) {
  if (window != nullptr) return window->words > 1 ? tuning::kWideWindowBlock : tuning::kWindowBlock;
  if (kernels.open_extremes != nullptr) return tuning::kFloatExtremeBlock;
  if (kernels.add_often != nullptr) {
    return each >= tuning::kOftenUpdates ? tuning::kOftenBlock : tuning::kExtremeBlock;
  }
  return kernels.long_size > 0 ? tuning::kAccumulatorBlock : tuning::kNumberBlock;
}

class BlockFold {
 public:
  // For blocks of up to `cells` places and `updates` updates. `window` may be null: sums then go
  // through accumulators only. A `narrow` one gives up where one window does not take all of them.
  BlockFold(const FoldKernels& kernels, const WindowKernels* window, int64_t cells, int64_t updates,
            Carver& carver, bool narrow = false)
      : kernels_(kernels),
        window_(window),
        sums_(window != nullptr && window->wide.add != nullptr ? &window->wide : nullptr),
        narrow_(narrow) {
    cells_.counts = carver.take<uint32_t>(cells);
    if (!narrow) cells_.states = carver.take<char>(cells * kernels.state_size);
    if (window != nullptr) {
      add_pairs_ = pair_kernels().add_units(window->digits);
      // Where there is one batch for certain, it uses either: both lie in the same memory.
      batch_ = narrow ? kNarrowBatch : batch_for(cells);
      one_batch_ = !narrow && updates <= batch_;
      rests_.values = carver.take<double>(most_rests());
      rests_.cells = carver.take<uint32_t>(most_rests());
      settled_ = carver.take<char>(most_rests() * kernels.value_size);
      units_ = one_batch_ ? reinterpret_cast<int64_t*>(cells_.states)
                          : carver.take<int64_t>(cells * window->words);
    }
    if (kernels.long_size > 0) {
      slots_ = std::clamp<int64_t>(tuning::kRepairBytes / kernels.long_size, 1,
                                   std::min(cells / 4, updates / 16) + 1);
      // Where all updates are walked again for those that were refused.
      if (narrow) slots_ = std::max(slots_, cells / tuning::kRepairCells);
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
    wide_ = flushed_ = minus_zeros_ = gave_up_ = false;
    frame_ = Window();
    rests_.count = 0;
  }

  // Adds the updates [first, last), once a block. read(first, last, f) calls f(cells, values,
  // count) part by part; false: it found a bad key, and what the fold holds is of no use. The keys,
  // if there are any, are the cells of all updates, but for those that are negative or too large.
  // `known` may be a range that all values are in.
  template <class Read>
  void add(const KeyedValues& keys, int64_t first, int64_t last, Read&& read,
           const WindowRange* known = nullptr) {
    if (window_ == nullptr) return add_wide(keys, first, last, read);
    clear_units();
    if (last - first <= batch_) return add_batch(keys, first, last, read, known);
    add_frames(keys, first, last, read);
    minus_zeros_ |= frame_.minus_zeros;
    if (wide_) flush();
  }
  // The same for one of several folds that will be merged. Those that were given the same range,
  // which the values are likely to be in, nearly always end in the same window.
  template <class Read>
  void add_to_merge(const KeyedValues& keys, int64_t first, int64_t last, Read&& read,
                    const WindowRange* likely, int folds) {
    if (window_ == nullptr) return add_wide(keys, first, last, read);
    clear_units();
    if (likely != nullptr) frame_.guess(*likely, batch_, *window_);
    add_frames(keys, first, last, read);
    minus_zeros_ |= frame_.minus_zeros;
    if (wide_) return flush();
    if (gave_up_) return;
    if (frame_.sum >= std::ldexp(1.0, Window::kBits) / folds) frame_.look(changes());
  }
  // Whether a narrow fold of values such as these is likely to give up.
  static bool is_wide(const WindowRange& range, const WindowKernels& window) {
    Window frame;
    return !frame.guess(range, kNarrowBatch, window) || !frame.reaches(range, window, 10);
  }
  // Whether the cells of these folds can be merged as they are. Otherwise, and where there are no
  // windows, all of them must move to accumulators first.
  template <class Folds>
  static bool share_window(const Folds& folds, int count) {
    int64_t rests = 0;
    double most = 0;
    for (int i = 0; i < count; ++i) {
      const BlockFold& fold = *folds[i];
      if (fold.window_ == nullptr || fold.wide_ || fold.frame_.limit == 0 ||
          fold.frame_.exponent != folds[0]->frame_.exponent) {
        return false;
      }
      rests += fold.rests_.count;
      most += fold.frame_.sum;
    }
    return rests <= folds[0]->most_rests() && most < std::ldexp(1.0, Window::kBits);
  }
  void leave_window() {
    if (window_ != nullptr && !wide_) flush();
  }
  // Whether what a narrow fold holds is of no use.
  bool gave_up() const { return gave_up_; }
  void merge_units(const BlockFold& later, int64_t begin, int64_t end) {
    const int words = window_->words;
    for (int64_t i = begin * words; i < end * words; ++i) units_[i] += later.units_[i];
    if (!counted_) return;
    for (int64_t i = begin; i < end; ++i) cells_.counts[i] += later.cells_.counts[i];
  }
  // First the rests of all, then the cells that left some: of those later folds hold nothing then.
  void merge_rests(const BlockFold& later) {
    std::copy_n(later.rests_.values, later.rests_.count, rests_.values + rests_.count);
    std::copy_n(later.rests_.cells, later.rests_.count, rests_.cells + rests_.count);
    rests_.count += later.rests_.count;
  }
  void merge_rest_cells(BlockFold& later) {
    for (int i = 0; i < rests_.count; ++i) {
      const uint32_t cell = rests_.cells[i];
      merge_units(later, cell, cell + 1);
      std::fill_n(later.units_ + int64_t{cell} * window_->words, window_->words, 0);
      if (counted_) later.cells_.counts[cell] = 0;
    }
  }
  void merge(const BlockFold& later, int64_t begin, int64_t end) {
    if (sums_ != nullptr) return sums_->merge(cells_, later.cells_, begin, end, counted_);
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
    begin_finish();
    begin_part(0);
    finish_part(*this, count_);
    end_part(*this, repair);
    end_finish();
  }
  // The same in parts, each written by one of several folds. Once all cells were merged, or those
  // that left rests:
  void begin_finish() {
    frame_.minus_zeros = minus_zeros_;
    // Wide sums tell for themselves what only the counts do not.
    if (flushed_ && (counted_ || sums_ == nullptr)) {
      window_->doubt(cells_, block_, count_, minus_zeros_, counted_);
    }
    if (!wide_ && rests_.count > 0) {
      window_->settle(units_, seen(), block_, frame_, rests_, settled_);
    }
    tagged_ = wide_ || counted_;  // the counts are there to be tagged
  }
  // By each writer, as long as it has room for those that refuse.
  void begin_part(int64_t begin) {
    written_ = begin;
    refused_.count = 0;
  }
  void finish_part(BlockFold& writer, int64_t end) const {
    writer.part_end_ = end;
    while (writer.written_ < end && writer.refused_.count < slots_) {
      writer.written_ = finish_cells(writer.written_, end, writer.refused_);
    }
  }
  // And one writer after the other.
  template <class Repair>
  void end_part(BlockFold& writer, Repair&& repair) {
    if (&writer != this) {
      std::copy_n(writer.refused_.cells, writer.refused_.count, refused_.cells);
      std::copy_n(writer.refused_.offsets, writer.refused_.count, refused_.offsets);
      refused_.count = std::exchange(writer.refused_.count, 0);
    }
    for (int64_t at = writer.written_; refused_.count > 0 || at < writer.part_end_;) {
      if (refused_.count > 0) {
        if (!tagged_) clear_counts();
        tagged_ = true;
        kernels_.repair_begin(cells_, refused_, repairs_);
        repair();
        kernels_.repair_end(cells_, Destination{block_.first, 1, block_.include_self}, refused_,
                            repairs_);
        refused_.count = 0;
      }
      if (at < writer.part_end_) at = finish_cells(at, writer.part_end_, refused_);
    }
  }
  void end_finish() {
    if (!wide_ && rests_.count > 0) window_->write(block_, rests_, settled_);
  }
  void add_again(const uint32_t* cells, const char* values, int count) {
    add_again_for(*this, cells, values, count);
  }

  // Takes what is read again, pairs as they lie.
  struct Again {
    BlockFold& fold;

    bool takes_pairs() const { return fold.sums_ != nullptr; }
    void operator()(const uint32_t* ids, const char* values, int64_t count) {
      fold.add_again(ids, values, static_cast<int>(count));
    }
    void operator()(const uint64_t* pairs, int64_t count, const uint64_t*) {
      for (int64_t at = 0; at < count; at += kTileItems) {
        fold.add_pairs_again(pairs + at, std::min<int64_t>(kTileItems, count - at));
      }
    }
  };

  // A worker that shares the updates adds them again to Longs of its own, for cells of `owner`.
  void help(const BlockFold& owner) {
    kernels_.repair_clear(cells_, owner.refused_.count, repairs_);
  }
  void add_again_for(const BlockFold& owner, const uint32_t* cells, const char* values, int count) {
    Updates updates;
    updates.count = count;
    updates.cells = cells;
    updates.values = values;
    if (sums_ == nullptr) return kernels_.repair_add(owner.cells_, updates, repairs_);
    uint32_t found[kTileItems];
    const int tagged = sums_->find_tagged(owner.cells_, cells, count, found);
    updates.count = 1;
    for (int i = 0; i < tagged; ++i) {
      updates.cells = cells + found[i];
      updates.values = values + int64_t{found[i]} * kernels_.value_size;
      kernels_.repair_add(owner.cells_, updates, repairs_);
    }
  }
  void add_pairs_again(const uint64_t* pairs, int64_t count) {
    uint32_t found[kTileItems + 1];
    int tagged = 0;
    for (int64_t i = 0; i < count; ++i) {
      found[tagged] = static_cast<uint32_t>(i);
      tagged += (cells_.counts[static_cast<uint32_t>(pairs[i])] & kCellTag) != 0;
    }
    Updates updates;
    updates.count = 1;
    for (int i = 0; i < tagged; ++i) {
      uint32_t cell, value;
      pair_kernels().unpack(pairs + found[i], 1, &cell, &value, kernels_.value_size, pairs);
      updates.cells = &cell;
      updates.values = reinterpret_cast<const char*>(&value);
      kernels_.repair_add(cells_, updates, repairs_);
    }
  }
  void join_help(const BlockFold& helper) {
    kernels_.repair_merge(cells_, refused_.count, repairs_, helper.repairs_);
  }

 private:
  // Flushes that a fold may begin with, and updates a cell that make up for another. A rest takes
  // as long as a few cells.
  static constexpr int64_t kFlushes = 3, kFlushUpdates = 8, kRestCells = 8;
  static constexpr int kMisses = 8;
  static constexpr int64_t kNarrowBatch = 2 * tuning::kWindowUpdates;
  // Updates that go through the window at a time: enough to make up for emptying it.
  static int64_t batch_for(int64_t cells) {
    return std::clamp(8 * cells, tuning::kWindowUpdates, 4 * tuning::kWindowUpdates);
  }
  void open_wide() {
    if (wide_) return;
    // Where a window is in use, it may have counted.
    if (!counted_) clear_counts();
    const auto open = sums_ != nullptr ? sums_->open : kernels_.open_block;
    open(cells_, block_, count_);
    wide_ = true;
  }
  int64_t finish_cells(int64_t begin, int64_t end, Touched& refused) const {
    if (!wide_) {
      return window_->finish(units_, seen(), block_, begin, end, frame_, refused, slots_);
    }
    if (sums_ == nullptr) {
      return kernels_.finish_block(cells_, block_, begin, end, refused, slots_);
    }
    return sums_->finish(cells_, counted_, block_, begin, end, refused, slots_);
  }
  void clear_counts() {
    std::memset(cells_.counts, 0, static_cast<size_t>(count_) * sizeof(uint32_t));
  }
  void clear_units() {
    std::memset(units_, 0, static_cast<size_t>(count_ * window_->words) * sizeof(int64_t));
    if (counted_) clear_counts();
  }
  uint32_t* seen() const { return counted_ ? cells_.counts : nullptr; }
  int most_rests() const { return one_batch_ ? WindowRests::kFew : WindowRests::kMany; }

  // One window for all updates, or none: of the range that is known or that the first values make
  // likely, or else of the range that they have.
  template <class Read>
  void add_batch(const KeyedValues& keys, int64_t first, int64_t last, Read&& read,
                 const WindowRange* known) {
    const int64_t updates = last - first;
    rests_.room = WindowRests::kFew;
    if (known == nullptr || !frame_.set(*known, updates, *window_)) frame_.limit = 0;
    const bool wide = frame_.limit > 0 && !frame_.reaches(*known, *window_, 40);
    // Where no block before had a window of its own, few look for one.
    const bool looks = misses_ < kMisses || misses_ % kMisses == 0;
    if ((looks || !wide) && add_windowed(keys, first, last, read)) return;
    if (looks) {
      WindowRange range;
      clear_units();
      read(first, last, [&](const uint32_t*, const char* values, int64_t count) {
        window_->scan(values, count, range);
      });
      misses_ = frame_.set(range, updates, *window_) && add_windowed(keys, first, last, read)
                    ? 0
                    : misses_ + 1;
      if (misses_ == 0) return;
    } else {
      ++misses_;
    }
    if (counted_) clear_counts();
    add_wide(keys, first, last, read);
  }
  // False: its values lie too far apart, and what was added is of no use.
  template <class Read>
  bool add_windowed(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    Windowed add{*this, last - first};
    bool good = true;
    rests_.count = 0;
    if (keys.data != nullptr && frame_.limit == 0) {
      guess_frame(keys.values + first * kernels_.value_size,
                  std::min<int64_t>(kTileItems, last - first), last - first);
    }
    for (int64_t at = first; at < last && add.fits && good;) {
      if (keys.data != nullptr && frame_.limit > 0) {
        at += window_->add_keys(units_, seen(), keys, at, last - at, frame_, rests_);
        if (at == last) break;
      }
      const int64_t end = keys.data != nullptr ? std::min(at + kTileItems, last) : last;
      good = read(at, end, add);
      at = end;
    }
    minus_zeros_ = frame_.minus_zeros;
    return add.fits;
  }
  // Takes what is read, part by part; pairs as they lie, where there is a way.
  struct Windowed {
    BlockFold& fold;
    int64_t updates;  // in all
    bool fits = true;

    bool takes_pairs() const { return !fold.counted_ && fold.add_pairs_ != nullptr; }
    void operator()(const uint32_t* ids, const char* values, int64_t count,
                    const char* soon = nullptr) {
      if (!fits) return;
      Window& frame = fold.frame_;
      fits = (frame.limit != 0 || fold.guess_frame(values, count, updates)) &&
             fold.window_->add(fold.units_, fold.seen(), ids, values, count, frame, fold.rests_,
                               soon) == count;
    }
    void operator()(const uint64_t* pairs, int64_t count, const uint64_t* soon) {
      constexpr int kFew = 8;
      while (count > 0 && fits) {
        const bool begins = fold.frame_.limit == 0;
        const int64_t taken =
            begins ? 0 : fold.add_pairs_(fold.units_, pairs, count, fold.frame_, soon);
        const int64_t some = std::min<int64_t>(begins ? kTileItems : kFew, count - taken);
        uint32_t ids[kTileItems], values[kTileItems];
        pair_kernels().unpack(pairs + taken, some, ids, values, fold.kernels_.value_size, soon);
        if (some > 0) (*this)(ids, reinterpret_cast<const char*>(values), some);
        pairs += taken + some;
        soon += taken + some;
        count -= taken + some;
      }
    }
  };
  // A window for `updates` values that begin with these.
  bool guess_frame(const char* values, int64_t count, int64_t updates) {
    WindowRange range;
    window_->scan(values, count, range);
    return count < updates ? frame_.guess(range, updates, *window_)
                           : frame_.set(range, updates, *window_);
  }

  // One window after the other: sums move to accumulators when the next one needs other units.
  template <class Read>
  void add_frames(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    left_ = frame_.limit > 0 ? frame_.room() : 0;
    rests_.room = most_rests();
    patience_ = kFlushes * count_;
    bool good = true;
    for (int64_t at = first; at < last && good && !gave_up_;) {
      if (patience_ <= 0 && sums_ != nullptr) {
        minus_zeros_ = true;  // nobody looks for them from here on
        return add_sums(keys, at, last, read);
      }
      if (left_ > 0 && patience_ > 0 && keys.data != nullptr) {
        const int64_t taken =
            window_->add_keys(units_, seen(), keys, at, std::min(left_, last - at), frame_, rests_);
        at += taken;
        took(taken);
        if (at == last) break;
      }
      // By keys, what is read is only what they stopped at.
      const int64_t part = keys.data != nullptr && patience_ > 0 ? kTileItems : last;
      const int64_t end = std::min(at + part, last);
      good = read(at, end,
                  [&](const uint32_t* ids, const char* values, int64_t count,
                      const char* soon = nullptr) { add_part(ids, values, count, soon); });
      at = end;
    }
  }
  void add_part(const uint32_t* ids, const char* values, int64_t count, const char* soon) {
    while (count > 0 && !gave_up_) {
      const int64_t some = patience_ > 0 ? std::min(count, left_) : 0;
      const int64_t taken =
          some == 0 ? 0 : window_->add(units_, seen(), ids, values, some, frame_, rests_, soon);
      took(taken);
      ids += taken;
      values += taken * kernels_.value_size;
      count -= taken;
      if (count == 0 || (taken == some && some > 0)) continue;
      if (next_frame(values, count) || gives_up()) continue;
      open_wide();
      // Parts are read one after the other, and accumulators leave time to fetch the next.
      for (int64_t i = 0; i < count; i += 8) {
        send_for(soon == nullptr ? values : soon, i * 8);
        send_for(values, (i + kTileItems) * kernels_.value_size);
      }
      if (sums_ != nullptr) return sums_->add(cells_, counted_, ids, values, count, soon);
      return kernels_.add_to_block(cells_, ids, values, count);
    }
  }
  // A window that takes these values; false: there is none for them, and the last one stays.
  bool next_frame(const char* values, int64_t count) {
    Window next;
    WindowRange range;
    window_->scan(values, count, range);
    minus_zeros_ |= range.lowest == INT32_MIN;
    if (patience_ <= 0 || !next.guess(range, batch_, *window_)) return false;
    if (frame_.limit > 0) {
      if (gives_up()) return false;
      patience_ -= count_ + kRestCells * rests_.count;
      flush();
    }
    frame_ = next;
    left_ = frame_.room();
    return true;
  }
  // When so much was added that a cell may overflow, the cells say how much more may come.
  void took(int64_t taken) {
    patience_ += taken / kFlushUpdates;
    if (taken == 0) return;
    left_ = frame_.room();
    if (left_ >= batch_ / 4) return;
    frame_.look(changes());
    left_ = frame_.room();
    if (left_ >= batch_ / 4 || gives_up()) return;
    flush();
    left_ = frame_.room();
  }
  bool gives_up() { return gave_up_ = narrow_; }
  // The bits in which a cell differs from the next: it is below the highest of them.
  uint64_t changes() const {
    uint64_t found = 0;
    for (int64_t i = 0; i < count_ * window_->words; ++i) {
      const auto cell = static_cast<uint64_t>(units_[i]);
      found |= cell ^ cell << 1;
    }
    return found;
  }
  void flush() {
    open_wide();
    minus_zeros_ |= frame_.minus_zeros;
    window_->flush(units_, cells_, count_, frame_, rests_, counted_);
    rests_.count = 0;
    frame_.sum = 0;
    flushed_ = true;
  }

  template <class Read>
  void add_wide(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    if (sums_ != nullptr) return add_sums(keys, first, last, read);
    open_wide();
    const bool often =
        kernels_.add_often != nullptr && last - first >= tuning::kOftenUpdates * count_;
    const bool keyed = keys.data != nullptr && kernels_.add_keys != nullptr;
    bool good = true;
    for (int64_t at = first; at < last && good;) {
      if (keyed) at += kernels_.add_keys(cells_, keys, at, last - at, (last - first) / count_);
      if (at == last) break;
      const int64_t end = keyed ? std::min(at + kTileItems, last) : last;
      good = read(
          at, end,
          [&](const uint32_t* ids, const char* values, int64_t count, const char* soon = nullptr) {
            if (often) return kernels_.add_often(cells_, ids, values, count, soon);
            kernels_.add_to_block(cells_, ids, values, count);
          });
      at = end;
    }
  }

  // The same in wide sums.
  template <class Read>
  void add_sums(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    open_wide();
    bool good = true;
    for (int64_t at = first; at < last && good;) {
      if (keys.data != nullptr) at += sums_->add_keys(cells_, counted_, keys, at, last - at);
      if (at == last) break;
      const int64_t end = keys.data != nullptr ? std::min(at + kTileItems, last) : last;
      good = read(at, end, Wide{*this});
      at = end;
    }
  }
  struct Wide {
    BlockFold& fold;

    bool takes_pairs() const { return !fold.counted_ && fold.sums_->add_pairs != nullptr; }
    void operator()(const uint32_t* ids, const char* values, int64_t count,
                    const char* soon = nullptr) {
      fold.sums_->add(fold.cells_, fold.counted_, ids, values, count, soon);
    }
    void operator()(const uint64_t* pairs, int64_t count, const uint64_t* soon) {
      fold.sums_->add_pairs(fold.cells_, pairs, count, soon);
    }
  };

  const FoldKernels& kernels_;
  const WindowKernels* window_;
  const WideSums* sums_;  // null: what leaves the window goes to accumulators
  Cells cells_;
  int64_t* units_ = nullptr;  // a cell's sum in units of the window
  PairKernels::AddUnits add_pairs_ = nullptr;
  int64_t batch_ = 0;
  bool one_batch_ = false;
  WindowRests rests_;
  char* settled_ = nullptr;  // the results of cells with rests
  int64_t slots_ = 1;
  Touched refused_;
  Repairs repairs_;
  int64_t written_ = 0, part_end_ = 0;  // of the cells that it writes
  bool tagged_ = false;
  Block block_;
  int64_t count_ = 0;
  Window frame_;
  int64_t left_ = 0;      // updates that the window takes without looking at its cells
  int64_t patience_ = 0;  // with values that need another window, in cells to be emptied
  bool counted_ = false;  // the window counts updates
  bool narrow_;           // there are no accumulators
  bool gave_up_ = false;
  bool wide_ = false;     // the accumulators are open
  bool flushed_ = false;  // they took sums from the window
  bool minus_zeros_ = false;
  int misses_ = 0;  // blocks in a row that had no window
};

}  // namespace sow::detail
