// Strategy "private": every worker folds its share of the updates in cells of its own for the whole
// destination; the cells are merged in the order of the shares.
#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "core/parallel.h"
#include "cpu/block_fold.h"
#include "cpu/code_reader.h"
#include "cpu/last_updates.h"
#include "cpu/strategies.h"
#include "cpu/transfer_facts.h"

namespace sow::detail {

namespace {

constexpr int kMostWorkers = 64;

struct Layout {
  const FoldKernels* kernels;
  const WindowKernels* window;
  PlaceCode places;
  int64_t updates;
  int workers;
  bool moves;   // what was moved last is found from the end
  bool narrow;  // so many cells that sums have windows only
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
  BlockFold fold(*layout.kernels, layout.window, layout.places.count(), fold_updates(layout),
                 carver, layout.narrow);
  return carver.used();
}

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout{fold_kernels(t.dtype, t.reduce),
                window_kernels(t.dtype, t.reduce),
                all_places(t, c),
                c.outer_count * c.item_count * c.row.size,
                std::min(threads, kMostWorkers),
                false,
                false};
  layout.moves = t.reduce == Reduce::assign && c.outer_count == 1 && c.row.size == 1 &&
                 CodeReader::can_decode(t, c, layout.places);
  if (layout.updates < tuning::kSerialUpdates) layout.workers = 1;
  layout.narrow = layout.window != nullptr && layout.places.count() > tuning::kWideCells &&
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
    if (!look_ahead()) return End::gave_up;
    std::atomic<bool> bad{false}, gave_up{false};
    parallel_team(workers, [&](Team& team) {
      team.each(workers, [&](int w, int) {
        if (!fold_share(w)) bad = true;
        if (folds_[w]->gave_up()) gave_up = true;
      });
      if (bad || gave_up) return;
      team.one([&] {
        in_window_ = workers > 1 && BlockFold::share_window(folds_, workers);
        if (in_window_) join_rests();
        if (workers == 1) folds_[0]->begin_finish();
        if (workers > 1 && !in_window_ && layout_.narrow) gave_up = true;
      });
      if (gave_up) return;
      if (workers > 1 && !in_window_) join(team);
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
  // the same window. False: they lie so far apart that one window is not likely to do.
  bool look_ahead() {
    constexpr int kMostShares = 8;
    if ((layout_.workers == 1 && !layout_.narrow) || layout_.window == nullptr) return true;
    const CodeReader reader(transfer_, flat_, kernels_, layout_.places);
    const char* values = reader.values_of(outer_base(flat_, 0));
    if (values == nullptr) return true;
    WindowRange range;
    for (int w = 0; w < std::min(layout_.workers, kMostShares); ++w) {
      const int64_t count = std::min<int64_t>(first_of(w + 1) - first_of(w), kTileItems);
      layout_.window->scan(values + first_of(w) * kernels_.value_size, count, range);
    }
    likely_ = range;
    return !layout_.narrow || !BlockFold::is_wide(range, *layout_.window);
  }

  bool fold_share(int w) {
    // Only the first share meets the old values.
    Block block = block_;
    block.include_self = block.include_self && w == 0;
    const int64_t cells = layout_.places.count();
    Carver carver(memory_ + bytes_ * w);
    BlockFold& fold = folds_[w].emplace(kernels_, layout_.window, cells, fold_updates(layout_),
                                        carver, layout_.narrow);
    fold.open(block, cells, transfer_.include_self);
    CodeReader reader(transfer_, flat_, kernels_, layout_.places);
    reader.check_keys();
    const OuterBase base = outer_base(flat_, 0);
    bool good = true;
    const auto read = [&](int64_t first, int64_t last, auto&& f) {
      return good = reader.read(base, first, last, f);
    };
    const KeyedValues keys = reader.keys_of(base);
    if (layout_.workers > 1 || layout_.narrow) {
      fold.add_to_merge(keys, first_of(w), first_of(w + 1), read, likely_ ? &*likely_ : nullptr,
                        layout_.workers);
    } else {
      fold.add(keys, first_of(w), first_of(w + 1), read);
    }
    return good;
  }

  int64_t part_of(int w) const { return layout_.places.count() * w / layout_.workers; }

  // Before the cells are merged, in which those rests lie.
  void join_rests() {
    for (int w = 1; w < layout_.workers; ++w) {
      folds_[0]->merge_rests(*folds_[w]);
      folds_[0]->note_merged(*folds_[w]);
    }
    for (int w = 1; w < layout_.workers; ++w) folds_[0]->merge_rest_cells(*folds_[w]);
    folds_[0]->begin_finish();
  }
  // Where shares are not merged as they are written.
  void join(Team& team) {
    team.each(layout_.workers, [&](int w, int) { folds_[w]->leave_window(); });
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
    BlockFold& owner = *folds_[0];
    const int64_t end = part_of(w + 1);
    folds_[w]->begin_part(part_of(w));
    if (!in_window_) return owner.finish_part(*folds_[w], end);
    for (int64_t at = part_of(w); at < end; at += kCells) {
      const int64_t last = std::min(at + kCells, end);
      for (int other = 1; other < layout_.workers; ++other) {
        owner.merge_units(*folds_[other], at, last);
      }
      owner.finish_part(*folds_[w], last);
    }
  }

  void repair() {
    BlockFold& owner = *folds_[0];
    parallel_run(layout_.workers, [&](int w, int) {
      if (w > 0) folds_[w]->help(owner);
      CodeReader reader(transfer_, flat_, kernels_, layout_.places);
      reader.read(outer_base(flat_, 0), first_of(w), first_of(w + 1),
                  [&](const uint32_t* codes, const char* values, int count) {
                    folds_[w]->add_again_for(owner, codes, values, count);
                  });
    });
    for (int w = 1; w < layout_.workers; ++w) owner.join_help(*folds_[w]);
  }

  const Transfer& transfer_;
  const Layout& layout_;
  const FoldKernels& kernels_;
  const Canonical flat_;
  Block block_;
  char* memory_;
  size_t bytes_;
  std::optional<WindowRange> likely_;
  bool in_window_ = false;  // shares are merged as the numbers of one window
  std::array<std::optional<BlockFold>, kMostWorkers> folds_;
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
        CodeReader reader(transfer_, canonical_, *layout_.kernels, layout_.places);
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
  const bool large = layout.window == nullptr && layout.kernels->long_size > 0;
  return layout.kernels->merges && layout.updates < kCellTag &&
         layout.places.count() <= (layout.narrow ? tuning::kPrivateWindows
                                   : large       ? tuning::kPrivateSums
                                                 : tuning::kPrivateCells);
}

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const size_t bytes = worker_bytes(layout) * layout.workers;
  return layout.narrow ? std::max(bytes, k_partition.workspace(t, c, threads)) : bytes;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const double cells = static_cast<double>(layout.places.count());
  const double updates = static_cast<double>(layout.updates);
  if (layout.moves) {
    return tuning::kCallNs + (layout.workers > 1 ? tuning::kTeamNs : 0) +
           cells * tuning::kLastPlaceNs + updates * tuning::kLastUpdateNs / layout.workers;
  }
  const double bytes = cells * cell_bytes(*layout.kernels, layout.window);
  const tuning::BlockNs ns =
      block_ns(*layout.kernels, layout.window, updates / (layout.workers * cells));
  const double size = over_budget(t, c, workspace(t, c, threads));
  const double all = bytes * layout.workers;
  const bool sent = layout.window != nullptr && layout.window->words == 1;
  const double miss = sent ? tuning::sent_miss_ns(bytes, all) : tuning::miss_ns(bytes);
  const double update = ns.update + miss + decode_ns(t, c);
  if (layout.workers == 1) {  // as "tile" does, where that has no room for it
    return size + tuning::kCallNs + tuning::kTileNs + 3 * tuning::kTaskNs + cells * ns.cell +
           updates * update;
  }
  const bool counts = layout.window == nullptr && layout.kernels->open_extremes == nullptr;
  const double cell = counts ? tuning::kMergeNs : tuning::kJoinNs;
  const double far = all > tuning::kFarBytes ? all * tuning::kJoinFarByteNs : 0;
  return size + tuning::kCallNs + tuning::kTeamNs + cells * cell + far +
         updates * update / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  if (!CodeReader::can_check(t, flatten(t), layout.places)) check_indices(t);
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
    .says = "every worker its own cells for the whole destination, merged at the end",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .checks_keys = true,
};

}  // namespace sow::detail
