// SPDX-License-Identifier: Apache-2.0
// Problems that the benchmarks run: arrays of one scatter, and the grid over which plans are
// judged.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "sow/sow.h"
#include "transfer/plan/plan.h"

namespace sow::bench {

struct Problem {
  DType dtype = DType::float32;
  Reduce reduce = Reduce::add;
  int64_t items = 1, width = 1, places = 1;
  int64_t outer = 1;  // along the last axis of [outer, places] when it is more than one

  std::string name() const {
    std::string words = std::string(name_of(reduce)) + "/" + name_of(dtype) + "/";
    if (outer > 1) words += std::to_string(outer) + "x";
    return words + std::to_string(items) + "x" + std::to_string(width) + "to" +
           std::to_string(places);
  }
};

inline Tensor random_tensor(const Dims& shape, DType dtype, std::mt19937_64& random) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  std::vector<int64_t> integers(dtype == DType::int64 ? values.size() : 0);
  std::vector<double> doubles(dtype == DType::float64 ? values.size() : 0);
  for (float& value : values) value = normal(random);
  for (size_t i = 0; i < integers.size(); ++i) integers[i] = static_cast<int64_t>(1000 * values[i]);
  for (size_t i = 0; i < doubles.size(); ++i) doubles[i] = values[i];
  if (dtype == DType::int64) return Tensor::of(integers, shape);
  if (dtype == DType::float64) return Tensor::of(doubles, shape);
  return Tensor::of(values, shape);
}

// The arrays of a problem, and the call that does it. Indices are vouched for unless asked
// otherwise: what is measured is the strategy, not the check.
class Scatter {
 public:
  explicit Scatter(const Problem& problem, Bounds bounds = Bounds::promise)
      : problem_(problem), bounds_(bounds) {
    std::mt19937_64 random(7);
    const Dims row = problem.width > 1 ? Dims{problem.width} : Dims{};
    Dims dst = problem.outer > 1 ? Dims{problem.outer, problem.places} : Dims{problem.places};
    Dims src = problem.outer > 1 ? Dims{problem.outer, problem.items} : Dims{problem.items};
    const Dims keys = src;
    for (const int64_t extent : row) {
      dst.push_back(extent);
      src.push_back(extent);
    }
    x_ = random_tensor(dst, problem.dtype, random);
    src_ = random_tensor(src, problem.dtype, random);
    std::vector<int64_t> places(static_cast<size_t>(problem.outer * problem.items));
    for (int64_t& place : places) {
      place = static_cast<int64_t>(random() % static_cast<uint64_t>(problem.places));
    }
    keys_ = Tensor::of(places, keys);
  }

  void run() const { run(Index(keys_, bounds_)); }
  void run(const Index& index) const {
    if (problem_.outer > 1) {
      scatter_(x_, 1, index, src_, problem_.reduce);
    } else if (problem_.reduce == Reduce::assign) {
      index_copy_(x_, 0, index, src_);
    } else {
      index_reduce_(x_, 0, index, src_, problem_.reduce);
    }
  }
  Index held() const { return Index::hold(keys_, problem_.places); }

  // The strategy that would run now.
  std::string strategy() const {
    const std::string words = explain([&] { run(); });
    const std::string label = "strategy     ";
    const size_t at = words.find(label);
    if (at == std::string::npos) return "";
    const size_t begin = at + label.size();
    return words.substr(begin, words.find(':', begin) - begin);
  }
  // The strategies that give this result, the reference left out.
  std::vector<const char*> strategies() const {
    std::vector<const char*> found;
    for (const detail::Strategy* each : detail::cpu_strategies()) {
      const detail::ForceStrategy force(each->name);
      if (std::string(each->name) != "reference" && strategy() == each->name)
        found.push_back(each->name);
    }
    return found;
  }
  int64_t updates() const { return problem_.outer * problem_.items * problem_.width; }

 private:
  Problem problem_;
  Bounds bounds_;
  Tensor x_, src_, keys_;
};

// Sizes, places and row lengths that reach every crossover of the planner.
inline std::vector<Problem> grid(int64_t largest) {
  std::vector<Problem> found;
  for (const auto& [dtype, reduce] : {std::pair{DType::float32, Reduce::add},
                                      {DType::float32, Reduce::amax},
                                      {DType::float32, Reduce::assign},
                                      {DType::int64, Reduce::add},
                                      {DType::float64, Reduce::add}}) {
    for (int64_t updates = 1 << 8; updates <= largest; updates *= 16) {
      for (int64_t places = 16; places <= 4 * updates; places *= 32) {
        found.push_back({dtype, reduce, updates, 1, places});
      }
      for (const int64_t width : {4, 64}) {
        for (const int64_t share : {100, 8, 1}) {
          found.push_back({dtype, reduce, updates / width, width,
                           std::max<int64_t>(updates / width / share, 1)});
        }
      }
      if (updates >= 4096) found.push_back({dtype, reduce, updates / 64, 1, updates / 8, 64});
    }
  }
  return found;
}

// Nanoseconds of each call: medians of turns that are long enough for the clock, the calls taking
// turns, so that noise hits all alike.
inline std::vector<double> interleaved_ns(const std::vector<std::function<void()>>& calls,
                                          int turns = 5) {
  using Clock = std::chrono::steady_clock;
  const auto run = [](const std::function<void()>& call, int64_t loops) {
    const auto began = Clock::now();
    for (int64_t i = 0; i < loops; ++i) call();
    return std::chrono::duration<double, std::nano>(Clock::now() - began).count() /
           static_cast<double>(loops);
  };
  std::vector<int64_t> loops;
  std::vector<std::vector<double>> times(calls.size());
  for (const auto& call : calls) {
    loops.push_back(std::clamp<int64_t>(static_cast<int64_t>(2e5 / (run(call, 1) + 1)), 1, 10000));
  }
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i < calls.size(); ++i) times[i].push_back(run(calls[i], loops[i]));
  }
  std::vector<double> medians;
  for (auto& each : times) {
    std::nth_element(each.begin(), each.begin() + turns / 2, each.end());
    medians.push_back(each[static_cast<size_t>(turns) / 2]);
  }
  return medians;
}

inline double median_ns(const std::function<void()>& call, int turns = 5) {
  return interleaved_ns({call}, turns)[0];
}

}  // namespace sow::bench
