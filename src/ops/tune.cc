// SPDX-License-Identifier: Apache-2.0
// Measures the planner's costs on this machine, by the problems that they describe.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "core/fail.h"
#include "core/threads/parallel.h"
#include "sow/index.h"
#include "sow/ops.h"
#include "sow/runtime.h"
#include "transfer/plan/plan.h"
#include "transfer/plan/tuning_file.h"

namespace sow {

namespace {

using detail::ForceStrategy;

// The median of several turns, each long enough for the clock.
double median_ns(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  constexpr double kTurnNs = 2e5;
  constexpr int kTurns = 9;
  const auto run = [&](int64_t loops) {
    const auto began = Clock::now();
    for (int64_t i = 0; i < loops; ++i) call();
    return std::chrono::duration<double, std::nano>(Clock::now() - began).count() /
           static_cast<double>(loops);
  };
  run(1);
  const auto loops = std::clamp<int64_t>(static_cast<int64_t>(kTurnNs / (run(1) + 1)), 1, 10000);
  double turns[kTurns];
  for (double& turn : turns) turn = run(loops);
  std::nth_element(turns, turns + kTurns / 2, turns + kTurns);
  return turns[kTurns / 2];
}

struct Problem {
  DType dtype;
  Reduce reduce;
  int64_t items, width, places;

  double count() const { return static_cast<double>(items * width); }
};

class Scatter {
 public:
  explicit Scatter(const Problem& problem) : reduce_(problem.reduce) {
    std::mt19937_64 random(7);
    const auto drawn = [&](const Dims& shape) {
      int64_t count = 1;
      for (const int64_t extent : shape) count *= extent;
      std::normal_distribution<float> normal;
      std::vector<float> values(static_cast<size_t>(count));
      for (float& value : values) value = normal(random);
      if (problem.dtype == DType::float32) return Tensor::of(values, shape);
      if (problem.dtype == DType::float64)
        return Tensor::of(std::vector<double>(values.begin(), values.end()), shape);
      std::vector<int64_t> integers;
      for (const float value : values) integers.push_back(static_cast<int64_t>(1000 * value));
      return Tensor::of(integers, shape);
    };
    const auto shape = [&](int64_t rows) {
      return problem.width > 1 ? Dims{rows, problem.width} : Dims{rows};
    };
    x_ = drawn(shape(problem.places));
    src_ = drawn(shape(problem.items));
    std::vector<int64_t> keys(static_cast<size_t>(problem.items));
    for (int64_t& key : keys)
      key = static_cast<int64_t>(random() % static_cast<uint64_t>(problem.places));
    keys_ = Tensor::of(keys, {problem.items});
  }
  double ns(const Index& index) const {
    return median_ns([&] {
      if (reduce_ == Reduce::assign) {
        index_copy_(x_, 0, index, src_);
      } else {
        index_reduce_(x_, 0, index, src_, reduce_);
      }
    });
  }
  Index keys() const { return Index(keys_, Bounds::promise); }
  Index held() const { return Index::hold(keys_, x_.shape()[0]); }

