// SPDX-License-Identifier: Apache-2.0
// Plans and strategies: how a Transfer will be done, as a value that prints and compares.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/device_table.h"
#include "transfer/canonical.h"

namespace sow::detail {

struct Strategy;
struct InnerPlan;

struct Plan {
  const Strategy* strategy = nullptr;  // null on other devices, and where there is nothing to do
  int threads = 1;
  size_t workspace = 0;                // bytes, a worst case over all data
  const Strategy* fallback = nullptr;  // takes over where the data are not what the strategy is for
  // How the Transfer is done that this one is turned into; null: it is done as it is.
  std::shared_ptr<const InnerPlan> inner = nullptr;
  // On another device, which has strategies of its own.
  std::shared_ptr<const DevicePlan> on_device = nullptr;
};
bool operator==(const Plan& a, const Plan& b);

struct InnerPlan {
  Canonical canonical;
  Plan plan;
};

// One way of doing a Transfer. Listed once, in src/cpu/strategies.cc; each lives in its own file.
struct Strategy {
  const char* name;
  const char* summary;  // one line for explain()
  // Whether it gives the reference's bits for this Transfer.
  bool (*supports)(const Transfer&, const Canonical&);
  // Expected nanoseconds; the planner takes the smallest.
  double (*cost)(const Transfer&, const Canonical&, int threads);
  size_t (*workspace)(const Transfer&, const Canonical&, int threads);
  // Indices are checked already, unless checks_keys. Never allocates beyond the workspace (64-byte
  // aligned), never throws once it has written. A Transfer under a mask may throw "too few values"
  // before it writes.
  void (*run)(const Transfer&, const Canonical&, const Plan&, char* workspace);
  // Which strategy run() hands over to, before it writes, where only the data can tell; null: none.
  const Strategy* (*fallback)(const Transfer&, const Canonical&, int threads) = nullptr;
  // The plan of what run() turns the Transfer into; null: nothing.
  std::shared_ptr<const InnerPlan> (*inner)(const Transfer&, const Canonical&,
                                            int threads) = nullptr;
  bool uses_order = false;   // that of a held index, where there is one
  bool checks_keys = false;  // run() does, before it writes: in a pass that reads the keys anyway
};

// A cost from which on a plan is made only when no other can be: its scratch is larger than the
// operands together.
inline constexpr double kLastResortNs = 1e15;

// Every CPU strategy: the array in src/cpu/strategies.cc.
std::span<const Strategy* const> cpu_strategies();

// The cheapest strategy that supports it (or the one a test forces).
Plan plan_transfer(const Transfer& transfer, const Canonical& canonical);
Plan plan_for(const Transfer& transfer, const Canonical& canonical, int threads);
std::string describe(const Transfer& transfer, const Canonical& canonical, const Plan& plan,
                     Device device = {});

// Where explain() of this thread collects its text; null outside of it.
std::string* current_explanation();
// Inside explain(): whether this would write to a tensor of the caller's, which stays as it is.
bool is_kept_while_explaining(const Transfer& transfer);

// Tests: the planner of this thread takes the strategy of this name where it is supported.
const char* forced_strategy();
class ForceStrategy {
 public:
  explicit ForceStrategy(const char* name);
  ~ForceStrategy();
  ForceStrategy(const ForceStrategy&) = delete;
  ForceStrategy& operator=(const ForceStrategy&) = delete;

 private:
  const char* previous_;
};

// Tests: for a while, strategies called on this thread share even what is too little to be shared.
bool shares_small_work();
class ShareSmallWork {
 public:
  explicit ShareSmallWork(bool shares);
  ~ShareSmallWork();
  ShareSmallWork(const ShareSmallWork&) = delete;
  ShareSmallWork& operator=(const ShareSmallWork&) = delete;

 private:
  bool previous_;
};

}  // namespace sow::detail
