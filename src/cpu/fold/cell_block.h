// SPDX-License-Identifier: Apache-2.0
// Folds updates in a block of cells, one for every place of a range of the destination.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "cpu/common/prefetch.h"
#include "cpu/fold/cell_repair.h"
#include "cpu/sum/fixed_point.h"
#include "cpu/tuning.h"
#include "transfer/canonical.h"

namespace sow::detail {

// What is read and written of a cell by an update. Extremes of floats are not counted.
inline int cell_bytes(const FoldKernels& kernels, const FixedPointKernels* fixed_point) {
  if (fixed_point != nullptr) return 8 * fixed_point->words;
  return kernels.state_size + (kernels.extremes.open != nullptr ? 0 : 4);
}

// `each` is the number of updates that a worker has for a cell, `self` include_self.
inline tuning::BlockNs block_ns(const FoldKernels& kernels, const FixedPointKernels* fixed_point,
                                double each, bool self) {
  if (fixed_point != nullptr)
    return fixed_point->words > 1 ? tuning::kTwoWordBlock : tuning::kFixedPointBlock;
  if (kernels.extremes.open != nullptr) return tuning::kFloatExtremeBlock;
  if (kernels.block.uncounted && self) return tuning::kUncountedBlock;
  if (kernels.block.add_often != nullptr) {
    return each >= tuning::kOftenUpdates ? tuning::kOftenBlock : tuning::kExtremeBlock;
  }
  return kernels.long_size > 0 ? tuning::kAccumulatorBlock : tuning::kNumberBlock;
}

// Where the sum of a cell is, from open() to finish():
//   in fixed point     `fixed_` holds whole numbers of 2^scale_.exponent, and `residuals_` the few
//                      parts of terms that are none; no cell is beyond 2^FixedPointScale::kBits.
//                      Only where there are FixedPointKernels (sums of floats).
//   in accumulators    `cells_.states`, from open_accumulators() on (`accumulating_`): bounded sums
//                      or, where there are none, what the reduction's Accumulator holds. Whatever
//                      is not a sum of floats begins and stays here.
// Sums move from fixed point to accumulators by flush() and never back; until the next flush both
// parts together are the sum. A fixed_point_only block has no accumulators and gives up instead.
// Old values are in the accumulators, or still in the destination while these are closed: nothing
// is written to the destination before finish, and then each place once, when its result is
// certain. Counts say how many updates a cell met where `counted_`; elsewhere they are 0 or 1 in
// accumulators and of any content in fixed point.
class CellBlock {
 public:
  // For blocks of up to `cells` places and `updates` updates. `fixed_point` may be null: sums
  // then go through accumulators only. A `fixed_point_only` one gives up where one fixed-point
  // scale does not take all of them.
  CellBlock(const FoldKernels& kernels, const FixedPointKernels* fixed_point, int64_t cells,
            int64_t updates, Carver& carver, bool fixed_point_only = false)
      : kernels_(kernels),
        fixed_point_(fixed_point),
        bounded_(fixed_point != nullptr && fixed_point->bounded.add != nullptr
                     ? &fixed_point->bounded
                     : nullptr),
        repair_(kernels, bounded_),
        fixed_point_only_(fixed_point_only) {
    counts_ = carver.take<uint32_t>(cells);
    if (!fixed_point_only) cells_.states = carver.take<char>(cells * kernels.state_size);
    if (cells_.states != nullptr) cells_.totals = cells_.states + cells * kernels.state_size / 2;
    if (fixed_point != nullptr) {
      add_pairs_ = pair_kernels().add_fixed(fixed_point->digits);
      // Where there is one batch for certain, it uses either: both lie in the same memory.
      batch_ = fixed_point_only ? kFixedPointOnlyBatch : batch_for(cells);
      one_batch_ = !fixed_point_only && updates <= batch_;
      residuals_.values = carver.take<double>(most_residuals());
      residuals_.cells = carver.take<uint32_t>(most_residuals());
      resolved_ = carver.take<char>(most_residuals() * kernels.value_size);
      fixed_ = one_batch_ ? reinterpret_cast<int64_t*>(cells_.states)
                          : carver.take<int64_t>(cells * fixed_point->words);
    }
    if (kernels.long_size > 0) {
      int64_t slots = std::clamp<int64_t>(tuning::kRepairBytes / kernels.long_size, 1,
                                          std::min(cells / 4, updates / 16) + tuning::kRepairSlots);
      // Where all updates are walked again for those that were inconclusive.
      if (fixed_point_only) slots = std::max(slots, cells / tuning::kRepairCells);
      repair_.take(slots, carver);
    }
  }

