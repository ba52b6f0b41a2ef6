// SPDX-License-Identifier: Apache-2.0
// Strategy "ordered": the items are sorted by destination, then each destination row is folded in
// registers and written once.
#include <optional>

#include "core/threads/parallel.h"
#include "cpu/rows/row_fold.h"
#include "cpu/rows/row_tile.h"
#include "cpu/sort/held_order.h"
#include "cpu/sort/row_order.h"
#include "cpu/strategies.h"
#include "cpu/transfer_facts.h"
#include "cpu/tuning.h"

namespace sow::detail {

namespace {

bool outer_moves_index(const Canonical& c) {
  for (const Axis& axis : c.outer) {
    for (const int64_t stride : axis.index) {
      if (stride != 0) return true;
    }
  }
  return false;
}

// Either all workers share the items of an outer position, or each takes positions of its own.
struct Layout {
  int groups;   // workers that take outer positions
  int workers;  // that share one
  bool one_order;
};

// What one worker needs for everything.
double work_ns(const Transfer& t, const Canonical& c) {
  const double items = static_cast<double>(c.item_count);
  const double outer = static_cast<double>(c.outer_count);
  const double width = static_cast<double>(c.row.size) * static_cast<double>(size_of(t.dtype));
  double places = 1;
  for (const IndexOperand& index : t.dst_index) places *= static_cast<double>(index.extent);
  const double rows = std::min(places, items) * outer;
  const double read = t.reduce == Reduce::assign ? rows : items * outer;  // the last is enough
  const double bytes = read * width;
  const double sorts =
      usable_order(t, c) != nullptr ? 0 : items * (outer_moves_index(c) ? outer : 1);
  const bool tiled =
      c.row.size > 1 && row_tile_kernel(t.dtype, t.reduce, kTileColumns, 0) != nullptr;
  const tuning::RowNs& ns = tiled ? tuning::kTiledRows : tuning::kPlainRows;
  return sorts * tuning::kSortNs + rows * ns.row + read * ns.item +
         bytes * (bytes > tuning::kCachedBytes ? ns.far_byte : ns.byte);
}

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  // Where half of the work is done before another thread comes, there is no use in calling it.
  if (work_ns(t, c) < 2 * tuning::kTeamNs && !shares_small_work()) threads = 1;
  Layout layout{1, threads, !outer_moves_index(c)};
  if (!layout.one_order && c.outer_count >= threads) layout = {threads, 1, false};
  return layout;
}

class Worker {
 public:
  Worker(const Transfer& t, const Canonical& c, int workers, Carver& carver)
      : transfer_(t),
        canonical_(c),
        kernels_(*fold_kernels(t.dtype, t.reduce)),
        places_(item_places(t)),
        sources_(item_sources(t, c)),
        order_(usable_order(t, c)),
        workers_(workers) {
    if (order_ != nullptr) {
      held_.emplace(t, c, *order_, carver);
    } else {
      sorted_.emplace(t, c, workers, carver);
    }
    fold_.emplace(kernels_, c.item_count, c.row.size, workers, carver);
  }

  // The keys are checked while they are read. Only where that is before anything is written.
  void check_keys() {
    if (sorted_) sorted_->check_keys();
  }

  // False: a key is out of bounds, and nothing was written.
  bool run(int64_t first, int64_t last, bool one_order) {
    bool good = true;
    parallel_team(workers_, [&](Team& team) {
      for (int64_t position = first; position < last; ++position) {
        const OuterBase base = outer_base(canonical_, position);
        if (sorted_ && !sorted_->take(base, team)) {
          team.one([&] { good = false; });
          return;
        }
        const int64_t count = one_order ? last - first : 1;
        if (sorted_ && count == 1 && sorted_->has_small_buckets()) {
          fold_buckets(position, team);
        } else {
          fold_segments(base, position, count, team);
        }
        if (one_order) return;
      }
    });
    return good;
  }

 private:
  bool is_scalar() const { return transfer_.src.data == nullptr; }

  void set_bases(int64_t position, RowJob& job) const {
    const OuterBase there = outer_base(canonical_, position);
    job.src_base = is_scalar() ? 0 : there.src + sources_.lowest();
    job.dst_base = there.dst + places_.lowest();
  }

