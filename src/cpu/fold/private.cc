// SPDX-License-Identifier: Apache-2.0
// Strategy "private": every worker folds its share of the updates in cells of its own for the whole
// destination; the cells are merged in the order of the shares.
#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "core/threads/parallel.h"
#include "cpu/direct/last_updates.h"
#include "cpu/fold/cell_block.h"
#include "cpu/read/id_reader.h"
#include "cpu/strategies.h"
#include "cpu/transfer_facts.h"

namespace sow::detail {

namespace {

constexpr int kMostWorkers = 64;

struct Layout {
  const FoldKernels* kernels;
  const FixedPointKernels* fixed_point;
  OffsetIds places;
  int64_t updates;
  int workers;  // shares of the updates, each with cells of its own
  int threads;
  bool moves;             // what was moved last is found from the end
  bool fixed_point_only;  // so many cells that sums are in fixed point only
};

// What a worker's fold must be ready for: shares that are merged hold accumulators as well.
int64_t fold_updates(const Layout& layout) {
  return layout.workers > 1 ? INT64_MAX : layout.updates;
}

size_t worker_bytes(const Layout& layout) {
  Carver carver(nullptr);
  if (layout.moves) {
    LastUpdates updates(layout.places.count(), carver);
    return carver.used();
  }
  CellBlock fold(*layout.kernels, layout.fixed_point, layout.places.count(), fold_updates(layout),
                 carver, layout.fixed_point_only);
  return carver.used();
}

int64_t shares_for(int64_t updates) { return updates / kCellTag + 1; }

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout{fold_kernels(t.dtype, t.reduce),
                fixed_point_kernels(t.dtype, t.reduce),
                all_places(t, c),
                c.outer_count * c.item_count * c.row.size,
                std::min(threads, kMostWorkers),
                threads,
                false,
                false};
  layout.moves = t.reduce == Reduce::assign && c.outer_count == 1 && c.row.size == 1 &&
                 IdReader::can_decode(t, c, layout.places);
  if (layout.updates < tuning::kSerialUpdates) layout.workers = 1;
  // A cell counts to 2^31: more updates are more shares, whatever threads there are.
  if (const int64_t shares = shares_for(layout.updates); shares > 1) {
    layout.workers = static_cast<int>(
        std::clamp<int64_t>(layout.workers, std::min<int64_t>(shares, kMostWorkers), kMostWorkers));
    return layout;
  }
  layout.fixed_point_only = layout.fixed_point != nullptr &&
                            layout.places.count() > tuning::kFixedPointOnlyCells &&
                            k_partition.supports(t, c);
  if (worker_bytes(layout) * layout.workers > workspace_allowed(t, c)) layout.workers = 1;
  return layout;
}

class PrivateFold {
 public:
  PrivateFold(const Transfer& t, const Layout& layout, char* memory, size_t bytes)
      : transfer_(t),
        layout_(layout),
        kernels_(*layout.kernels),
        flat_(flatten(t)),
        memory_(memory),
        bytes_(bytes) {
    block_.first = t.dst.data + layout.places.lowest() * kernels_.value_size;
    block_.step = layout.places.step();
    block_.include_self = t.include_self;
  }

  enum class End { done, bad_key, gave_up };
  // Nothing was written unless it is done.
  End run() {
    const int workers = layout_.workers;
    if (!prefetch_ahead()) return End::gave_up;
    std::atomic<bool> bad{false}, gave_up{false};
    parallel_team(std::min(workers, layout_.threads), [&](Team& team) {
      team.each(workers, [&](int w, int) {
        if (!fold_share(w)) bad = true;
        if (layout_.updates >= kCellTag) cap_counts(*folds_[w]);
        if (folds_[w]->gave_up()) gave_up = true;
      });
      if (bad || gave_up) return;
      team.one([&] {
        same_scale_ = workers > 1 && CellBlock::share_scale(folds_, workers);
        if (same_scale_) join_residuals();
        if (workers == 1) folds_[0]->begin_finish();
        if (workers > 1 && !same_scale_ && layout_.fixed_point_only) gave_up = true;
      });
      if (gave_up) return;
      if (workers > 1 && !same_scale_) join(team);
      team.each(workers, [&](int w, int) { write_part(w); });
    });
    if (bad || gave_up) return bad ? End::bad_key : End::gave_up;
    for (int w = 0; w < workers; ++w) folds_[0]->end_part(*folds_[w], [&] { repair(); });
    folds_[0]->end_finish();
    return End::done;
  }