  // The next block. `self` is include_self of the whole Transfer; `block.include_self` may be false
  // where only another share of the updates meets the old values.
  void open(const PlaceRange& block, int64_t cells, bool self) {
    block_ = block;
    count_ = cells;
    counted_ = fixed_point_ != nullptr && (fixed_point_->counts || !self);
    cells_.counts = kernels_.block.uncounted && self ? nullptr : counts_;
    accumulating_ = flushed_ = minus_zeros_ = gave_up_ = false;
    scale_ = FixedPointScale();
    residuals_.count = 0;
  }

  // Adds the updates [first, last), once a block. read(first, last, f) calls f(cells, values,
  // count) part by part; false: it found a bad key, and what the fold holds is of no use. The keys,
  // if there are any, are the cells of all updates, but for those that are negative or too large.
  // `known` may be a range that all values are in.
  template <class Read>
  void add(const KeyedValues& keys, int64_t first, int64_t last, Read&& read,
           const MagnitudeRange* known = nullptr) {
    if (fixed_point_ == nullptr) return add_to_accumulators(keys, first, last, read);
    clear_fixed();
    if (last - first <= batch_) return add_batch(keys, first, last, read, known);
    add_at_scales(keys, first, last, read);
    minus_zeros_ |= scale_.minus_zeros;
    if (accumulating_) flush();
  }
  // The same for one of several folds that will be merged. Those that were given the same range,
  // which the values are likely to be in, nearly always end at the same scale.
  template <class Read>
  void add_to_merge(const KeyedValues& keys, int64_t first, int64_t last, Read&& read,
                    const MagnitudeRange* likely, int folds) {
    if (fixed_point_ == nullptr) return add_to_accumulators(keys, first, last, read);
    clear_fixed();
    if (likely != nullptr) scale_.guess(*likely, batch_, *fixed_point_);
    add_at_scales(keys, first, last, read);
    minus_zeros_ |= scale_.minus_zeros;
    if (accumulating_) return flush();
    if (gave_up_) return;
    if (scale_.sum >= std::ldexp(1.0, FixedPointScale::kBits) / folds) scale_.look(changes());
  }
  // Whether a fixed-point-only fold of values such as these is likely to give up.
  static bool needs_several_scales(const MagnitudeRange& range,
                                   const FixedPointKernels& fixed_point) {
    FixedPointScale scale;
    return !scale.guess(range, kFixedPointOnlyBatch, fixed_point) ||
           !scale.reaches(range, fixed_point, 10);
  }
  // Whether the cells of these folds can be merged as they are. Otherwise, and where there are no
  // fixed-point scales, all of them must move to accumulators first.
  template <class Folds>
  static bool share_scale(const Folds& folds, int count) {
    int64_t residuals = 0;
    double most = 0;
    for (int i = 0; i < count; ++i) {
      const CellBlock& fold = *folds[i];
      if (fold.fixed_point_ == nullptr || fold.accumulating_ || fold.scale_.limit == 0 ||
          fold.scale_.exponent != folds[0]->scale_.exponent) {
        return false;
      }
      residuals += fold.residuals_.count;
      most += fold.scale_.sum;
    }
    return residuals <= folds[0]->most_residuals() &&
           most < std::ldexp(1.0, FixedPointScale::kBits);
  }
  void leave_fixed_point() {
    if (fixed_point_ != nullptr && !accumulating_) flush();
  }
  // Whether what a fixed-point-only fold holds is of no use.
  bool gave_up() const { return gave_up_; }
  void merge_fixed(const CellBlock& later, int64_t begin, int64_t end) {
    const int words = fixed_point_->words;
    for (int64_t i = begin * words; i < end * words; ++i) fixed_[i] += later.fixed_[i];
    if (!counted_) return;
    for (int64_t i = begin; i < end; ++i) cells_.counts[i] += later.cells_.counts[i];
  }
  // First the residuals of all, then the cells that left some: of those later folds hold nothing
  // then.
  void merge_residuals(const CellBlock& later) {
    std::copy_n(later.residuals_.values, later.residuals_.count,
                residuals_.values + residuals_.count);
    std::copy_n(later.residuals_.cells, later.residuals_.count,
                residuals_.cells + residuals_.count);
    residuals_.count += later.residuals_.count;
  }
  void merge_residual_cells(CellBlock& later) {
    for (int i = 0; i < residuals_.count; ++i) {
      const uint32_t cell = residuals_.cells[i];
      merge_fixed(later, cell, cell + 1);
      std::fill_n(later.fixed_ + int64_t{cell} * fixed_point_->words, fixed_point_->words, 0);
      if (counted_) later.cells_.counts[cell] = 0;
    }
  }
  void merge(const CellBlock& later, int64_t begin, int64_t end) {
    if (bounded_ != nullptr) return bounded_->merge(cells_, later.cells_, begin, end, counted_);
    kernels_.block.merge(cells_, later.cells_, begin, end);
  }
  // Of the updates so far, or null where nobody counted.
  uint32_t* counts() const { return accumulating_ || counted_ ? cells_.counts : nullptr; }
  // Once everything of it was merged.
  void note_merged(const CellBlock& later) {
    minus_zeros_ |= later.minus_zeros_;
    flushed_ |= later.flushed_;
  }

