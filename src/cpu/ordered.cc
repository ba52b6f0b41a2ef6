// Strategy "ordered": the items are sorted by destination, then each destination row is folded in
// registers and written once.
#include "core/parallel.h"
#include "cpu/row_fold.h"
#include "cpu/row_order.h"
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

Layout layout_of(const Canonical& c, int threads) {
  const double work = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count) *
                      static_cast<double>(c.row.size);
  if (work < tuning::kSerialUpdates) threads = 1;
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
        order_(t, c, workers, carver),
        fold_(kernels_, c.item_count, c.row.size, workers, carver) {}

  void run(int64_t first, int64_t last, bool one_order) {
    for (int64_t position = first; position < last; ++position) {
      order_.build(outer_base(canonical_, position));
      const int64_t count = one_order ? last - first : 1;
      fold_.run(job(), order_.segments(), count, [&](int64_t at, RowJob& job) {
        const OuterBase base = outer_base(canonical_, position + at);
        job.src_base = source_base(base.src);
        job.dst_base = base.dst + order_.places().lowest();
      });
      if (one_order) return;
    }
  }

 private:
  bool is_scalar() const { return transfer_.src.data == nullptr; }
  int64_t source_base(int64_t base) const { return is_scalar() ? 0 : base + order_.sources().lowest(); }

  RowJob job() const {
    RowJob job;
    job.src = is_scalar() ? reinterpret_cast<const char*>(transfer_.scalar) : transfer_.src.data;
    job.src_step = is_scalar() ? 0 : order_.sources().step();
    job.src_column = is_scalar() ? 0 : canonical_.row.src;
    job.codes = order_.codes();
    job.begins = order_.begins();
    job.places = order_.keys();
    job.items = order_.items();
    job.dst = transfer_.dst.data;
    job.dst_step = order_.places().step();
    job.dst_column = canonical_.row.dst;
    job.last_column = canonical_.row.size;
    job.include_self = transfer_.include_self;
    job.negate = transfer_.negate;
    return job;
  }

  const Transfer& transfer_;
  const Canonical& canonical_;
  const FoldKernels& kernels_;
  RowOrder order_;
  RowFold fold_;
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
  const Layout layout = layout_of(c, threads);
  return worker_bytes(t, c, layout.workers) * layout.groups;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(c, threads);
  const double items = static_cast<double>(c.item_count);
  const double outer = static_cast<double>(c.outer_count);
  const double elements = items * outer * static_cast<double>(c.row.size);
  const double workers = layout.groups * layout.workers;
  double places = 1;
  for (const IndexOperand& index : t.dst_index) places *= static_cast<double>(index.extent);
  const double rows = std::min(places, items) * outer;
  const double sorts = items * (layout.one_order ? 1 : outer);
  const double each = sorts * tuning::kSortNs + rows * tuning::kRowNs + items * outer * tuning::kRowItemNs +
                      elements * tuning::kRowByteNs * static_cast<double>(size_of(t.dtype));
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + tuning::kOrderNs + (workers > 1 ? 4 * tuning::kRegionNs : 0) + each / workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(c, plan.threads);
  const size_t bytes = worker_bytes(t, c, layout.workers);
  const auto work = [&](int index, int count) {
    Carver carver(memory + bytes * index);
    Worker worker(t, c, layout.workers, carver);
    worker.run(c.outer_count * index / count, c.outer_count * (index + 1) / count, layout.one_order);
  };
  if (layout.groups == 1) return work(0, 1);  // its regions are inside
  parallel_run(layout.groups, work);
}

}  // namespace

const Strategy k_ordered = {
    .name = "ordered",
    .says = "items sorted by destination, each destination row folded in registers",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
};

}  // namespace sow::detail
