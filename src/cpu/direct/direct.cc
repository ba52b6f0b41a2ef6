// SPDX-License-Identifier: Apache-2.0
// Strategy "direct": updates go straight to the destination; workers share the outer positions,
// several at once where each has few updates.
#include <optional>

#include "cpu/common/outer_groups.h"
#include "cpu/common/prefetch.h"
#include "cpu/common/work_queue.h"
#include "cpu/direct/direct_walk.h"
#include "cpu/read/id_reader.h"
#include "cpu/read/key_check.h"
#include "cpu/strategies.h"

namespace sow::detail {

namespace {

int workers_for(const Canonical& c, int threads) {
  const double updates = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count) *
                         static_cast<double>(c.row.size);
  if (updates < tuning::kSerialUpdates) return 1;
  return static_cast<int>(std::min<int64_t>(threads, c.outer_count));
}

// Positions that are grouped are single elements.
OuterGroups groups_of(const Transfer& t, const Canonical& c) {
  return OuterGroups(t, c, item_places(t));
}

double positions_ns(const Transfer& t, const Canonical& c, int workers) {
  const int64_t tasks = c.outer_count / groups_of(t, c).each();
  return (workers > 1 ? tuning::kRegionNs : 0) + direct_ns(t, c, tasks) / workers;
}

// All updates in the order of the index, by one worker: where outer positions are interleaved, as
// those of the first axis are, neighbouring keys are then read one after the other.
double in_order_ns(const Transfer& t, const Canonical& c) {
  const bool interleaved = c.row.size == 1 && c.outer_count > 1 && t.dst_index.size() == 1 &&
                           t.src_index.empty() && !groups_of(t, c).any();
  if (!interleaved || !IdReader::can_check(t, flatten(t), all_places(t, c)))
    return tuning::kNeverNs;
  const double updates = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count);
  const double bytes = static_cast<double>(all_places(t, c).count()) * size_of(t.dtype);
  const double miss = tuning::miss_ns(bytes) * (t.reduce == Reduce::assign ? 0.5 : 1);
  return tuning::kTaskNs + updates * (element_ns(t) + decode_ns(t, c) + miss);
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  return tuning::kCallNs + std::min(positions_ns(t, c, workers_for(c, threads)), in_order_ns(t, c));
}

// Single elements whose keys are plain: their places need no offsets. False: they are not.
// tasks(f) calls f(position) for those that are this worker's.
template <class Tasks>
bool run_elements(const Transfer& t, const Canonical& c, const OuterGroups& groups,
                  const OffsetIds& places, Tasks&& tasks) {
  if (c.row.size != 1 || t.dst_index.size() != 1) return false;
  const FoldKernels& kernels = *fold_kernels(t.dtype, t.reduce);
  IdReader reader(t, c, kernels, places);
  if (!reader.decodes()) return false;
  const int64_t bytes = places.count() * kernels.value_size;
  const bool touched = is_touched(places.step(), places.count(), c.item_count, kernels.value_size);
  const auto place_of = [&](const OuterBase& base) {
    return t.dst.data + (base.dst + places.lowest()) * kernels.value_size;
  };
  const auto apply = [&](int64_t task, const OuterBase& base, const OuterBase* after) {
    const char* to_prefetch = touched && after != nullptr ? place_of(*after) : nullptr;
    const int64_t items = c.item_count / groups.each() * groups.size_of(task);
    int64_t done = 0, sent = 0;
    reader.read(base, 0, items, [&](const uint32_t* ids, const char* values, int count) {
      done += count;
      PlaceRange block{place_of(base), places.step(), true};
      if (to_prefetch != nullptr) {
        const int64_t until = done == items ? bytes : bytes * done / items;
        block.to_prefetch = to_prefetch + sent;
        block.to_prefetch_bytes = until - sent;
        sent = until;
      }
      kernels.apply.block(block, ids, values, count);
    });
  };
  const auto begin = [&](int64_t task, const OuterBase& base) {
    if (touched) touch(place_of(base), bytes / groups.each() * groups.size_of(task));
  };
  walk_with_next(c, tasks, begin, apply);
  return true;
}

size_t workspace(const Transfer&, const Canonical& c, int threads) {
  const int workers = workers_for(c, threads);
  if (workers == 1) return 0;
  Carver counter(nullptr);
  WorkQueue shares(workers, counter);
  return counter.used();
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  int workers = workers_for(c, plan.threads);
  const OuterGroups groups = groups_of(t, c);
  OffsetIds places = groups.places(t, c);
  std::optional<Canonical> grouped;
  if (groups.any()) grouped = groups.grouped(c);
  if (c.outer_count > 1 && in_order_ns(t, c) < positions_ns(t, c, workers)) {
    workers = 1;
    places = all_places(t, c);
    grouped = flatten(t);
  }
  const Canonical& tasked = grouped ? *grouped : c;
  Carver carver(memory);
  std::optional<WorkQueue> shares;
  if (workers > 1) shares.emplace(workers, carver).open(tasked.outer_count);
  const int64_t some = WorkQueue::some_of(tasked.item_count * c.row.size);
  run_checked(t, workers, [&](int index, int) {
    const auto tasks = [&](auto&& f) {
      if (shares) return shares->run(index, f, some);
      for (int64_t at = 0; at < tasked.outer_count; ++at) f(at);
    };
    if (run_elements(t, tasked, groups, places, tasks)) return;
    DirectWalk walk(t, tasked);
    tasks([&](int64_t at) {
      walk.run(outer_base(tasked, at), tasked.item_count / groups.each() * groups.size_of(at));
    });
  });
}

}  // namespace

const Strategy k_direct = {
    .name = "direct",
    .summary = "updates straight onto the destination, outer positions in parallel",
    .supports = [](const Transfer& t, const Canonical&) { return is_direct(t); },
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .checks_keys = true,
};

}  // namespace sow::detail
