// SPDX-License-Identifier: Apache-2.0
// Strategy "short_rows": every worker walks the whole index and folds the rows of its own range of
// the destination, sums in exact cells. Sorting an item costs as much as adding a few columns.
#include <atomic>

#include "core/threads/parallel.h"
#include "cpu/fold/cell_fold.h"
#include "cpu/read/id_reader.h"
#include "cpu/read/key_check.h"
#include "cpu/short_rows/short_apply.h"
#include "cpu/strategies.h"
#include "cpu/sum/fixed_point_rows.h"
#include "cpu/transfer_facts.h"

namespace sow::detail {

namespace {

struct Layout {
  OffsetIds places;
  int64_t rows;
  int workers;
  bool in_place;
  bool counted;       // results depend on the number of updates
  int64_t residuals;  // a worker's
};

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout;
  layout.places = item_places(t);
  layout.rows = layout.places.count();
  const int64_t updates = c.item_count * c.row.size;
  const bool shared = updates >= 4 * tuning::kSerialUpdates || shares_small_work();
  layout.workers = shared ? static_cast<int>(std::min<int64_t>(threads, layout.rows)) : 1;
  layout.in_place = short_kernels(t.dtype, t.reduce) == nullptr;
  layout.counted = t.reduce == Reduce::mean || !t.include_self;
  layout.residuals = updates / tuning::kShortResiduals + 256;
  return layout;
}

struct Memory {
  Memory(const Layout& layout, int64_t columns, char* workspace) : carver(workspace) {
    if (layout.in_place) return;
    cells = carver.take<int64_t>(layout.rows * columns);
    seen = carver.take<uint32_t>(layout.rows);
    residuals = carver.take<uint64_t>(layout.residuals * layout.workers);
    residual_counts = carver.take<int64_t>(layout.workers);
  }
  Carver carver;
  int64_t* cells = nullptr;
  uint32_t* seen = nullptr;
  uint64_t* residuals = nullptr;
  int64_t* residual_counts = nullptr;
};

enum class Outcome { done, bad_key, too_far_apart };

class ShortRows {
 public:
  ShortRows(const Transfer& t, const Canonical& c, const Layout& layout, char* workspace)
      : transfer_(t),
        canonical_(c),
        layout_(layout),
        kernels_(short_kernels(t.dtype, t.reduce)),
        columns_(static_cast<int>(c.row.size)),
        size_(static_cast<int64_t>(size_of(t.dtype))),
        base_(outer_base(c, 0)),
        memory_(layout, columns_, workspace),
        keep_(keep_short_rows(t.dst_index[0].dtype)) {}

  // Unless all is well, nothing was written.
  Outcome run() { return kernels_ == nullptr ? run_in_place() : run_in_cells(); }

 private:
  Outcome run_in_place() const {
    const ApplyShortRows apply = short_apply(transfer_.dtype, transfer_.reduce, columns_);
    run_checked(transfer_, layout_.workers, [&](int w, int) {
      ShortItems items = all_items();
      read(w, [&](const Kept& kept, int found) {
        kept.put(found, items);
        apply(first_place(w), places_step(), items);
      });
    });
    return Outcome::done;
  }
  Outcome run_in_cells() {
    scale_ = find_scale();
    std::atomic<bool> bad{false}, full{false};
    parallel_team(layout_.workers, [&](Team& team) {
      team.each(layout_.workers, [&](int w, int) {
        if (!add(w, full)) bad = true;
      });
      if (bad || full) return;
      team.each(layout_.workers, [&](int w, int) { finish(w); });
    });
    return bad ? Outcome::bad_key : full ? Outcome::too_far_apart : Outcome::done;
  }

  // Keys that are looked at together: nobody prefetches the first rows that are kept of them
  // ([short_keys] in the notebook).
  static constexpr int64_t kItems = 8192;
  struct Kept {
    uint32_t items[kItems + kShortPrefetchFar];
    uint32_t rows[kItems + kShortPrefetchFar];
    void put(int count, ShortItems& into) const {
      into.items = items;
      into.rows = rows;
      into.count = count;
    }
  };

