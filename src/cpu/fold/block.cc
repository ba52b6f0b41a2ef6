// SPDX-License-Identifier: Apache-2.0
// Strategy "block": one outer position after the other, its places in cells, or several at once
// where each has few updates; workers share the positions.
#include <cmath>
#include <optional>

#include "cpu/common/outer_groups.h"
#include "cpu/common/prefetch.h"
#include "cpu/common/work_queue.h"
#include "cpu/fold/cell_block.h"
#include "cpu/fold/cell_map.h"
#include "cpu/fold/unique_fold.h"
#include "cpu/read/id_reader.h"
#include "cpu/read/key_check.h"
#include "cpu/strategies.h"
#include "cpu/transfer_facts.h"

namespace sow::detail {

namespace {

enum class Way {
  block,   // most places are met: one sweep opens all cells, one writes them
  sparse,  // few are: places with one update need no cell
  mapped,  // rows, and few updates of very many places
};

struct Layout {
  const FoldKernels* kernels;
  OuterGroups groups;
  std::optional<Canonical> grouped;
  OffsetIds places;
  Way way;
  bool plain;  // tried in plain float64s first
  bool hashed;
  int64_t most;   // updates that one place may meet
  int64_t cells;  // per worker
  int64_t touched;
  int width;  // columns at a time
  int64_t blocks;
  int64_t tasks;  // outer positions, or groups of them, x column blocks
  int workers;

  // Its outer positions are what one block is for.
  const Canonical& canonical(const Canonical& c) const { return grouped ? *grouped : c; }
};

Layout layout_of(const Transfer& t, const Canonical& ungrouped, int threads) {
  Layout layout;
  layout.kernels = fold_kernels(t.dtype, t.reduce);
  layout.places = item_places(t);
  layout.most = ungrouped.item_count;
  layout.groups = OuterGroups(t, ungrouped, layout.places, threads);
  if (layout.groups.any()) {
    layout.places = layout.groups.places(t, ungrouped);
    layout.grouped = layout.groups.grouped(ungrouped);
  }
  const Canonical& c = layout.canonical(ungrouped);
  const int64_t places = layout.places.count();
  layout.width = static_cast<int>(std::min<int64_t>(c.row.size, kMaxCellWidth));
  layout.blocks = (c.row.size + layout.width - 1) / layout.width;
  layout.tasks = c.outer_count * layout.blocks;
  const int64_t updates = layout.tasks * c.item_count * layout.width;
  layout.workers = updates < tuning::kSerialUpdates
                       ? 1
                       : static_cast<int>(std::min<int64_t>(threads, layout.tasks));
  layout.touched = std::min(c.item_count, places);
  // Cells are emptied once a worker, a hash table once a task.
  const int64_t runs = (layout.tasks + layout.workers - 1) / layout.workers;
  layout.hashed =
      c.item_count <= tuning::kHashedItems && places > tuning::kHashedPlaces * c.item_count * runs;
  layout.plain = layout.width == 1 && folds_plainly(t, *layout.kernels) &&
                 c.item_count <= tuning::kPlainUpdates * places &&
                 places <= tuning::kPlainPlaces * c.item_count &&
                 IdReader::is_plain(t, c, layout.places);
  const int64_t sparse = layout.plain ? tuning::kPlainPlaces : tuning::kSparsePlaces;
  layout.way = layout.hashed || layout.width > 1 ? Way::mapped
               : places > sparse * c.item_count  ? Way::sparse
                                                 : Way::block;
  layout.cells = layout.hashed ? layout.touched : places;
  return layout;
}

class Worker {
 public:
  Worker(const Transfer& t, const Canonical& ungrouped, const Layout& layout, Carver& carver)
      : layout_(layout),
        kernels_(*layout.kernels),
        transfer_(t),
        canonical_(layout.canonical(ungrouped)) {
    const Canonical& c = canonical_;
    if (layout.way == Way::block) {
      Carver plain = carver;  // either is in use: both lie in the same memory
      if (layout.plain) {
        plain_ = plain.take<double>(layout.cells * kernels_.plain.words);
        ids_ = plain.take<uint32_t>(c.item_count);
      }
      block_.emplace(kernels_, fixed_point_kernels(t.dtype, t.reduce), layout.cells, c.item_count,
                     carver);
      if (plain.used() > carver.used())
        carver.take<char>(static_cast<int64_t>(plain.used() - carver.used()));
    }
    if (layout.way == Way::sparse) {
      unique_.emplace(UniqueFold::for_each_of(kernels_, layout.cells, c.item_count,
                                              IdReader::is_plain(t, c, layout.places), carver));
    }
    if (layout.way == Way::mapped) {
      map_.emplace(layout.places, c.item_count, layout.hashed, carver);
      cells_.emplace(kernels_, layout.cells, layout.touched, layout.width, carver);
    }
  }