  // Writes all cells. Sums that are inconclusive are repaired by repair(), which must offer every
  // update to repair() of this or of a helper and join the helpers.
  template <class Repair>
  void finish(Repair&& repair) {
    begin_finish();
    begin_part(0);
    finish_part(*this, count_);
    end_part(*this, repair);
    end_finish();
  }
  // The same in parts, each written by one of several folds. Once all cells were merged, or those
  // that left residuals:
  void begin_finish() {
    scale_.minus_zeros = minus_zeros_;
    // Bounded sums tell for themselves what only the counts do not.
    if (flushed_ && (counted_ || bounded_ == nullptr)) {
      fixed_point_->mark_inconclusive(cells_, block_, count_, minus_zeros_, counted_);
    }
    if (!accumulating_ && residuals_.count > 0) {
      fixed_point_->resolve(fixed_, seen(), block_, scale_, residuals_, resolved_);
    }
    tagged_ = accumulating_ || counted_;  // the counts are there to be tagged
  }
  // By each writer, as long as it has room for those that are inconclusive.
  void begin_part(int64_t begin) {
    written_ = begin;
    repair_.forget();
  }
  void finish_part(CellBlock& writer, int64_t end) const {
    writer.part_end_ = end;
    while (writer.written_ < end && !writer.repair_.is_full()) {
      writer.written_ = finish_cells(writer.written_, end, writer.repair_.list());
    }
  }
  // And one writer after the other.
  template <class Repair>
  void end_part(CellBlock& writer, Repair&& repair) {
    if (&writer != this) repair_.take_list_of(writer.repair_);
    for (int64_t at = writer.written_; !repair_.is_empty() || at < writer.part_end_;) {
      if (!repair_.is_empty()) {
        if (!tagged_) clear_counts();
        tagged_ = true;
        repair_.begin(cells_);
        repair();
        repair_.end(cells_, block_);
      }
      if (at < writer.part_end_) at = finish_cells(at, writer.part_end_, repair_.list());
    }
  }
  void end_finish() {
    if (!accumulating_ && residuals_.count > 0) fixed_point_->write(block_, residuals_, resolved_);
  }

  // Takes what is read again, pairs as they lie.
  struct RepairPass {
    CellBlock& fold;

    bool takes_pairs() const { return fold.bounded_ != nullptr; }
    void operator()(const uint32_t* ids, const char* values, int64_t count) {
      fold.repair_for(fold, ids, values, static_cast<int>(count));
    }
    void operator()(const uint64_t* pairs, int64_t count, const uint64_t*) {
      for (int64_t at = 0; at < count; at += kTileItems) {
        fold.repair_.add_pairs(fold.cells_, pairs + at, std::min<int64_t>(kTileItems, count - at));
      }
    }
  };
  // A worker that shares the updates repairs cells of `owner`.
  void help(const CellBlock& owner) { repair_.help(cells_, owner.repair_); }
  void repair_for(const CellBlock& owner, const uint32_t* ids, const char* values, int count) {
    repair_.add(owner.cells_, ids, values, count);
  }
  void join_help(const CellBlock& helper) { repair_.join(cells_, helper.repair_); }