  int64_t first_row(int w) const { return layout_.rows * w / layout_.workers; }
  int64_t places_step() const { return layout_.places.step() * size_; }
  char* first_place(int w) const {
    return transfer_.dst.data + base_.dst * size_ + first_row(w) * places_step();
  }
  ShortItems all_items() const {
    ShortItems items;
    items.src = transfer_.src.data + base_.src * size_;
    items.step = (canonical_.items.empty() ? 0 : canonical_.items[0].src) * size_;
    items.columns = columns_;
    items.far = canonical_.item_count * columns_ * size_ > tuning::kShortNearBytes;
    return items;
  }

  RowScale find_scale() const {
    constexpr int64_t kSome = 256;
    uint32_t some[kSome];
    ShortItems items = all_items();
    items.items = some;
    items.count = std::min(kSome, canonical_.item_count);
    for (int64_t i = 0; i < items.count; ++i)
      some[i] = static_cast<uint32_t>(canonical_.item_count * i / items.count);
    return kernels_->scale(items, canonical_.item_count);
  }

  // Calls f(kept items, kept rows, count) for the updates of a worker's rows. False: a bad key.
  template <class F>
  bool read(int w, F&& f) const {
    const IndexOperand& index = transfer_.dst_index[0];
    const auto width = static_cast<int64_t>(size_of(index.dtype));
    Kept kept;
    ShortKeys keys;
    keys.extent = index.extent;
    keys.lowest = static_cast<uint32_t>(first_row(w));
    keys.rows = static_cast<uint32_t>(first_row(w + 1)) - keys.lowest;
    for (int64_t at = 0; at < canonical_.item_count; at += kItems) {
      keys.keys = index.data + (base_.index[0] + at) * width;
      keys.first = static_cast<uint32_t>(at);
      const int some = static_cast<int>(std::min(kItems, canonical_.item_count - at));
      const int found = keep_(keys, some, kept.items, kept.rows);
      if (found < 0) return false;
      std::fill_n(kept.rows + found, kShortPrefetchFar, 0);
      f(kept, found);
    }
    return true;
  }

  bool add(int w, std::atomic<bool>& full) {
    const int64_t first = first_row(w), rows = first_row(w + 1) - first;
    int64_t* cells = memory_.cells + first * columns_;
    uint32_t* seen = memory_.seen + first;
    std::fill_n(cells, rows * columns_, 0);
    if (layout_.counted) std::fill_n(seen, rows, 0);
    RowResiduals residuals{memory_.residuals + layout_.residuals * w, 0, layout_.residuals};
    ShortItems items = all_items();
    const bool good = read(w, [&](const Kept& kept, int found) {
      if (full.load(std::memory_order_relaxed)) return;
      kept.put(found, items);
      if (!kernels_->add(cells, items, scale_, residuals)) full = true;
      for (int i = 0; layout_.counted && i < found; ++i) ++seen[kept.rows[i]];
    });
    memory_.residual_counts[w] = residuals.count;
    return good;
  }

  void finish(int w) {
    const int64_t first = first_row(w);
    ShortBlock block;
    block.cells = memory_.cells + first * columns_;
    block.seen = layout_.counted ? memory_.seen + first : nullptr;
    block.rows = first_row(w + 1) - first;
    block.step = places_step();
    block.dst = first_place(w);
    block.columns = columns_;
    block.include_self = transfer_.include_self;
    block.exponent = scale_.exponent;
    const auto count = [](const void* self, int worker) {
      return static_cast<const ShortRows*>(self)->count(worker);
    };
    kernels_->finish(
        block,
        {memory_.residuals + layout_.residuals * w, memory_.residual_counts[w], layout_.residuals},
        {this, w, count});
  }

