// Measures the constants of src/cpu/tuning.h on this machine and prints them beside the current
// ones; then asks, over a grid of problems, how much slower the planner's choice is than the best
// strategy.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/threads/parallel.h"
#include "cpu/tuning.h"
#include "problems.h"

namespace sow::bench {
namespace {

namespace tuning = detail::tuning;

double forced_ns(const Problem& problem, const char* strategy, int threads) {
  const Scatter scatter(problem);
  set_num_threads(threads);
  const detail::ForceStrategy force(strategy);
  return scatter.strategy() == strategy ? median_ns([&] { scatter.run(); }) : std::nan("");
}

void show(const char* name, double current, double measured, const char* from) {
  std::printf("%-18s%10.2f%10.2f   %s\n", name, current, measured, from);
}

double count(const Problem& problem) { return static_cast<double>(problem.items * problem.width); }

void calls(int threads) {
  set_num_threads(threads);
  show("kRegionNs", tuning::kRegionNs,
       median_ns([&] { detail::parallel_run(threads, [](int, int) {}); }), "an empty region");
  show("kCallNs", tuning::kCallNs, forced_ns({DType::int64, Reduce::add, 1, 1, 1}, "direct", 1),
       "one update, the whole call");
}

// Updates straight to the destination: a small one, then larger than each cache.
double direct() {
  const Problem small{DType::int64, Reduce::add, 1 << 18, 1, 512};
  const Problem wide{DType::int64, Reduce::add, 1 << 12, 256, 64};
  const Problem move{DType::float32, Reduce::assign, 1 << 12, 256, 64};
  const double each = forced_ns(small, "direct", 1) / count(small);
  show("kDirectNs", tuning::kDirectNs, each, "2^18 int64 to 512 places, one thread");
  show("kRowColumnNs", tuning::kRowColumnNs, forced_ns(wide, "direct", 1) / count(wide),
       "rows of 256 int64");
  show("kMoveByteNs", tuning::kMoveByteNs, forced_ns(move, "direct", 1) / count(move) / 4,
       "rows of 256 float32 moved");
  for (const int64_t places : {int64_t{1} << 19, int64_t{1} << 23}) {
    const Problem far{DType::int64, Reduce::add, 1 << 20, 1, places};
    const double bytes = static_cast<double>(8 * places);
    show("miss_ns", tuning::miss_ns(bytes), forced_ns(far, "direct", 1) / count(far) - each,
         ("2^20 int64 to " + std::to_string(8 * places >> 20) + " MB").c_str());
  }
  return each;
}

// Updates in accumulators.
void cells(int threads) {
  const Problem narrow{DType::float32, Reduce::add, 1 << 18, 1, 512};
  const Problem wide{DType::float32, Reduce::add, 1 << 14, 16, 512};
  const Problem hashed{DType::float32, Reduce::add, 2048, 1, 1 << 20};
  const double one = forced_ns(narrow, "block", 1) / count(narrow);
  const double sixteen = forced_ns(wide, "block", 1) / static_cast<double>(wide.items);
  const double column = (sixteen - one) / 15;
  show("kSumColumn.item", tuning::kSumColumn.item, column, "rows of 16");
  show("kCellNs + kHashNs", tuning::kCellNs + tuning::kHashNs,
       forced_ns(hashed, "block", 1) / count(hashed), "2048 sums among 2^20 places");
  const double few = forced_ns(narrow, "private", threads);
  const Problem many{DType::float32, Reduce::add, 1 << 18, 1, 1 << 15};
  const auto block = [&](const char* name, tuning::BlockNs ns, DType dtype, Reduce reduce) {
    const Problem full{dtype, reduce, 1 << 18, 1, 512};
    const double update = forced_ns(full, "block", 1) / count(full);
    show((std::string(name) + ".update").c_str(), ns.update, update, "2^18 updates of 512 places");
    show((std::string(name) + ".cell").c_str(), ns.cell,
         (forced_ns({dtype, reduce, 1 << 15, 1, 1 << 15}, "block", 1) - (1 << 15) * update) /
             (1 << 15),
         "as many places as updates");
  };
  block("kFixedPointBlock", tuning::kFixedPointBlock, DType::float32, Reduce::add);
  block("kTwoWordBlock", tuning::kTwoWordBlock, DType::float64, Reduce::add);
  block("kNumberBlock", tuning::kNumberBlock, DType::int64, Reduce::add);
  show("kMergeNs", tuning::kMergeNs,
       (forced_ns(many, "private", threads) - few) * threads / static_cast<double>(many.places),
       "the same to 2^15 places");
}

void partition(int threads, double direct_each) {
  const Problem far{DType::int64, Reduce::add, 1 << 20, 1, 1 << 22};
  show("kPartitionUpdateNs", tuning::kPartitionUpdateNs,
       forced_ns(far, "partition", threads) * threads / count(far) - direct_each,
       "2^20 int64 to 2^22 places");
}

// Four unknowns of "ordered" from four problems: Gaussian elimination.
void ordered(int threads) {
  const Problem problems[] = {{DType::float32, Reduce::add, 1 << 16, 1, 1 << 6},
                              {DType::float32, Reduce::add, 1 << 16, 1, 1 << 16},
                              {DType::float32, Reduce::add, 1 << 14, 64, 1 << 10}};
  double system[3][4];
  double sort = 0;
  for (int i = 0; i < 3; ++i) {
    const Problem& problem = problems[i];
    const Scatter scatter(problem);
    set_num_threads(threads);
    const detail::ForceStrategy force("ordered");
    const Index held = scatter.held();
    const double ns = median_ns([&] { scatter.run(held); });
    const double items = static_cast<double>(problem.items);
    if (i == 0) sort = (median_ns([&] { scatter.run(); }) - ns) * threads / items;
    const double rows = static_cast<double>(std::min(problem.items, problem.places));
    const double equation[4] = {rows, items, 4 * count(problem), ns * threads};
    std::copy(equation, equation + 4, system[i]);
  }
  for (int pivot = 0; pivot < 3; ++pivot) {
    for (int other = 0; other < 3; ++other) {
      if (other == pivot) continue;
      const double factor = system[other][pivot] / system[pivot][pivot];
      for (int column = 0; column < 4; ++column)
        system[other][column] -= factor * system[pivot][column];
    }
  }
  show("kSortNs", tuning::kSortNs, sort, "2^16 items, fresh against held");
  show("kTiledRows.row", tuning::kTiledRows.row, system[0][3] / system[0][0],
       "float32 sums, from three row lengths");
  show("kTiledRows.item", tuning::kTiledRows.item, system[1][3] / system[1][1], "the same");
  show("kTiledRows.byte", tuning::kTiledRows.byte, system[2][3] / system[2][2], "the same");
}

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

// Arguments: the number of threads, and the largest problem of the grid.
int main(int argc, char** argv) {
  using namespace sow::bench;
  const int threads = argc > 1 ? std::atoi(argv[1]) : sow::get_num_threads();
  const int64_t largest = argc > 2 ? std::atoll(argv[2]) : 1 << 20;
  std::printf("%-18s%10s%10s   measured on %d threads\n", "constant", "current", "measured",
              threads);
  calls(threads);
  const double direct_each = direct();
  cells(threads);
  partition(threads, direct_each);
  ordered(threads);
  sow::set_num_threads(threads);
  regret(largest);
}