 private:
  int64_t first_of(int w) const { return layout_.updates * w / layout_.workers; }

  // The first values of some shares, where they are to be had quickly: all workers then begin with
  // the same fixed-point scale. False: they lie so far apart that one fixed-point scale is not
  // likely to do.
  bool prefetch_ahead() {
    constexpr int kMostShares = 8;
    if ((layout_.workers == 1 && !layout_.fixed_point_only) || layout_.fixed_point == nullptr)
      return true;
    const IdReader reader(transfer_, flat_, kernels_, layout_.places);
    const char* values = reader.values_of(outer_base(flat_, 0));
    if (values == nullptr) return true;
    MagnitudeRange range;
    for (int w = 0; w < std::min(layout_.workers, kMostShares); ++w) {
      const int64_t count = std::min<int64_t>(first_of(w + 1) - first_of(w), kTileItems);
      layout_.fixed_point->scan(values + first_of(w) * kernels_.value_size, count, range);
    }
    likely_ = range;
    return !layout_.fixed_point_only ||
           !CellBlock::needs_several_scales(range, *layout_.fixed_point);
  }

  bool fold_share(int w) {
    // Only the first share meets the old values.
    PlaceRange block = block_;
    block.include_self = block.include_self && w == 0;
    const int64_t cells = layout_.places.count();
    Carver carver(memory_ + bytes_ * w);
    CellBlock& fold = folds_[w].emplace(kernels_, layout_.fixed_point, cells, fold_updates(layout_),
                                        carver, layout_.fixed_point_only);
    fold.open(block, cells, transfer_.include_self);
    IdReader reader(transfer_, flat_, kernels_, layout_.places);
    reader.check_keys();
    const OuterBase base = outer_base(flat_, 0);
    bool good = true;
    const auto read = [&](int64_t first, int64_t last, auto&& f) {
      return good = reader.read(base, first, last, f);
    };
    const KeyedValues keys = reader.keys_of(base);
    if (layout_.workers > 1 || layout_.fixed_point_only) {
      fold.add_to_merge(keys, first_of(w), first_of(w + 1), read, likely_ ? &*likely_ : nullptr,
                        layout_.workers);
    } else {
      fold.add(keys, first_of(w), first_of(w + 1), read);
    }
    return good;
  }

  // Those of all shares together must stay below the tag.
  void cap_counts(const CellBlock& fold) const {
    uint32_t* counts = fold.counts();
    for (int64_t i = 0; counts != nullptr && i < layout_.places.count(); ++i) {
      counts[i] = std::min(counts[i], kCellTag / kMostWorkers - 1);
    }
  }

  int64_t part_of(int w) const { return layout_.places.count() * w / layout_.workers; }