  // tasks(f) calls f(task) with those that are this worker's.
  template <class Tasks>
  void run(Tasks&& tasks) {
    if (layout_.way == Way::mapped) return run_mapped(tasks);
    if (layout_.way == Way::sparse) return run_unique(tasks);
    IdReader reader(transfer_, canonical_, kernels_, layout_.places);
    tasks([&](int64_t task) {
      const OuterBase base = outer_base(canonical_, task);
      run_block(PlaceRange{place_of(base), layout_.places.step(), transfer_.include_self}, base,
                task, reader);
    });
  }

  // The only position there is. Its keys are checked on the way: nothing is written before all were
  // met. False: one of them is bad.
  bool run_only() {
    IdReader reader(transfer_, canonical_, kernels_, layout_.places);
    reader.check_keys();
    const OuterBase base = outer_base(canonical_, 0);
    return run_block(PlaceRange{place_of(base), layout_.places.step(), transfer_.include_self},
                     base, 0, reader);
  }

 private:
  // What a task has of something that a full one has so much of.
  int64_t part_of(int64_t all, int64_t task) const {
    return all / layout_.groups.each() * layout_.groups.size_of(task);
  }
  char* place_of(const OuterBase& base) const {
    return transfer_.dst.data + (base.dst + layout_.places.lowest()) * kernels_.value_size;
  }

  template <class Tasks>
  void run_unique(Tasks&& tasks) {
    const int64_t bytes = layout_.cells * kernels_.value_size;
    const bool touched = is_touched(layout_.places.step(), layout_.cells, canonical_.item_count,
                                    kernels_.value_size);
    IdReader reader(transfer_, canonical_, kernels_, layout_.places);
    unique_->clear();
    const auto fold = [&](int64_t task, const OuterBase& base, const OuterBase* after) {
      const int64_t items = part_of(canonical_.item_count, task);
      PlaceRange block{place_of(base), layout_.places.step(), transfer_.include_self};
      block.far = !touched && bytes > tuning::kTouchedBytes;
      if (touched && after != nullptr) prefetch(block, *after, bytes, reader);
      if (const char* values = reader.values_of(base); values != nullptr) {
        reader.ids_of(base, items, unique_->cells());
        return unique_->run(block, values, items);
      }
      unique_->run(block, items, [&](auto&& f) { reader.read(base, 0, items, f); });
    };
    const auto begin = [&](int64_t task, const OuterBase& base) {
      if (touched) touch(place_of(base), part_of(bytes, task));
    };
    walk_with_next(canonical_, tasks, begin, fold);
  }

  void prefetch(PlaceRange& block, const OuterBase& after, int64_t bytes, const IdReader& reader) {
    block.to_prefetch = place_of(after);
    block.to_prefetch_bytes = bytes;
    const KeyedValues keys = reader.keys_of(after);
    if (keys.data == nullptr) return;
    block.prefetch_keys = keys.data;
    block.prefetch_keys_bytes = canonical_.item_count * (keys.int64_keys ? 8 : 4);
    block.prefetch_values = keys.values;
    block.prefetch_values_bytes = canonical_.item_count * kernels_.value_size;
  }

  bool run_block(const PlaceRange& block, const OuterBase& base, int64_t task, IdReader& reader) {
    const int64_t items = part_of(canonical_.item_count, task);
    if (plain_ != nullptr && plain_misses_ < kPlainMisses) {
      if (!reader.ids_of(base, items, ids_)) return false;
      const bool done = kernels_.plain.fold(block, part_of(layout_.cells, task), layout_.most,
                                            plain_, ids_, reader.values_of(base), items);
      plain_misses_ = done ? 0 : plain_misses_ + 1;
      if (done) return true;
    }
    bool good = true;
    block_->open(block, part_of(layout_.cells, task), block.include_self);
    block_->add(reader.keys_of(base), 0, items, [&](int64_t first, int64_t last, auto&& f) {
      return good = reader.read(base, first, last, f);
    });
    if (!good) return false;
    block_->finish([&] { reader.read(base, 0, items, CellBlock::RepairPass{*block_}); });
    return true;
  }

  template <class Tasks>
  void run_mapped(Tasks&& tasks) {
    UpdateReader reader(transfer_, canonical_, kernels_);
    cells_->clear();
    tasks([&](int64_t task) {
      const OuterBase base = outer_base(canonical_, task / layout_.blocks);
      const int64_t column = task % layout_.blocks * layout_.width;
      const int width =
          static_cast<int>(std::min<int64_t>(layout_.width, canonical_.row.size - column));
      const Destination dst{transfer_.dst.data + column * canonical_.row.dst * kernels_.value_size,
                            canonical_.row.dst, transfer_.include_self};
      const auto walk = [&](auto&& take) {
        const int64_t items = part_of(canonical_.item_count, task);
        reader.read(base, 0, items, column, width, [&](Updates& updates) {
          map_->map(base.dst, updates);
          take(updates);
        });
      };
      map_->clear();
      cells_->set_width(width);
      walk([&](const Updates& updates) { cells_->add(dst, updates); });
      cells_->finish(dst, walk);
    });
  }

