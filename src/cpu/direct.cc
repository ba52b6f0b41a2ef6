// Strategy "direct": updates go straight to the destination; workers share the outer positions.
#include "cpu/code_reader.h"
#include "cpu/direct_walk.h"
#include "cpu/key_check.h"
#include "cpu/strategies.h"
#include "cpu/touch.h"

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

// Single elements whose keys are plain: their places need no offsets. False: they are not.
bool run_elements(const Transfer& t, const Canonical& c, int64_t first, int64_t last) {
  if (c.row.size != 1 || t.dst_index.size() != 1) return false;
  const FoldKernels& kernels = *fold_kernels(t.dtype, t.reduce);
  const PlaceCode places = item_places(t);
  CodeReader reader(t, c, kernels, places);
  if (!reader.decodes()) return false;
  const int64_t bytes = places.count() * kernels.value_size;
  const bool touched = is_touched(places.step(), places.count(), c.item_count, kernels.value_size);
  const auto place_of = [&](const OuterBase& base) {
    return t.dst.data + (base.dst + places.lowest()) * kernels.value_size;
  };
  OuterBase base = outer_base(c, first);
  if (touched) touch(place_of(base), bytes);
  for (int64_t at = first; at < last; ++at) {
    const OuterBase after = outer_base(c, std::min(at + 1, last - 1));
    const char* soon = touched ? place_of(after) : nullptr;
    int64_t done = 0;
    reader.read(base, 0, c.item_count, [&](const uint32_t* codes, const char* values, int count) {
      const int64_t from = bytes * done / c.item_count;
      done += count;
      const int64_t to = bytes * done / c.item_count;
      const Block block{place_of(base), places.step(), true, touched ? soon + from : nullptr,
                        to - from};
      kernels.apply_to_block(block, codes, values, count);
    });
    base = after;
  }
  return true;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char*) {
  run_checked(t, workers_for(c, plan.threads), [&](int index, int count) {
    const int64_t first = c.outer_count * index / count, last = c.outer_count * (index + 1) / count;
    if (run_elements(t, c, first, last)) return;
    DirectWalk walk(t, c);
    for (int64_t at = first; at < last; ++at) walk.run(outer_base(c, at));
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
    .checks_keys = true,
};

}  // namespace sow::detail
