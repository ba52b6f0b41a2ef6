// Strategy "private": every worker folds its share of the updates in cells of its own for the whole
// destination; the cells are merged in the order of the shares.
#include "core/parallel.h"
#include "cpu/cell_map.h"
#include "cpu/strategies.h"
#include "cpu/transfer_facts.h"
#include "cpu/tuning.h"
#include "cpu/update_reader.h"

namespace sow::detail {

namespace {

struct Layout {
  const FoldKernels* kernels;
  PlaceCode places;
  int64_t updates;
  int workers;
};

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout{fold_kernels(t.dtype, t.reduce), all_places(t, c), c.outer_count * c.item_count * c.row.size, threads};
  if (layout.updates < tuning::kSerialUpdates) layout.workers = 1;
  return layout;
}

class PrivateFold {
 public:
  PrivateFold(const Transfer& t, const Layout& layout, char* memory, size_t bytes)
      : transfer_(t), layout_(layout), kernels_(*layout.kernels), flat_(flatten(t)), memory_(memory), bytes_(bytes) {}

  void run() {
    const int workers = layout_.workers;
    parallel_run(workers, [&](int w, int) {
      CellFold fold = fold_of(w);
      fold.clear();
      // Only the first share meets the old values.
      const Destination dst{transfer_.dst.data, 1, transfer_.include_self && w == 0};
      read_share(w, [&](const Updates& updates) { fold.add_untracked(dst, updates); });
    });
    int64_t refused[kMostWorkers] = {};
    parallel_run(workers, [&](int w, int) { refused[w] = merge_range(w); });
    for (int w = 0; w < workers; ++w) repair(w, refused[w]);
  }

  static constexpr int kMostWorkers = 64;

 private:
  CellFold fold_of(int w) const {
    Carver carver(memory_ + bytes_ * w);
    return CellFold(kernels_, layout_.places.count(), layout_.places.count(), 1, carver);
  }
  Destination destination() const { return {transfer_.dst.data, 1, transfer_.include_self}; }

  template <class F>
  void read_share(int w, F&& f) const {
    UpdateReader reader(transfer_, flat_, kernels_);
    uint32_t cells[kTileItems];
    const OuterBase base = outer_base(flat_, 0);
    const int64_t first = layout_.updates * w / layout_.workers, last = layout_.updates * (w + 1) / layout_.workers;
    reader.read(base, first, last, 0, 1, [&](Updates& updates) {
      for (int i = 0; i < updates.count; ++i) {
        cells[i] = static_cast<uint32_t>(layout_.places.code_of(updates.offsets[i]));
      }
      updates.cells = cells;
      f(updates);
    });
  }

  // Merges a range of cells of all workers into the first one's and writes it; returns how many
  // cells refused: their list lies in the touched list of worker w.
  int64_t merge_range(int w) const {
    const CellFold first = fold_of(0);
    const Touched list = fold_of(w).touched();
    const int64_t cells = layout_.places.count();
    const int64_t begin = cells * w / layout_.workers, end = cells * (w + 1) / layout_.workers;
    for (int other = 1; other < layout_.workers; ++other) {
      const CellFold theirs = fold_of(other);
      kernels_.merge(first.cells(), theirs.cells(), destination(), used_cells(theirs, list, begin, end));
    }
    return kernels_.finish(first.cells(), destination(), used_cells(first, list, begin, end));
  }
  Touched used_cells(const CellFold& fold, Touched list, int64_t begin, int64_t end) const {
    list.count = 0;
    for (int64_t cell = begin; cell < end; ++cell) {
      list.cells[list.count] = static_cast<uint32_t>(cell);
      list.offsets[list.count] = layout_.places.offset_of(cell);
      list.count += fold.cells().counts[cell] != 0;
    }
    return list;
  }

  void repair(int w, int64_t refused) const {
    const CellFold first = fold_of(0);
    Touched list = fold_of(w).touched();
    while (refused > 0) {
      list.count = std::min(refused, first.slots());
      kernels_.repair_begin(first.cells(), list, first.repairs());
      parallel_run(layout_.workers, [&](int worker, int) {
        const CellFold mine = fold_of(worker);
        if (worker > 0) kernels_.repair_clear(mine.cells(), list.count, mine.repairs());
        read_share(worker, [&](const Updates& updates) {
          kernels_.repair_add(first.cells(), updates, mine.repairs());
        });
      });
      for (int other = 1; other < layout_.workers; ++other) {
        kernels_.repair_merge(first.cells(), list.count, first.repairs(), fold_of(other).repairs());
      }
      kernels_.repair_end(first.cells(), destination(), list, first.repairs());
      refused -= list.count;
      list.cells += list.count;
      list.offsets += list.count;
    }
  }

  const Transfer& transfer_;
  const Layout& layout_;
  const FoldKernels& kernels_;
  const Canonical flat_;
  char* memory_;
  size_t bytes_;
};

size_t worker_bytes(const Layout& layout) {
  Carver carver(nullptr);
  CellFold fold(*layout.kernels, layout.places.count(), layout.places.count(), 1, carver);
  return carver.used();
}

bool supports(const Transfer& t, const Canonical& c) {
  if (!is_fold(t)) return false;
  const Layout layout = layout_of(t, c, 1);
  return layout.kernels->merges && layout.updates < kCellTag && layout.places.count() <= tuning::kPrivateCells;
}

int workers_for(int threads) { return std::min(threads, PrivateFold::kMostWorkers); }

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, workers_for(threads));
  return worker_bytes(layout) * layout.workers;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, workers_for(threads));
  const double cells = static_cast<double>(layout.places.count());
  const double bytes = cells * (4 + layout.kernels->state_size);
  const double each = tuning::kPrivateNs + tuning::miss_ns(bytes);
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + (layout.workers > 1 ? 2 * tuning::kRegionNs : 0) + cells * tuning::kMergeNs +
         static_cast<double>(layout.updates) * each / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, workers_for(plan.threads));
  PrivateFold(t, layout, memory, worker_bytes(layout)).run();
}

}  // namespace

const Strategy k_private = {
    .name = "private",
    .says = "every worker its own cells for the whole destination, merged at the end",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
};

}  // namespace sow::detail
