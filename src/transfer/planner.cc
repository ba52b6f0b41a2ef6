// Chooses a strategy for a Transfer, and says in words what was chosen.
#include <cstring>

#include "core/fail.h"
#include "core/parallel.h"
#include "cpu/held_rows.h"
#include "transfer/plan.h"

namespace sow::detail {

namespace {

thread_local const char* forced_name = nullptr;
thread_local bool shares_small = false;

struct Choice {
  Plan plan;
  double cost = 0;
};

Choice choose(const Transfer& transfer, const Canonical& canonical, int threads) {
  Choice best;
  best.plan.threads = threads;
  for (const Strategy* strategy : cpu_strategies()) {
    if (!strategy->supports(transfer, canonical)) continue;
    const bool forced = forced_name != nullptr && std::strcmp(strategy->name, forced_name) == 0;
    const double cost = forced ? 0 : strategy->cost(transfer, canonical, threads);
    if (!forced && best.plan.strategy != nullptr && cost >= best.cost) continue;
    best.plan.strategy = strategy;
    best.cost = cost;
    if (forced) break;
  }
  best.plan.workspace = best.plan.strategy->workspace(transfer, canonical, threads);
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
  const int threads = can_run_parallel() ? get_num_threads() : 1;
  Choice choice = choose(transfer, canonical, threads);
  // Every worker has scratch of its own: where that is too much, one worker has to do.
  if (choice.cost >= kLastResortNs && threads > 1) choice = choose(transfer, canonical, 1);
  return choice.plan;
}

namespace {

std::string sizes(const Axes& axes) {
  Dims out;
  for (const Axis& axis : axes) out.push_back(axis.size);
  return to_string(out);
}

}  // namespace

std::string describe(const Transfer& t, const Canonical& canonical, const Plan& plan) {
  std::string what = t.reduce == Reduce::assign ? "move" : name_of(t.reduce);
  if (t.mask_side != MaskSide::none) what += " under a mask";
  if (!t.dst_index.empty()) what += " to indexed places";
  if (!t.src_index.empty()) what += " from indexed places";
  std::string words = text("{}: {} {} over {}\n", t.op, what, name_of(t.dtype), t.shape);
  if (t.mask_side == MaskSide::none) {
    words += text("  seen as      {} outer x {} items x row of {}\n", sizes(canonical.outer),
                        sizes(canonical.items), canonical.row.size);
  }
  words += text("  strategy     {}: {}\n", plan.strategy->name, plan.strategy->says);
  if (plan.strategy->uses_order && usable_order(t, canonical) != nullptr) {
    words += "  index        held: ordered once, used again\n";
  }
  words += text("  threads      up to {}\n  workspace    {} bytes\n", plan.threads, plan.workspace);
  return words;
}

}  // namespace sow::detail
