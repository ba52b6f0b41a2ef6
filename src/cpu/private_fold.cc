// Strategy "private": every worker folds its share of the updates in cells of its own for the whole
// destination; the cells are merged in the order of the shares.
#include <array>
#include <atomic>
#include <optional>

#include "core/parallel.h"
#include "cpu/block_fold.h"
#include "cpu/code_reader.h"
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
};

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout{fold_kernels(t.dtype, t.reduce), window_kernels(t.dtype, t.reduce),
                all_places(t, c), c.outer_count * c.item_count * c.row.size,
                std::min(threads, kMostWorkers)};
  if (layout.updates < tuning::kSerialUpdates) layout.workers = 1;
  return layout;
}

// What a worker's fold must be ready for: shares that are merged hold accumulators as well.
int64_t fold_updates(const Layout& layout) {
  return layout.workers > 1 ? INT64_MAX : layout.updates;
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

  // False: there is a bad key, and nothing was written.
  bool run() {
    const int workers = layout_.workers;
    const int64_t cells = layout_.places.count();
    std::atomic<bool> bad{false};
    parallel_team(workers, [&](Team& team) {
      team.each(workers, [&](int w, int) {
        if (!fold_share(w)) bad = true;
      });
      if (bad || workers == 1) return;
      team.each(workers, [&](int w, int) {
        for (int other = 1; other < workers; ++other) {
          folds_[0]->merge(*folds_[other], cells * w / workers, cells * (w + 1) / workers);
        }
      });
    });
    if (bad) return false;
    for (int other = 1; other < workers; ++other) folds_[0]->note_merged(*folds_[other]);
    folds_[0]->finish([&] { repair(); });
    return true;
  }

 private:
  int64_t first_of(int w) const { return layout_.updates * w / layout_.workers; }

  bool fold_share(int w) {
    // Only the first share meets the old values.
    Block block = block_;
    block.include_self = block.include_self && w == 0;
    const int64_t cells = layout_.places.count();
    Carver carver(memory_ + bytes_ * w);
    BlockFold& fold =
        folds_[w].emplace(kernels_, layout_.window, cells, fold_updates(layout_), carver);
    fold.open(block, cells, transfer_.include_self);
    CodeReader reader(transfer_, flat_, kernels_, layout_.places);
    reader.check_keys();
    const OuterBase base = outer_base(flat_, 0);
    bool good = true;
    fold.add(
        first_of(w), first_of(w + 1), layout_.workers > 1,
        [&](int64_t first, int64_t last, auto&& f) {
          good = good && reader.read(base, first, last, f);
        },
        [&](int64_t first, int64_t last, auto&& f) { reader.read_values(base, first, last, f); });
    return good;
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
  std::array<std::optional<BlockFold>, kMostWorkers> folds_;
};

size_t worker_bytes(const Layout& layout) {
  Carver carver(nullptr);
  BlockFold fold(*layout.kernels, layout.window, layout.places.count(), fold_updates(layout),
                 carver);
  return carver.used();
}

bool supports(const Transfer& t, const Canonical& c) {
  if (!is_fold(t)) return false;
  const Layout layout = layout_of(t, c, 1);
  return layout.kernels->merges && layout.updates < kCellTag &&
         layout.places.count() <= tuning::kPrivateCells;
}

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  return worker_bytes(layout) * layout.workers;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  if (layout.workers == 1) return tuning::kNeverNs;  // "tile" does that
  const double cells = static_cast<double>(layout.places.count());
  const double bytes = cells * (layout.window != nullptr ? 8 : 4 + layout.kernels->state_size);
  const tuning::BlockNs ns = block_ns(*layout.kernels, layout.window);
  const double batches =
      1 + static_cast<double>(layout.updates) / (layout.workers * 4.0 * tuning::kWindowUpdates);
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + 2 * tuning::kRegionNs +
         cells * (tuning::kMergeNs + (layout.window != nullptr ? batches * tuning::kFlushNs : 0)) +
         static_cast<double>(layout.updates) *
             (ns.update + tuning::miss_ns(bytes) + decode_ns(t, c)) / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  if (!CodeReader::can_check(t, flatten(t), layout.places)) check_indices(t);
  if (!PrivateFold(t, layout, memory, worker_bytes(layout)).run()) check_indices(t);
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
