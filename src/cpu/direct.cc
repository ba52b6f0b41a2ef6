// Strategy "direct": updates go straight to the destination; workers share the outer positions.
#include "core/parallel.h"
#include "cpu/direct_walk.h"
#include "cpu/strategies.h"

namespace sow::detail {

namespace {

int workers_for(const Canonical& c, int threads) {
  const double updates = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count) *
                         static_cast<double>(c.row.size);
  if (updates < tuning::kSerialUpdates) return 1;
  return static_cast<int>(std::min<int64_t>(threads, c.outer_count));
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const int workers = workers_for(c, threads);
  return tuning::kCallNs + (workers > 1 ? tuning::kRegionNs : 0) + direct_ns(t, c) / workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char*) {
  parallel_run(workers_for(c, plan.threads), [&](int index, int count) {
    DirectWalk walk(t, c);
    const int64_t last = c.outer_count * (index + 1) / count;
    for (int64_t at = c.outer_count * index / count; at < last; ++at) walk.run(outer_base(c, at));
  });
}

}  // namespace

const Strategy k_direct = {
    .name = "direct",
    .says = "updates straight onto the destination, outer positions in parallel",
    .supports = [](const Transfer& t, const Canonical&) { return is_direct(t); },
    .cost = cost,
    .workspace = [](const Transfer&, const Canonical&, int) { return size_t{0}; },
    .run = run,
};

}  // namespace sow::detail
