// SPDX-License-Identifier: Apache-2.0
// Chooses a strategy for a Transfer, and says in words what was chosen.
#include <cstring>

#include "core/fail.h"
#include "core/threads/parallel.h"
#include "sow/limits.h"
#include "transfer/index/index_order.h"
#include "transfer/plan/plan.h"

namespace sow::detail {

namespace {

thread_local const char* forced_name = nullptr;
thread_local bool shares_small = false;

// What several threads must save at least: those that sleep take 20 to 50 us to come. 3,000 rows of
// 48 float32 take one thread 41 us and two that are woken 62 to 98 (2 cores of a Xeon, 2026-11-16).
constexpr double kWakeNs = 20000;

struct Choice {
  Plan plan;
  double cost = 0;
};

Choice choose(const Transfer& transfer, const Canonical& canonical, int threads) {
  Choice best;
  best.plan.threads = threads;
  const auto limit = static_cast<size_t>(scratch_limit());
  for (const Strategy* strategy : cpu_strategies()) {
    if (!strategy->supports(transfer, canonical)) continue;
    const bool forced = forced_name != nullptr && std::strcmp(strategy->name, forced_name) == 0;
    const double cost = forced ? 0 : strategy->cost(transfer, canonical, threads);
    if (!forced && best.plan.strategy != nullptr && cost >= best.cost) continue;
    if (!forced && limit != 0 && strategy->workspace(transfer, canonical, threads) > limit)
      continue;
    best.plan.strategy = strategy;
    best.cost = cost;
    if (forced) break;
  }
  best.plan.workspace = best.plan.strategy->workspace(transfer, canonical, threads);
  if (best.plan.strategy->fallback != nullptr)
    best.plan.fallback = best.plan.strategy->fallback(transfer, canonical, threads);
  if (best.plan.strategy->inner != nullptr)
    best.plan.inner = best.plan.strategy->inner(transfer, canonical, threads);
  return best;
}

}  // namespace

ForceStrategy::ForceStrategy(const char* name) : previous_(forced_name) { forced_name = name; }
ForceStrategy::~ForceStrategy() { forced_name = previous_; }
const char* forced_strategy() { return forced_name; }

ShareSmallWork::ShareSmallWork(bool shares) : previous_(shares_small) { shares_small = shares; }
ShareSmallWork::~ShareSmallWork() { shares_small = previous_; }
bool shares_small_work() { return shares_small; }

Plan plan_transfer(const Transfer& transfer, const Canonical& canonical) {
  return plan_for(transfer, canonical, can_run_parallel() ? get_num_threads() : 1);
}

Plan plan_for(const Transfer& transfer, const Canonical& canonical, int threads) {
  Choice choice = choose(transfer, canonical, threads);
  if (threads == 1) return choice.plan;
  // Every worker has scratch of its own: where that is too much, one worker has to do. And where
  // waking the others would take longer than what they save.
  Choice alone = choose(transfer, canonical, 1);
  const bool forced = forced_name != nullptr && choice.cost < kLastResortNs;
  if (!forced && alone.cost <= choice.cost + kWakeNs) choice = std::move(alone);
  return choice.plan;
}

namespace {

std::string sizes(const Axes& axes) {
  Dims out;
  for (const Axis& axis : axes) out.push_back(axis.size);
  return to_string(out);
}

}  // namespace

bool operator==(const Plan& a, const Plan& b) {
  if (a.on_device != nullptr && b.on_device != nullptr)
    return device_table(DeviceType::cuda).same_plan(*a.on_device, *b.on_device);
  return a.on_device == b.on_device && a.strategy == b.strategy && a.threads == b.threads &&
         a.workspace == b.workspace && a.fallback == b.fallback &&
         (a.inner == nullptr ? b.inner == nullptr
                             : b.inner != nullptr && a.inner->plan == b.inner->plan);
}

std::string describe(const Transfer& t, const Canonical& canonical, const Plan& plan,
                     Device device) {
  std::string what = t.reduce == Reduce::assign ? "move" : name_of(t.reduce);
  if (t.mask_side != MaskSide::none) what += " under a mask";
  if (!t.dst_index.empty()) what += " to indexed places";
  if (!t.src_index.empty()) what += " from indexed places";
  std::string words = text("{}: {} {} over {}", t.op, what, name_of(t.dtype), t.shape);
  if (plan.on_device != nullptr) {
    return words + text(" on {}\n  strategy     {}\n", to_string(device),
                        device_table(device.type).describe_plan(*plan.on_device));
  }
  words += "\n";
  if (t.mask_side == MaskSide::none) {
    words += text("  seen as      {} outer x {} items x row of {}\n", sizes(canonical.outer),
                  sizes(canonical.items), canonical.row.size);
  }
  words += text("  strategy     {}: {}\n", plan.strategy->name, plan.strategy->summary);
  if (plan.inner != nullptr) {
    const Strategy& inner = *plan.inner->plan.strategy;
    words += text("  which are    {}: {}\n", inner.name, inner.summary);
  }
  if (plan.fallback != nullptr)
    words += text("  fallback     {}, where the data ask for it\n", plan.fallback->name);
  if (plan.strategy->uses_order && usable_order(t, canonical) != nullptr) {
    words += "  index        held: ordered once, used again\n";
  }
  words += text("  threads      up to {}\n  workspace    {} bytes\n", plan.threads, plan.workspace);
  return words;
}

}  // namespace sow::detail