  // Before the cells are merged, in which those residuals lie.
  void join_residuals() {
    for (int w = 1; w < layout_.workers; ++w) {
      folds_[0]->merge_residuals(*folds_[w]);
      folds_[0]->note_merged(*folds_[w]);
    }
    for (int w = 1; w < layout_.workers; ++w) folds_[0]->merge_residual_cells(*folds_[w]);
    folds_[0]->begin_finish();
  }
  // Where shares are not merged as they are written.
  void join(Team& team) {
    team.each(layout_.workers, [&](int w, int) { folds_[w]->leave_fixed_point(); });
    team.each(layout_.workers, [&](int w, int) {
      for (int other = 1; other < layout_.workers; ++other) {
        folds_[0]->merge(*folds_[other], part_of(w), part_of(w + 1));
      }
    });
    team.one([&] {
      for (int w = 1; w < layout_.workers; ++w) folds_[0]->note_merged(*folds_[w]);
      folds_[0]->begin_finish();
    });
  }
  void write_part(int w) {
    constexpr int64_t kCells = 2048;  // that stay in the first-level cache
    CellBlock& owner = *folds_[0];
    const int64_t end = part_of(w + 1);
    folds_[w]->begin_part(part_of(w));
    if (!same_scale_) return owner.finish_part(*folds_[w], end);
    for (int64_t at = part_of(w); at < end; at += kCells) {
      const int64_t last = std::min(at + kCells, end);
      for (int other = 1; other < layout_.workers; ++other) {
        owner.merge_fixed(*folds_[other], at, last);
      }
      owner.finish_part(*folds_[w], last);
    }
  }

  void repair() {
    CellBlock& owner = *folds_[0];
    parallel_team(std::min(layout_.workers, layout_.threads), [&](Team& team) {
      team.each(layout_.workers, [&](int w, int) {
        if (w > 0) folds_[w]->help(owner);
        IdReader reader(transfer_, flat_, kernels_, layout_.places);
        reader.read(outer_base(flat_, 0), first_of(w), first_of(w + 1),
                    [&](const uint32_t* ids, const char* values, int count) {
                      folds_[w]->repair_for(owner, ids, values, count);
                    });
      });
    });
    for (int w = 1; w < layout_.workers; ++w) owner.join_help(*folds_[w]);
  }

  const Transfer& transfer_;
  const Layout& layout_;
  const FoldKernels& kernels_;
  const Canonical flat_;
  PlaceRange block_;
  char* memory_;
  size_t bytes_;
  std::optional<MagnitudeRange> likely_;
  bool same_scale_ = false;  // shares are merged as integers of one scale
  std::array<std::optional<CellBlock>, kMostWorkers> folds_;
};

// Each worker finds the last updates of its share; those of later shares win.
class PrivateMoves {
 public:
  PrivateMoves(const Transfer& t, const Canonical& c, const Layout& layout, char* memory)
      : transfer_(t), canonical_(c), layout_(layout) {
    Carver carver(memory);
    for (int w = 0; w < layout.workers; ++w) found_[w].emplace(layout.places.count(), carver);
  }

  // False: there is a bad key, and nothing was written.
  bool run() {
    const int workers = layout_.workers;
    const int64_t places = layout_.places.count();
    std::atomic<bool> bad{false};
    parallel_team(workers, [&](Team& team) {
      team.each(workers, [&](int w, int) {
        IdReader reader(transfer_, canonical_, *layout_.kernels, layout_.places);
        reader.check_keys();
        const int64_t first = layout_.updates * w / workers;
        const int64_t last = layout_.updates * (w + 1) / workers;
        if (!found_[w]->find(reader, outer_base(canonical_, 0), first, last)) bad = true;
      });
      if (bad) return;
      team.each(workers,
                [&](int w, int) { write(places * w / workers, places * (w + 1) / workers); });
    });
    return !bad;
  }

 private:
  void write(int64_t first, int64_t last) const {
    const int64_t size = layout_.kernels->value_size;
    const OuterBase base = outer_base(canonical_, 0);
    const bool constant = transfer_.src.data == nullptr;
    const char* from = constant ? reinterpret_cast<const char*>(transfer_.scalar)
                                : transfer_.src.data + base.src * size;
    const int64_t step = constant ? 0 : canonical_.items[0].src * size;
    char* to = transfer_.dst.data + layout_.places.lowest() * size;
    for (int64_t place = first; place < last; ++place) {
      int64_t at = -1;
      for (int w = layout_.workers - 1; w >= 0 && at < 0; --w) at = (*found_[w])[place];
      if (at >= 0) {
        std::memcpy(to + place * layout_.places.step() * size, from + at * step,
                    static_cast<size_t>(size));
      }
    }
  }

