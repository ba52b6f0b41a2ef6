// Strategy "direct": updates go straight to the destination; workers share the outer positions.
#include <optional>

#include "cpu/code_reader.h"
#include "cpu/direct_walk.h"
#include "cpu/key_check.h"
#include "cpu/strategies.h"
#include "cpu/task_shares.h"
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
// tasks(f) calls f(position) for those that are this worker's.
template <class Tasks>
bool run_elements(const Transfer& t, const Canonical& c, Tasks&& tasks) {
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
  const auto apply = [&](const OuterBase& base, const OuterBase* after) {
    const char* soon = touched && after != nullptr ? place_of(*after) : nullptr;
    int64_t done = 0, sent = 0;
    reader.read(base, 0, c.item_count, [&](const uint32_t* codes, const char* values, int count) {
      done += count;
      Block block{place_of(base), places.step(), true};
      if (soon != nullptr) {
        const int64_t until = done == c.item_count ? bytes : bytes * done / c.item_count;
        block.soon = soon + sent;
        block.soon_bytes = until - sent;
        sent = until;
      }
      kernels.apply_to_block(block, codes, values, count);
    });
  };
  const auto begin = [&](const OuterBase& base) {
    if (touched) touch(place_of(base), bytes);
  };
  walk_with_next(c, tasks, begin, apply);
  return true;
}

size_t workspace(const Transfer&, const Canonical& c, int threads) {
  const int workers = workers_for(c, threads);
  if (workers == 1) return 0;
  Carver counter(nullptr);
  TaskShares shares(workers, counter);
  return counter.used();
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const int workers = workers_for(c, plan.threads);
  Carver carver(memory);
  std::optional<TaskShares> shares;
  if (workers > 1) shares.emplace(workers, carver).open(c.outer_count);
  const int64_t some = TaskShares::some_of(c.item_count * c.row.size);
  run_checked(t, workers, [&](int index, int) {
    const auto tasks = [&](auto&& f) {
      if (shares) return shares->run(index, f, some);
      for (int64_t at = 0; at < c.outer_count; ++at) f(at);
    };
    if (run_elements(t, c, tasks)) return;
    DirectWalk walk(t, c);
    tasks([&](int64_t at) { walk.run(outer_base(c, at)); });
  });
}

}  // namespace

const Strategy k_direct = {
    .name = "direct",
    .says = "updates straight onto the destination, outer positions in parallel",
    .supports = [](const Transfer& t, const Canonical&) { return is_direct(t); },
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .checks_keys = true,
};

}  // namespace sow::detail