 private:
  // Flushes that a fold may begin with, and updates per cell that make up for another. A residual
  // takes as long as a few cells.
  static constexpr int64_t kFlushes = 3, kFlushUpdates = 8, kResidualCells = 8;
  static constexpr int kMisses = 8;
  static constexpr int64_t kFixedPointOnlyBatch = 2 * tuning::kFixedPointUpdates;
  // Updates that are added in fixed point at a time: enough to make up for emptying it.
  static int64_t batch_for(int64_t cells) {
    return std::clamp(8 * cells, tuning::kFixedPointUpdates, 4 * tuning::kFixedPointUpdates);
  }
  void open_accumulators() {
    if (accumulating_) return;
    // Where fixed point is in use, updates may be counted.
    if (!counted_) clear_counts();
    const auto open = bounded_ != nullptr ? bounded_->open : kernels_.block.open;
    open(cells_, block_, count_);
    accumulating_ = true;
  }
  int64_t finish_cells(int64_t begin, int64_t end, Touched& inconclusive) const {
    if (!accumulating_) {
      return fixed_point_->finish(fixed_, seen(), block_, begin, end, scale_, inconclusive,
                                  repair_.room());
    }
    if (bounded_ == nullptr) {
      return kernels_.block.finish(cells_, block_, begin, end, inconclusive, repair_.room());
    }
    return bounded_->finish(cells_, counted_, block_, begin, end, inconclusive, repair_.room());
  }
  void clear_counts() {
    if (cells_.counts == nullptr) return;
    std::memset(cells_.counts, 0, static_cast<size_t>(count_) * sizeof(uint32_t));
  }
  void clear_fixed() {
    std::memset(fixed_, 0, static_cast<size_t>(count_ * fixed_point_->words) * sizeof(int64_t));
    if (counted_) clear_counts();
  }
  uint32_t* seen() const { return counted_ ? cells_.counts : nullptr; }
  int most_residuals() const { return one_batch_ ? Residuals::kFew : Residuals::kMany; }

  // One fixed-point scale for all updates, or none: of the range that is known or that the first
  // values make likely, or else of the range that they have.
  template <class Read>
  void add_batch(const KeyedValues& keys, int64_t first, int64_t last, Read&& read,
                 const MagnitudeRange* known) {
    const int64_t updates = last - first;
    residuals_.room = Residuals::kFew;
    if (known == nullptr || !scale_.set(*known, updates, *fixed_point_)) scale_.limit = 0;
    const bool wide = scale_.limit > 0 && !scale_.reaches(*known, *fixed_point_, 40);
    // Where no block before had a fixed-point scale of its own, few look for one.
    const bool looks = misses_ < kMisses || misses_ % kMisses == 0;
    if ((looks || !wide) && add_at_scale(keys, first, last, read)) return;
    if (looks) {
      MagnitudeRange range;
      clear_fixed();
      read(first, last, [&](const uint32_t*, const char* values, int64_t count) {
        fixed_point_->scan(values, count, range);
      });
      misses_ = scale_.set(range, updates, *fixed_point_) && add_at_scale(keys, first, last, read)
                    ? 0
                    : misses_ + 1;
      if (misses_ == 0) return;
    } else {
      ++misses_;
    }
    if (counted_) clear_counts();
    add_to_accumulators(keys, first, last, read);
  }
  // False: its values lie too far apart, and what was added is of no use.
  template <class Read>
  bool add_at_scale(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    FixedPointAdder add{*this, last - first};
    bool good = true;
    residuals_.count = 0;
    if (keys.data != nullptr && scale_.limit == 0) {
      guess_scale(keys.values + first * kernels_.value_size,
                  std::min<int64_t>(kTileItems, last - first), last - first);
    }
    for (int64_t at = first; at < last && add.fits && good;) {
      if (keys.data != nullptr && scale_.limit > 0) {
        at += fixed_point_->add_keys(fixed_, seen(), keys, at, last - at, scale_, residuals_);
        if (at == last) break;
      }
      const int64_t end = keys.data != nullptr ? std::min(at + kTileItems, last) : last;
      good = read(at, end, add);
      at = end;
    }
    minus_zeros_ = scale_.minus_zeros;
    return add.fits;
  }
  // Takes what is read, part by part; pairs as they lie, where there is a way.
  struct FixedPointAdder {
    CellBlock& fold;
    int64_t updates;  // in all
    bool fits = true;