  void fold_segments(const OuterBase& base, int64_t position, int64_t count, Team& team) {
    int64_t segments;
    const RowJob job = held_ ? held_job(base, team, segments) : sorted_job(team, segments);
    fold_->run(job, segments, count, team,
               [&](int64_t at, RowJob& one) { set_bases(position + at, one); });
  }

  // A bucket is sorted and folded at once: where its rows are never leaves the caches, and while
  // one worker sorts another has the memory for itself.
  void fold_buckets(int64_t position, Team& team) {
    team.each(workers_, [&](int worker, int) {
      RowJob job = plain_job();
      set_bases(position, job);
      sorted_->each_bucket(worker, [&](const uint32_t* ids, const uint32_t* keys,
                                       const uint32_t* begins, int64_t items, int64_t segments) {
        job.ids = ids;
        job.places = keys;
        job.begins = begins;
        job.items = items;
        kernels_.rows.fold(job, 0, segments);
      });
    });
  }

  RowJob sorted_job(Team& team, int64_t& segments) {
    sorted_->finish(team);
    RowJob job = plain_job();
    job.ids = sorted_->ids();
    job.begins = sorted_->begins();
    job.places = sorted_->keys();
    job.items = sorted_->items();
    segments = sorted_->segments();
    return job;
  }
  RowJob held_job(const OuterBase& base, Team& team, int64_t& segments) {
    team.one([&] { held_->build(base, sources_); });
    RowJob job = plain_job();
    job.ids = held_->ids();
    job.begins = order_->begins.data();
    job.places = order_->keys.data();
    job.far_lists = true;
    job.items = static_cast<int64_t>(order_->positions.size());
    segments = static_cast<int64_t>(order_->begins.size()) - 1;
    return job;
  }
  RowJob plain_job() const {
    RowJob job;
    job.src = is_scalar() ? reinterpret_cast<const char*>(transfer_.scalar) : transfer_.src.data;
    job.src_step = is_scalar() ? 0 : sources_.step();
    job.src_column = is_scalar() ? 0 : canonical_.row.src;
    job.dst = transfer_.dst.data;
    job.dst_step = places_.step();
    job.dst_column = canonical_.row.dst;
    job.last_column = canonical_.row.size;
    job.include_self = transfer_.include_self;
    job.negate = transfer_.negate;
    return job;
  }

  const Transfer& transfer_;
  const Canonical& canonical_;
  const FoldKernels& kernels_;
  const OffsetIds places_, sources_;
  const IndexOrder* order_;
  int workers_;
  std::optional<HeldRows> held_;
  std::optional<RowOrder> sorted_;
  std::optional<RowFold> fold_;
};

size_t worker_bytes(const Transfer& t, const Canonical& c, int workers) {
  Carver carver(nullptr);
  Worker worker(t, c, workers, carver);
  return carver.used();
}

bool supports(const Transfer& t, const Canonical& c) {
  constexpr int64_t kMost = int64_t{1} << 32;
  return is_fold(t) && c.item_count < kMost - 1 && item_places(t).count() < kMost &&
         item_sources(t, c).count() < kMost;
}

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  return worker_bytes(t, c, layout.workers) * layout.groups;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const double workers = layout.groups * layout.workers;
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + tuning::kOrderNs +
         (workers > 1 ? 4 * tuning::kOrderRegionNs : 0) + work_ns(t, c) / workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  const bool checks =
      layout.one_order && usable_order(t, c) == nullptr && RowOrder::can_check(t, c);
  if (!checks) check_indices(t);
  if (layout.groups == 1) {  // its regions are inside
    Carver carver(memory);
    Worker worker(t, c, layout.workers, carver);
    if (checks) worker.check_keys();
    if (!worker.run(0, c.outer_count, layout.one_order)) check_indices(t);  // says which it is
    return;
  }
  const size_t bytes = worker_bytes(t, c, layout.workers);
  parallel_run(layout.groups, [&](int index, int count) {
    Carver carver(memory + bytes * index);
    Worker worker(t, c, layout.workers, carver);
    worker.run(c.outer_count * index / count, c.outer_count * (index + 1) / count,
               layout.one_order);
  });
}

}  // namespace

const Strategy k_ordered = {
    .name = "ordered",
    .summary = "items sorted by destination, each destination row folded in registers",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .uses_order = true,
    .checks_keys = true,
};

}  // namespace sow::detail