 private:
  Reduce reduce_;
  Tensor x_, src_, keys_;
};

class Threads {
 public:
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_ = get_num_threads();
};

double forced_ns(const Problem& problem, const char* strategy, int threads = 1) {
  const Threads these(threads);
  const ForceStrategy force(strategy);
  const Scatter scatter(problem);
  return scatter.ns(scatter.keys());
}

using Found = std::map<std::string, double>;

// An update of cells, and what a cell costs beside it.
void measure_cells(const std::string& name, DType dtype, Found& found) {
  constexpr int64_t kPlaces = 4096;
  const auto ns = [&](int64_t items, int64_t places) {
    return forced_ns({dtype, Reduce::add, items, 1, places}, "block");
  };
  const double update = ns(1 << 18, 512) / (1 << 18);
  found[name + "_update"] = update;
  found[name + "_cell"] = ns(3 * kPlaces, kPlaces) / kPlaces - 3 * update;
}

// The same in plain float64s, which are for few updates a place.
void measure_plain(const std::string& name, DType dtype, Found& found) {
  constexpr double kPlaces = 4096;
  const auto ns = [&](double items) {
    return forced_ns({dtype, Reduce::add, static_cast<int64_t>(items), 1, int64_t{4096}}, "block");
  };
  const double many = ns(2 * kPlaces), few = ns(kPlaces / 2);
  found[name + "_update"] = (many - few) / (1.5 * kPlaces);
  found[name + "_cell"] = few / kPlaces - 0.5 * found[name + "_update"];
}

// A row, an item and a byte of ordered rows: three problems, by elimination.
void measure_rows(Found& found) {
  const Problem problems[] = {{DType::float32, Reduce::add, 1 << 16, 1, 1 << 6},
                              {DType::float32, Reduce::add, 1 << 16, 1, 1 << 16},
                              {DType::float32, Reduce::add, 1 << 14, 64, 1 << 10}};
  double system[3][4];
  const ForceStrategy force("ordered");
  const Threads one(1);
  for (int i = 0; i < 3; ++i) {
    const Problem& problem = problems[i];
    const Scatter scatter(problem);
    const double ns = scatter.ns(scatter.held());
    const auto items = static_cast<double>(problem.items);
    if (i == 0) found["sort"] = (scatter.ns(scatter.keys()) - ns) / items;
    const double equation[4] = {static_cast<double>(std::min(problem.items, problem.places)), items,
                                4 * problem.count(), ns};
    std::copy(equation, equation + 4, system[i]);
  }
  for (int pivot = 0; pivot < 3; ++pivot) {
    for (int other = 0; other < 3; ++other) {
      if (other == pivot) continue;
      const double factor = system[other][pivot] / system[pivot][pivot];
      for (int k = 0; k < 4; ++k) system[other][k] -= factor * system[pivot][k];
    }
  }
  const char* names[] = {"row", "row_item", "row_byte"};
  for (int i = 0; i < 3; ++i) found[names[i]] = system[i][3] / system[i][i];
}

Found measure() {
  Found found;
  const int threads = std::max(get_num_threads(), 2);
  const Problem small{DType::int64, Reduce::add, 1 << 18, 1, 512};
  const Problem wide{DType::int64, Reduce::add, 1 << 12, 256, 64};
  const Problem move{DType::float32, Reduce::assign, 1 << 12, 256, 64};
  const Problem rows{DType::float32, Reduce::add, 1 << 14, 16, 512};
  const Problem narrow{DType::float32, Reduce::add, 1 << 18, 1, 512};
  const Problem cells{DType::float32, Reduce::add, 1 << 18, 1, 1 << 15};
  const Problem far{DType::int64, Reduce::add, 1 << 20, 1, 1 << 22};
  found["call"] = forced_ns({DType::int64, Reduce::add, 1, 1, 1}, "direct");
  {
    const Threads all(threads);
    found["region"] = median_ns([&] { detail::parallel_run(threads, [](int, int) {}); });
  }
  found["direct"] = forced_ns(small, "direct") / small.count();
  found["row_column"] = forced_ns(wide, "direct") / wide.count();
  found["move_byte"] = forced_ns(move, "direct") / move.count() / 4;
  found["sum_column"] = (forced_ns(rows, "block") / static_cast<double>(rows.items) -
                         forced_ns(narrow, "block") / narrow.count()) /
                        15;
  found["merge"] = (forced_ns(cells, "private", threads) - forced_ns(narrow, "private", threads)) *
                   threads / static_cast<double>(cells.places);
  found["partition_update"] = forced_ns(far, "partition") / far.count() - found["direct"];
  measure_cells("fixed_point", DType::float32, found);
  measure_cells("two_word", DType::float64, found);
  measure_cells("number", DType::int64, found);
  measure_plain("plain", DType::float32, found);
  measure_plain("plain_pair", DType::float64, found);
  measure_rows(found);
  return found;
}

}  // namespace

std::string tune(const std::string& path) {
  const detail::Isa isa = detail::current_isa();
  const std::string to = path.empty() ? detail::tuning_path(isa) : path;
  if (to.empty())
    detail::fail(ErrorKind::argument,
                 "tune: no path was given, and neither SOW_TUNING nor HOME says where to");
  const Found found = measure();
  // What was disturbed may come out at nothing, or far from any machine: the built-in cost holds.
  constexpr double kFurthest = 8;
  std::vector<double> values;
  for (const detail::TunedCost& cost : detail::tuned_costs()) {
    const auto measured = found.find(cost.name);
    const double usual = *cost.value;
    const bool likely = measured != found.end() && measured->second > usual / kFurthest &&
                        measured->second < usual * kFurthest;
    values.push_back(likely ? measured->second : usual);
  }
  const std::string text = detail::write_tuning(isa, values);
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(to).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::ofstream file(to, std::ios::binary);
  file << text;
  file.close();
  if (!file) detail::fail(ErrorKind::argument, "tune: {} cannot be written", to);
  return to;
}

}  // namespace sow
