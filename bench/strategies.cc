// SPDX-License-Identifier: Apache-2.0
// Every strategy on every problem of the grid, forced, and what the planner takes by itself.
#include <benchmark/benchmark.h>

#include <memory>

#include "problems.h"

namespace sow::bench {
namespace {

// Arrays are made when the first benchmark of a problem runs, not when a thousand are listed.
struct Lazy {
  const Scatter& of(const Problem& problem) {
    if (scatter == nullptr || name != problem.name()) {
      scatter = std::make_unique<Scatter>(problem);
      name = problem.name();
    }
    return *scatter;
  }
  std::unique_ptr<Scatter> scatter;
  std::string name;
};

void measure(benchmark::State& state, const Problem& problem, const char* strategy) {
  static Lazy lazy;
  const Scatter& scatter = lazy.of(problem);
  const detail::ForceStrategy force(strategy);
  const std::string runs = scatter.strategy();
  if (strategy != nullptr && runs != strategy) {
    state.SkipWithError("does not support it");
    return;
  }
  for (auto _ : state) scatter.run();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * scatter.updates());
  if (strategy == nullptr) state.SetLabel(runs);
}

const bool listed = [] {
  for (const Problem& problem : grid(1 << 20)) {
    for (const detail::Strategy* strategy : detail::cpu_strategies()) {
      const std::string name = strategy->name;
      if (name == "reference" || name == "strided_copy" || name == "gather" ||
          name.rfind("mask", 0) == 0)
        continue;
      benchmark::RegisterBenchmark(
          (problem.name() + "/" + name).c_str(),
          [problem, strategy](benchmark::State& state) { measure(state, problem, strategy->name); })
          ->UseRealTime();
    }
    benchmark::RegisterBenchmark(
        (problem.name() + "/planner").c_str(),
        [problem](benchmark::State& state) { measure(state, problem, nullptr); })
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace sow::bench