  // So many blocks in a row that were not exact, and nobody tries again.
  static constexpr int kPlainMisses = 4;

  const Layout& layout_;
  const FoldKernels& kernels_;
  const Transfer& transfer_;
  const Canonical& canonical_;
  std::optional<CellBlock> block_;
  std::optional<UniqueFold> unique_;
  std::optional<CellMap> map_;
  std::optional<CellFold> cells_;
  double* plain_ = nullptr;
  uint32_t* ids_ = nullptr;
  int plain_misses_ = 0;
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
  Carver shared(nullptr);
  WorkQueue shares(layout.workers, shared);
  return worker_bytes(t, c, layout) * static_cast<size_t>(layout.workers) + shared.used();
}

// What one outer position and block of columns costs.
double task_ns(const Transfer& t, const Canonical& ungrouped, const Layout& layout) {
  const Canonical& c = layout.canonical(ungrouped);
  const FoldKernels& kernels = *layout.kernels;
  const double items = static_cast<double>(c.item_count), cells = static_cast<double>(layout.cells);
  if (layout.way == Way::block) {
    if (layout.plain) {
      const int words = kernels.plain.words;
      const tuning::BlockNs& ns = words == 1 ? tuning::kPlainBlock : tuning::kPlainPairBlock;
      return items * (ns.update + tuning::miss_ns(8 * cells * words)) + cells * ns.cell;
    }
    const FixedPointKernels* fixed_point = fixed_point_kernels(t.dtype, t.reduce);
    const tuning::BlockNs ns = block_ns(kernels, fixed_point, items / cells, t.include_self);
    return items * (ns.update + tuning::miss_ns(cells * cell_bytes(kernels, fixed_point))) +
           cells * ns.cell;
  }
  if (layout.way == Way::sparse) {
    const bool near =
        is_touched(layout.places.step(), layout.cells, c.item_count, kernels.value_size);
    // A place that is not near is missed twice, with its epoch mark.
    const double reach = near ? cells : cells * static_cast<double>(c.outer_count);
    const double miss = tuning::miss_ns(reach * kernels.value_size);
    return items * (tuning::kSparseNs + (near ? miss : 2 * miss));
  }
  const double width = layout.width;
  if (layout.width == 1) {
    const double bytes = cells * (4 + kernels.state_size);
    return items *
           (tuning::kCellNs + tuning::miss_ns(bytes) + (layout.hashed ? tuning::kHashNs : 0));
  }
  const tuning::CellColumnNs& ns =
      kernels.long_size == 0
          ? (t.dtype == DType::float64 ? tuning::kDoubleColumn : tuning::kNumberColumn)
      : kernels.value_size <= 4 ? tuning::kSumColumn
                                : tuning::kDoubleSumColumn;
  const double places = static_cast<double>(layout.places.count());
  const double met = places * (1 - std::exp(-items / places));
  const double bytes = met * width * kernels.state_size;
  return items * (tuning::kCellRowNs + ns.item * width + tuning::miss_ns(bytes) +
                  (layout.hashed ? tuning::kHashNs : 0)) +
         met * (tuning::kCellRowNs + ns.cell * width);
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const size_t bytes = worker_bytes(t, c, layout);
  const double tasks = static_cast<double>(layout.tasks);
  const Canonical& tasked = layout.canonical(c);
  const double keys = static_cast<double>(tasked.item_count) * far_keys_ns(tasked);
  return over_budget(t, c, bytes * static_cast<size_t>(layout.workers)) + tuning::kCallNs +
         tuning::kBlockCallNs + (layout.workers > 1 ? tuning::kRegionNs : 0) +
         (layout.way == Way::block ? 0 : static_cast<double>(layout.cells) * tuning::kEmptyCellNs) +
         tasks * (tuning::kTaskNs + task_ns(t, c, layout) + keys) / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  if (layout.way == Way::block && layout.tasks == 1 &&
      IdReader::can_check(t, layout.canonical(c), layout.places)) {
    bool good = true;
    parallel_run(1, [&](int, int) {
      Carver carver(memory);
      good = Worker(t, c, layout, carver).run_only();
    });
    if (!good) check_indices(t);  // says which key it is
    return;
  }
  const size_t bytes = worker_bytes(t, c, layout);
  Carver shared(memory + bytes * static_cast<size_t>(layout.workers));
  WorkQueue shares(layout.workers, shared);
  shares.open(layout.tasks);
  const int64_t some = WorkQueue::some_of(layout.canonical(c).item_count * layout.width);
  run_checked(t, layout.workers, [&](int index, int) {
    Carver carver(memory + bytes * static_cast<size_t>(index));
    Worker worker(t, c, layout, carver);
    worker.run([&](auto&& f) { shares.run(index, f, some); });
  });
}

}  // namespace

const Strategy k_block = {
    .name = "block",
    .summary = "cells for the places of one outer position at a time",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .checks_keys = true,
};

}  // namespace sow::detail