  const Transfer& transfer_;
  const Canonical& canonical_;
  const Layout& layout_;
  std::array<std::optional<LastUpdates>, kMostWorkers> found_;
};

bool supports(const Transfer& t, const Canonical& c) {
  if (!is_fold(t)) return false;
  const Layout layout = layout_of(t, c, 1);
  const bool large = layout.fixed_point == nullptr && layout.kernels->long_size > 0;
  // The counts of many shares are capped: sums do not depend on them, means do.
  if (const int64_t shares = shares_for(layout.updates); shares > 1) {
    return t.reduce == Reduce::add && layout.kernels->merges && shares <= kMostWorkers &&
           layout.places.count() < kCellTag;
  }
  return layout.kernels->merges &&
         layout.places.count() <= (layout.fixed_point_only ? tuning::kPrivateFixedPointCells
                                   : large                 ? tuning::kPrivateSums
                                                           : tuning::kPrivateCells);
}

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const size_t bytes = worker_bytes(layout) * layout.workers;
  return layout.fixed_point_only ? std::max(bytes, k_partition.workspace(t, c, threads)) : bytes;
}

const Strategy* fallback(const Transfer& t, const Canonical& c, int threads) {
  return layout_of(t, c, threads).fixed_point_only ? &k_partition : nullptr;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const double cells = static_cast<double>(layout.places.count());
  const double updates = static_cast<double>(layout.updates);
  if (layout.moves) {
    return tuning::kCallNs + (layout.workers > 1 ? tuning::kTeamNs : 0) +
           cells * tuning::kLastPlaceNs + updates * tuning::kLastUpdateNs / layout.workers;
  }
  const double bytes = cells * cell_bytes(*layout.kernels, layout.fixed_point);
  const tuning::BlockNs ns = block_ns(*layout.kernels, layout.fixed_point,
                                      updates / (layout.workers * cells), t.include_self);
  const double size = over_budget(t, c, workspace(t, c, threads));
  const double all = bytes * layout.workers;
  const bool sent = layout.fixed_point != nullptr && layout.fixed_point->words == 1;
  const double miss = sent ? tuning::prefetched_miss_ns(bytes, all) : tuning::miss_ns(bytes);
  const double update = ns.update + miss + decode_ns(t, c);
  if (layout.workers == 1) {  // as "block" does, where that has no room for it
    return size + tuning::kCallNs + tuning::kBlockCallNs + 3 * tuning::kTaskNs + cells * ns.cell +
           updates * update;
  }
  const bool counts = layout.fixed_point == nullptr && layout.kernels->extremes.open == nullptr &&
                      !(layout.kernels->block.uncounted && t.include_self);
  const double cell = counts ? tuning::kMergeNs : tuning::kJoinNs;
  const double far = all > tuning::kFarBytes ? all * tuning::kJoinFarByteNs : 0;
  return size + tuning::kCallNs + tuning::kTeamNs + cells * cell + far +
         updates * update / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  if (!IdReader::can_check(t, flatten(t), layout.places)) check_indices(t);
  using End = PrivateFold::End;
  if (layout.moves) {
    if (!PrivateMoves(t, c, layout, memory).run()) check_indices(t);  // says which key it is
    return;
  }
  const End end = PrivateFold(t, layout, memory, worker_bytes(layout)).run();
  if (end == End::bad_key) check_indices(t);
  if (end == End::gave_up) k_partition.run(t, c, plan, memory);
}

}  // namespace

const Strategy k_private = {
    .name = "private",
    .summary = "every worker its own cells for the whole destination, merged at the end",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .fallback = fallback,
    .checks_keys = true,
};

}  // namespace sow::detail
