// SPDX-License-Identifier: Apache-2.0
// Strategy "owned": every worker walks the whole index and applies the updates of its own range of
// the destination, so that nothing is shared and the order of the updates stays.
#include "core/threads/parallel.h"
#include "cpu/direct/direct_walk.h"
#include "cpu/read/offset_ids.h"
#include "cpu/strategies.h"

namespace sow::detail {

namespace {

bool supports(const Transfer& t, const Canonical&) {
  return is_direct(t) && item_places(t).count() > 1;
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const double rows = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count);
  return tuning::kCallNs + tuning::kRegionNs + rows * tuning::kOwnedNs +
         direct_ns(t, c, c.outer_count) / threads;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char*) {
  const OffsetIds places = item_places(t);
  const int workers = static_cast<int>(std::min<int64_t>(plan.threads, places.count()));
  parallel_run(workers, [&](int index, int count) {
    DirectWalk walk(t, c);
    const int64_t first = places.offset_of(places.count() * index / count);
    const int64_t last = places.offset_of(places.count() * (index + 1) / count);
    for (int64_t at = 0; at < c.outer_count; ++at) {
      const OuterBase base = outer_base(c, at);
      walk.reader().keep_only(base.dst + first, base.dst + last);
      walk.run(base, c.item_count);
    }
  });
}

}  // namespace

const Strategy k_owned = {
    .name = "owned",
    .summary = "every worker walks the index and writes its own range of the destination",
    .supports = supports,
    .cost = cost,
    .workspace = [](const Transfer&, const Canonical&, int) { return size_t{0}; },
    .run = run,
};

}  // namespace sow::detail
