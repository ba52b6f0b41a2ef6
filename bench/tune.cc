// SPDX-License-Identifier: Apache-2.0
// Measures what the planner reckons with into a file, as `sow tune` does; then asks, over a grid of
// problems, how much slower the planner's choice is than the best strategy.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "problems.h"

namespace sow::bench {
namespace {

// Where the planner's strategy is slower than the best one by more than a quarter.
void regret(int64_t largest) {
  std::printf("\n%-40s%-14s%12s   %-14s%12s%8s\n", "problem", "planner", "ns", "best", "ns",
              "loss");
  int problems = 0, worse = 0;
  for (const Problem& problem : grid(largest)) {
    const Scatter scatter(problem, Bounds::error);
    const std::string chosen = scatter.strategy();
    const std::vector<const char*> names = scatter.strategies();
    std::vector<std::function<void()>> calls;
    for (const char* name : names) {
      calls.push_back([&scatter, name] {
        const detail::ForceStrategy force(name);
        scatter.run();
      });
    }
    const std::vector<double> ns = interleaved_ns(calls, 7);
    const size_t fastest = static_cast<size_t>(std::min_element(ns.begin(), ns.end()) - ns.begin());
    const double best_ns = ns[fastest];
    const char* best = names[fastest];
    double chosen_ns = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == chosen) chosen_ns = ns[i];
    }
    ++problems;
    if (chosen_ns <= 1.25 * best_ns) continue;
    ++worse;
    std::printf("%-40s%-14s%12.0f   %-14s%12.0f%8.2f\n", problem.name().c_str(), chosen.c_str(),
                chosen_ns, best, best_ns, chosen_ns / best_ns);
  }
  std::printf("%d of %d choices cost more than a quarter over the best\n", worse, problems);
}

}  // namespace
}  // namespace sow::bench

// Arguments: the file (empty: the user's own), the number of threads, and the largest problem of
// the grid.
int main(int argc, char** argv) {
  const std::string path = sow::tune(argc > 1 ? argv[1] : "");
  std::cout << std::ifstream(path).rdbuf() << "written to " << path << "\n";
  if (argc > 2) sow::set_num_threads(std::atoi(argv[2]));
  sow::bench::regret(argc > 3 ? std::atoll(argv[3]) : 1 << 20);
}