    bool takes_pairs() const { return !fold.counted_ && fold.add_pairs_ != nullptr; }
    void operator()(const uint32_t* ids, const char* values, int64_t count,
                    const char* to_prefetch = nullptr) {
      if (!fits) return;
      FixedPointScale& scale = fold.scale_;
      fits = (scale.limit != 0 || fold.guess_scale(values, count, updates)) &&
             fold.fixed_point_->add(fold.fixed_, fold.seen(), ids, values, count, scale,
                                    fold.residuals_, to_prefetch) == count;
    }
    void operator()(const uint64_t* pairs, int64_t count, const uint64_t* to_prefetch) {
      constexpr int kFew = 8;
      while (count > 0 && fits) {
        const bool begins = fold.scale_.limit == 0;
        const int64_t taken =
            begins ? 0 : fold.add_pairs_(fold.fixed_, pairs, count, fold.scale_, to_prefetch);
        const int64_t some = std::min<int64_t>(begins ? kTileItems : kFew, count - taken);
        uint32_t ids[kTileItems], values[kTileItems];
        pair_kernels().unpack(pairs + taken, some, ids, values, fold.kernels_.value_size,
                              to_prefetch);
        if (some > 0) (*this)(ids, reinterpret_cast<const char*>(values), some);
        pairs += taken + some;
        to_prefetch += taken + some;
        count -= taken + some;
      }
    }
  };
  // A fixed-point scale for `updates` values that begin with these.
  bool guess_scale(const char* values, int64_t count, int64_t updates) {
    MagnitudeRange range;
    fixed_point_->scan(values, count, range);
    return count < updates ? scale_.guess(range, updates, *fixed_point_)
                           : scale_.set(range, updates, *fixed_point_);
  }

  // One fixed-point scale after the other: sums move to accumulators when the next one needs other
  // units.
  template <class Read>
  void add_at_scales(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    left_ = scale_.limit > 0 ? scale_.room() : 0;
    residuals_.room = most_residuals();
    patience_ = kFlushes * count_;
    bool good = true;
    for (int64_t at = first; at < last && good && !gave_up_;) {
      if (patience_ <= 0 && bounded_ != nullptr) {
        minus_zeros_ = true;  // nobody looks for them from here on
        return add_bounded(keys, at, last, read);
      }
      if (left_ > 0 && patience_ > 0 && keys.data != nullptr) {
        const int64_t taken = fixed_point_->add_keys(
            fixed_, seen(), keys, at, std::min(left_, last - at), scale_, residuals_);
        at += taken;
        took(taken);
        if (at == last) break;
      }
      // By keys, what is read is only what they stopped at.
      const int64_t part = keys.data != nullptr && patience_ > 0 ? kTileItems : last;
      const int64_t end = std::min(at + part, last);
      good = read(
          at, end,
          [&](const uint32_t* ids, const char* values, int64_t count,
              const char* to_prefetch = nullptr) { add_part(ids, values, count, to_prefetch); });
      at = end;
    }
  }
  void add_part(const uint32_t* ids, const char* values, int64_t count, const char* to_prefetch) {
    while (count > 0 && !gave_up_) {
      const int64_t some = patience_ > 0 ? std::min(count, left_) : 0;
      const int64_t taken = some == 0 ? 0
                                      : fixed_point_->add(fixed_, seen(), ids, values, some, scale_,
                                                          residuals_, to_prefetch);
      took(taken);
      ids += taken;
      values += taken * kernels_.value_size;
      count -= taken;
      if (count == 0 || (taken == some && some > 0)) continue;
      if (next_scale(values, count) || gives_up()) continue;
      open_accumulators();
      // Parts are read one after the other, and accumulators leave time to fetch the next.
      for (int64_t i = 0; i < count; i += 8) {
        prefetch(to_prefetch == nullptr ? values : to_prefetch, i * 8);
        prefetch(values, (i + kTileItems) * kernels_.value_size);
      }
      if (bounded_ != nullptr)
        return bounded_->add(cells_, counted_, ids, values, count, to_prefetch);
      return kernels_.block.add(cells_, ids, values, count);
    }
  }
  // A fixed-point scale that takes these values; false: there is none for them, and the last one
  // stays.
  bool next_scale(const char* values, int64_t count) {
    FixedPointScale next;
    MagnitudeRange range;
    fixed_point_->scan(values, count, range);
    minus_zeros_ |= range.lowest == INT32_MIN;
    if (patience_ <= 0 || !next.guess(range, batch_, *fixed_point_)) return false;
    if (scale_.limit > 0) {
      if (gives_up()) return false;
      patience_ -= count_ + kResidualCells * residuals_.count;
      flush();
    }
    scale_ = next;
    left_ = scale_.room();
    return true;
  }
  // When so much was added that a cell may overflow, the cells say how much more may come.
  void took(int64_t taken) {
    patience_ += taken / kFlushUpdates;
    if (taken == 0) return;
    left_ = scale_.room();
    if (left_ >= batch_ / 4) return;
    scale_.look(changes());
    left_ = scale_.room();
    if (left_ >= batch_ / 4 || gives_up()) return;
    flush();
    left_ = scale_.room();
  }
  bool gives_up() { return gave_up_ = fixed_point_only_; }
  // The bits in which a cell differs from the next: it is below the highest of them.
  uint64_t changes() const {
    uint64_t found = 0;
    for (int64_t i = 0; i < count_ * fixed_point_->words; ++i) {
      const auto cell = static_cast<uint64_t>(fixed_[i]);
      found |= cell ^ cell << 1;
    }
    return found;
  }
  void flush() {
    open_accumulators();
    minus_zeros_ |= scale_.minus_zeros;
    fixed_point_->flush(fixed_, cells_, count_, scale_, residuals_, counted_);
    residuals_.count = 0;
    scale_.sum = 0;
    flushed_ = true;
  }

