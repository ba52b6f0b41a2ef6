// Strategy "tile": one outer position after the other, folded in cells; workers share the positions.
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
  int64_t cells;  // per worker
  int64_t touched;
  int width;      // columns at a time
  int64_t tasks;  // outer positions x column blocks
  int64_t blocks;
  bool hashed;
  int workers;
};

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout;
  layout.kernels = fold_kernels(t.dtype, t.reduce);
  layout.places = item_places(t);
  layout.width = static_cast<int>(std::min<int64_t>(c.row.size, kMaxCellWidth));
  layout.blocks = (c.row.size + layout.width - 1) / layout.width;
  layout.tasks = c.outer_count * layout.blocks;
  const int64_t updates = layout.tasks * c.item_count * layout.width;
  const bool serial = updates < tuning::kSerialUpdates;
  layout.workers = serial ? 1 : static_cast<int>(std::min<int64_t>(threads, layout.tasks));
  const int64_t runs = (layout.tasks + layout.workers - 1) / layout.workers;
  layout.touched = std::min(c.item_count, layout.places.count());
  // Dense cells are emptied once a worker, a hash table once a task.
  layout.hashed = c.item_count <= tuning::kHashedItems && layout.places.count() > 8 * c.item_count * runs;
  layout.cells = layout.hashed ? layout.touched : layout.places.count();
  return layout;
}

class Worker {
 public:
  Worker(const Transfer& t, const Canonical& c, const Layout& layout, Carver& carver)
      : layout_(layout),
        map_(layout.places, c.item_count, layout.hashed, carver),
        fold_(*layout.kernels, layout.cells, layout.touched, layout.width, carver),
        transfer_(t),
        canonical_(c) {}

  void run(int64_t first, int64_t last) {
    UpdateReader reader(transfer_, canonical_, *layout_.kernels);
    fold_.clear();
    for (int64_t task = first; task < last; ++task) {
      const OuterBase base = outer_base(canonical_, task / layout_.blocks);
      const int64_t column = task % layout_.blocks * layout_.width;
      const int width = static_cast<int>(std::min<int64_t>(layout_.width, canonical_.row.size - column));
      run_task(reader, base, column, width);
    }
  }

 private:
  void run_task(UpdateReader& reader, const OuterBase& base, int64_t column, int width) {
    Destination dst{transfer_.dst.data + column * canonical_.row.dst * layout_.kernels->value_size,
                    canonical_.row.dst, transfer_.include_self};
    const auto walk = [&](auto&& take) {
      reader.read(base, 0, canonical_.item_count, column, width, [&](Updates& updates) {
        map_.map(base.dst, updates);
        take(updates);
      });
    };
    map_.clear();
    fold_.set_width(width);
    walk([&](const Updates& updates) { fold_.add(dst, updates); });
    fold_.finish(dst, walk);
  }

  const Layout& layout_;
  CellMap map_;
  CellFold fold_;
  const Transfer& transfer_;
  const Canonical& canonical_;
};

size_t worker_bytes(const Transfer& t, const Canonical& c, const Layout& layout) {
  Carver carver(nullptr);
  Worker worker(t, c, layout, carver);
  return carver.used();
}

bool supports(const Transfer& t, const Canonical& c) {
  if (!is_fold(t) || c.item_count >= kCellTag) return false;
  const Layout layout = layout_of(t, c, 1);
  if (layout.cells >= kCellTag) return false;
  return worker_bytes(t, c, layout) <= workspace_allowed(t, c);
}

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  return worker_bytes(t, c, layout) * layout.workers;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const double updates = static_cast<double>(c.item_count) * static_cast<double>(layout.tasks);
  const double bytes = static_cast<double>(layout.cells) * (4 + layout.width * layout.kernels->state_size);
  const double each = tuning::kCellNs + tuning::kCellColumnNs * layout.width + tuning::miss_ns(bytes) +
                      (layout.hashed ? tuning::kHashNs : 0);
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + static_cast<double>(layout.tasks) * tuning::kTaskNs +
         static_cast<double>(layout.cells) * 0.1 + updates * each / layout.workers +
         (layout.workers > 1 ? tuning::kRegionNs : 0);
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  const size_t bytes = worker_bytes(t, c, layout);
  parallel_run(layout.workers, [&](int index, int count) {
    Carver carver(memory + bytes * index);
    Worker worker(t, c, layout, carver);
    worker.run(layout.tasks * index / count, layout.tasks * (index + 1) / count);
  });
}

}  // namespace

const Strategy k_tile = {
    .name = "tile",
    .says = "cells for the places of one outer position at a time",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
};

}  // namespace sow::detail