  const uint32_t* count(int w) const {
    uint32_t* seen = memory_.seen + first_row(w);
    std::fill_n(seen, first_row(w + 1) - first_row(w), 0);
    read(w, [&](const Kept& kept, int found) {
      for (int i = 0; i < found; ++i) ++seen[kept.rows[i]];
    });
    return seen;
  }

  const Transfer& transfer_;
  const Canonical& canonical_;
  const Layout& layout_;
  const ShortKernels* kernels_;  // null: folded in place
  const int columns_;
  const int64_t size_;
  const OuterBase base_;
  Memory memory_;
  const KeepShortRows keep_;
  RowScale scale_;
};

bool has_kernel(const Transfer& t, const Canonical& c) {
  if (!is_fold(t) || t.reduce == Reduce::assign) return false;
  if (short_kernels(t.dtype, t.reduce) != nullptr) return k_ordered.supports(t, c);
  return t.include_self && short_apply(t.dtype, t.reduce, 1) != nullptr;
}

// One run of keys that move dense rows.
bool supports(const Transfer& t, const Canonical& c) {
  const bool rows = c.row.size > 1 && c.row.size <= kShortColumns && c.row.dst == 1 &&
                    c.row.src == 1 && c.outer_count == 1;
  if (!rows || t.src.data == nullptr || t.negate || c.item_count >= INT32_MAX) return false;
  if (!has_kernel(t, c)) return false;
  const OffsetIds places = item_places(t);
  return IdReader::can_decode(t, c, places) && places.count() == t.dst_index[0].extent &&
         places.count() < (int64_t{1} << 32) / kShortColumns;
}

// Takes over where values lie too far apart. An order of very many items of few rows is larger than
// the operands; cells of few rows are not.
const Strategy* fallback(const Transfer& t, const Canonical& c, int threads) {
  if (layout_of(t, c, threads).in_place) return nullptr;
  const bool orders = k_ordered.workspace(t, c, threads) <= workspace_allowed(t, c);
  return orders || !k_block.supports(t, c) ? &k_ordered : &k_block;
}

// Or what the other strategy needs.
size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  if (layout.in_place) return 0;
  return std::max(Memory(layout, c.row.size, nullptr).carver.used(),
                  fallback(t, c, threads)->workspace(t, c, threads));
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const double items = static_cast<double>(c.item_count), row = static_cast<double>(c.row.size);
  const double cells = static_cast<double>(layout.rows) * row;
  const double size = static_cast<double>(size_of(t.dtype)), bytes = items * row * size;
  const bool plain = layout.in_place && is_floating(t.dtype) && t.dtype != DType::float32;
  const double column = plain ? tuning::kShortPlainNs : tuning::kShortColumnNs;
  const double cell = layout.in_place ? 0
                      : t.dtype == DType::float32 && t.reduce == Reduce::add
                          ? tuning::kShortCellNs
                          : tuning::kShortPlainCellNs;
  const double reach = (layout.in_place ? size : 8) * cells / layout.workers;
  const double each = items * (tuning::kShortRowNs + column * row + tuning::miss_ns(reach)) +
                      cells * cell +
                      (bytes > tuning::kCachedBytes ? bytes * tuning::kShortFarByteNs : 0);
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + tuning::kShortNs +
         (layout.in_place ? 0 : tuning::kShortScaleNs) +
         (layout.workers > 1 ? tuning::kTeamNs : 0) + items * tuning::kShortKeyNs +
         each / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  const Outcome outcome = ShortRows(t, c, layout, memory).run();
  if (outcome == Outcome::bad_key) return check_indices(t);  // says which it is
  if (outcome == Outcome::too_far_apart) fallback(t, c, plan.threads)->run(t, c, plan, memory);
}

}  // namespace

const Strategy k_short_rows = {
    .name = "short_rows",
    .summary = "every worker walks the index and folds the short rows of its own range",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .fallback = fallback,
    .checks_keys = true,
};

}  // namespace sow::detail