  template <class Read>
  void add_to_accumulators(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    if (bounded_ != nullptr) return add_bounded(keys, first, last, read);
    open_accumulators();
    const bool often =
        kernels_.block.add_often != nullptr && last - first >= tuning::kOftenUpdates * count_;
    const bool keyed = keys.data != nullptr && kernels_.block.add_keys != nullptr;
    bool good = true;
    for (int64_t at = first; at < last && good;) {
      if (keyed)
        at += kernels_.block.add_keys(cells_, keys, at, last - at, (last - first) / count_);
      if (at == last) break;
      const int64_t end = keyed ? std::min(at + kTileItems, last) : last;
      good = read(at, end,
                  [&](const uint32_t* ids, const char* values, int64_t count,
                      const char* to_prefetch = nullptr) {
                    if (often)
                      return kernels_.block.add_often(cells_, ids, values, count, to_prefetch);
                    kernels_.block.add(cells_, ids, values, count);
                  });
      at = end;
    }
  }

  // The same in bounded sums.
  template <class Read>
  void add_bounded(const KeyedValues& keys, int64_t first, int64_t last, Read&& read) {
    open_accumulators();
    bool good = true;
    for (int64_t at = first; at < last && good;) {
      if (keys.data != nullptr) at += bounded_->add_keys(cells_, counted_, keys, at, last - at);
      if (at == last) break;
      const int64_t end = keys.data != nullptr ? std::min(at + kTileItems, last) : last;
      good = read(at, end, BoundedAdder{*this});
      at = end;
    }
  }
  struct BoundedAdder {
    CellBlock& fold;

    bool takes_pairs() const { return !fold.counted_ && fold.bounded_->add_pairs != nullptr; }
    void operator()(const uint32_t* ids, const char* values, int64_t count,
                    const char* to_prefetch = nullptr) {
      fold.bounded_->add(fold.cells_, fold.counted_, ids, values, count, to_prefetch);
    }
    void operator()(const uint64_t* pairs, int64_t count, const uint64_t* to_prefetch) {
      fold.bounded_->add_pairs(fold.cells_, pairs, count, to_prefetch);
    }
  };

  const FoldKernels& kernels_;
  const FixedPointKernels* fixed_point_;
  const BoundedSums* bounded_;  // null: what leaves fixed point goes to accumulators
  CellRepair repair_;
  Cells cells_;
  uint32_t* counts_;          // memory for them
  int64_t* fixed_ = nullptr;  // a cell's sum, scaled
  PairKernels::AddFixed add_pairs_ = nullptr;
  int64_t batch_ = 0;
  bool one_batch_ = false;
  Residuals residuals_;
  char* resolved_ = nullptr;            // the results of cells with residuals
  int64_t written_ = 0, part_end_ = 0;  // of the cells that it writes
  bool tagged_ = false;
  PlaceRange block_;
  int64_t count_ = 0;
  FixedPointScale scale_;
  int64_t left_ = 0;      // updates that the fixed-point scale takes without looking at its cells
  int64_t patience_ = 0;  // with values that need another fixed-point scale, in cells to be emptied
  bool counted_ = false;  // updates are counted in fixed point
  bool fixed_point_only_;  // there are no accumulators
  bool gave_up_ = false;
  bool accumulating_ = false;  // the accumulators are open
  bool flushed_ = false;       // they took sums from fixed point
  bool minus_zeros_ = false;
  int misses_ = 0;  // blocks in a row that had no fixed-point scale
};

}  // namespace sow::detail
