// Strategy "tile": one outer position after the other, its places in cells; workers share the
// positions.
#include <cmath>
#include <optional>

#include "cpu/block_fold.h"
#include "cpu/cell_map.h"
#include "cpu/code_reader.h"
#include "cpu/key_check.h"
#include "cpu/singles_fold.h"
#include "cpu/strategies.h"
#include "cpu/task_shares.h"
#include "cpu/touch.h"
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
  PlaceCode places;
  Way way;
  bool hashed;
  int64_t cells;  // per worker
  int64_t touched;
  int width;  // columns at a time
  int64_t blocks;
  int64_t tasks;  // outer positions x column blocks
  int workers;
};

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout;
  layout.kernels = fold_kernels(t.dtype, t.reduce);
  layout.places = item_places(t);
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
  layout.way = layout.hashed || layout.width > 1               ? Way::mapped
               : places > tuning::kSparsePlaces * c.item_count ? Way::sparse
                                                               : Way::block;
  layout.cells = layout.hashed ? layout.touched : places;
  return layout;
}

class Worker {
 public:
  Worker(const Transfer& t, const Canonical& c, const Layout& layout, Carver& carver)
      : layout_(layout), kernels_(*layout.kernels), transfer_(t), canonical_(c) {
    if (layout.way == Way::block)
      block_.emplace(kernels_, window_kernels(t.dtype, t.reduce), layout.cells, c.item_count,
                     carver);
    if (layout.way == Way::sparse) {
      singles_.emplace(SinglesFold::for_each_of(kernels_, layout.cells, c.item_count,
                                                CodeReader::is_plain(t, c, layout.places), carver));
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
    if (layout_.way == Way::sparse) return run_singles(tasks);
    CodeReader reader(transfer_, canonical_, kernels_, layout_.places);
    tasks([&](int64_t task) {
      const OuterBase base = outer_base(canonical_, task);
      run_block(Block{place_of(base), layout_.places.step(), transfer_.include_self}, base, reader);
    });
  }

  // The only position there is. Its keys are checked on the way: nothing is written before all were
  // met. False: one of them is bad.
  bool run_only() {
    CodeReader reader(transfer_, canonical_, kernels_, layout_.places);
    reader.check_keys();
    const OuterBase base = outer_base(canonical_, 0);
    return run_block(Block{place_of(base), layout_.places.step(), transfer_.include_self}, base,
                     reader);
  }

 private:
  char* place_of(const OuterBase& base) const {
    return transfer_.dst.data + (base.dst + layout_.places.lowest()) * kernels_.value_size;
  }

  template <class Tasks>
  void run_singles(Tasks&& tasks) {
    const int64_t items = canonical_.item_count, bytes = layout_.cells * kernels_.value_size;
    const bool touched =
        is_touched(layout_.places.step(), layout_.cells, items, kernels_.value_size);
    CodeReader reader(transfer_, canonical_, kernels_, layout_.places);
    singles_->clear();
    const auto fold = [&](const OuterBase& base, const OuterBase* after) {
      Block block{place_of(base), layout_.places.step(), transfer_.include_self};
      block.far = !touched && bytes > tuning::kTouchedBytes;
      if (touched && after != nullptr) send_for(block, *after, bytes, reader);
      if (const char* values = reader.values_of(base); values != nullptr) {
        reader.codes_of(base, singles_->cells());
        return singles_->run(block, values, items);
      }
      singles_->run(block, items, [&](auto&& f) { reader.read(base, 0, items, f); });
    };
    const auto begin = [&](const OuterBase& base) {
      if (touched) touch(place_of(base), bytes);
    };
    walk_with_next(canonical_, tasks, begin, fold);
  }

  void send_for(Block& block, const OuterBase& after, int64_t bytes, const CodeReader& reader) {
    block.soon = place_of(after);
    block.soon_bytes = bytes;
    const KeyedValues keys = reader.keys_of(after);
    if (keys.data == nullptr) return;
    block.soon_keys = keys.data;
    block.soon_keys_bytes = canonical_.item_count * (keys.wide ? 8 : 4);
    block.soon_values = keys.values;
    block.soon_values_bytes = canonical_.item_count * kernels_.value_size;
  }

  bool run_block(const Block& block, const OuterBase& base, CodeReader& reader) {
    bool good = true;
    block_->open(block, layout_.cells, block.include_self);
    block_->add(reader.keys_of(base), 0, canonical_.item_count,
                [&](int64_t first, int64_t last, auto&& f) {
                  return good = reader.read(base, first, last, f);
                });
    if (!good) return false;
    block_->finish([&] {
      reader.read(base, 0, canonical_.item_count,
                  [&](const uint32_t* cells, const char* values, int count) {
                    block_->add_again(cells, values, count);
                  });
    });
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
        reader.read(base, 0, canonical_.item_count, column, width, [&](Updates& updates) {
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

  const Layout& layout_;
  const FoldKernels& kernels_;
  const Transfer& transfer_;
  const Canonical& canonical_;
  std::optional<BlockFold> block_;
  std::optional<SinglesFold> singles_;
  std::optional<CellMap> map_;
  std::optional<CellFold> cells_;
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
  TaskShares shares(layout.workers, shared);
  return worker_bytes(t, c, layout) * static_cast<size_t>(layout.workers) + shared.used();
}

// What one outer position and block of columns costs.
double task_ns(const Transfer& t, const Canonical& c, const Layout& layout) {
  const FoldKernels& kernels = *layout.kernels;
  const double items = static_cast<double>(c.item_count), cells = static_cast<double>(layout.cells);
  if (layout.way == Way::block) {
    const WindowKernels* window = window_kernels(t.dtype, t.reduce);
    const tuning::BlockNs ns = block_ns(kernels, window, items / cells);
    return items * (ns.update + tuning::miss_ns(cells * cell_bytes(kernels, window))) +
           cells * ns.cell;
  }
  if (layout.way == Way::sparse) {
    const bool near =
        is_touched(layout.places.step(), layout.cells, c.item_count, kernels.value_size);
    // A place that is not near is missed twice, with its stamp.
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
                                : tuning::kWideSumColumn;
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
  const double keys = static_cast<double>(c.item_count) * far_keys_ns(c);
  return over_budget(t, c, bytes * static_cast<size_t>(layout.workers)) + tuning::kCallNs +
         tuning::kTileNs + (layout.workers > 1 ? tuning::kRegionNs : 0) +
         (layout.way == Way::block ? 0 : static_cast<double>(layout.cells) * tuning::kEmptyCellNs) +
         tasks * (tuning::kTaskNs + task_ns(t, c, layout) + keys) / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  if (layout.way == Way::block && layout.tasks == 1 && CodeReader::can_check(t, c, layout.places)) {
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
  TaskShares shares(layout.workers, shared);
  shares.open(layout.tasks);
  const int64_t some = TaskShares::some_of(c.item_count * layout.width);
  run_checked(t, layout.workers, [&](int index, int) {
    Carver carver(memory + bytes * static_cast<size_t>(index));
    Worker worker(t, c, layout, carver);
    worker.run([&](auto&& f) { shares.run(index, f, some); });
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
    .checks_keys = true,
};

}  // namespace sow::detail
