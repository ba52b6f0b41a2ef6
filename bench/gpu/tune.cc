// SPDX-License-Identifier: Apache-2.0
// Fits the numbers of the CUDA cost model on this machine's GPU: runs every strategy over a grid of
// problems, prints what a call and an update of each cost, and lists the problems where the
// planner's choice is more than a quarter slower than the best.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sow/cuda.h"
#include "sow/sow.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace sow::bench {
namespace {

constexpr Device kGpu{DeviceType::cuda, 0};

struct Problem {
  DType dtype;
  Reduce reduce;
  int64_t items, width, places;
  int64_t outer = 1;  // lines of the last axis, of `places` each

  double updates() const { return static_cast<double>(outer * items * width); }
  double cells() const { return static_cast<double>(outer * places * width); }
  std::string name() const {
    return std::string(name_of(reduce)) + " " + name_of(dtype) + ", " +
           (outer > 1 ? std::to_string(outer) + " lines of " : "") + std::to_string(items) +
           (width > 1 ? " rows of " + std::to_string(width) : "") + " to " + std::to_string(places);
  }
  // Strategies cost differently by what their memory holds: what is fitted together.
  std::string kind() const {
    const char* shape = outer > 1 ? "lines" : width > 1 ? "rows" : "elements";
    const char* sum = reduce == Reduce::add    ? "add"
                      : reduce == Reduce::mean ? "mean"
                      : reduce == Reduce::mul  ? "mul"
                                               : "move";
    const char* how = reduce == Reduce::amax ? "amax" : sum;
    return std::string(how) + " " + name_of(dtype) + ", " + shape;
  }
};

std::vector<Problem> grid() {
  std::vector<Problem> found;
  for (const auto& [dtype, reduce] : {std::pair{DType::float32, Reduce::add},
                                      {DType::float64, Reduce::add},
                                      {DType::bfloat16, Reduce::add},
                                      {DType::float32, Reduce::mean},
                                      {DType::float32, Reduce::amax},
                                      {DType::float32, Reduce::mul},
                                      {DType::float32, Reduce::assign},
                                      {DType::int64, Reduce::add}}) {
    for (const int64_t updates : {1'000, 10'000, 100'000, 1'000'000, 10'000'000}) {
      for (const int64_t places : {int64_t{100}, updates / 8, updates / 2, updates * 2})
        found.push_back({dtype, reduce, updates, 1, places});
      for (const int64_t width : {3, 16, 64, 256}) {
        if (updates / width >= 64)
          found.push_back(
              {dtype, reduce, updates / width, width, std::max<int64_t>(updates / width / 8, 1)});
      }
      if (updates >= 10'000) found.push_back({dtype, reduce, 100, 1, 200, updates / 100});
    }
  }
  return found;
}

Tensor drawn(const Dims& shape, DType dtype) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  // A period of values is enough: what counts is that they differ.
  static const std::vector<float> some = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(1 << 16);
    for (float& value : values) value = normal(random);
    return values;
  }();
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = some[(i * 31) % some.size()];
  if (dtype != DType::int64) return to(Tensor::of(values, shape), dtype).to(kGpu);
  std::vector<int64_t> whole(values.size());
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<int64_t>(1000 * values[i]);
  return Tensor::of(whole, shape).to(kGpu);
}

class Scatter {
 public:
  explicit Scatter(const Problem& p) : p_(p) {
    Dims dst, src;
    if (p.outer > 1) dst = src = {p.outer};
    dst.push_back(p.places);
    src.push_back(p.items);
    const Dims keys = src;
    if (p.width > 1) {
      dst.push_back(p.width);
      src.push_back(p.width);
    }
    std::mt19937_64 random(7);
    std::vector<int64_t> places(static_cast<size_t>(p.outer * p.items));
    for (int64_t& place : places)
      place = static_cast<int64_t>(random() % static_cast<uint64_t>(p.places));
    index_ = Tensor::of(places, keys).to(kGpu);
    x_ = drawn(dst, p.dtype);
    src_ = drawn(src, p.dtype);
  }
  void run() const {
    if (p_.outer > 1)
      scatter_(x_, 1, index_, src_, p_.reduce);
    else if (p_.reduce == Reduce::assign)
      index_copy_(x_, 0, index_, src_);
    else
      index_reduce_(x_, 0, index_, src_, p_.reduce);
  }
  std::string strategy() const {
    const std::string words = explain([&] { run(); }), label = "strategy     ";
    const size_t at = words.find(label);
    if (at == std::string::npos) return "";
    return words.substr(at + label.size(), words.find(':', at) - at - label.size());
  }

 private:
  Problem p_;
  Tensor x_, index_, src_;
};

// Nanoseconds of the device: calls are captured, so that the host has no part in it.
double device_ns(const Scatter& scatter) {
  constexpr int kCalls = 8;
  scatter.run();
  const cuda::Graph graph = cuda::Graph::capture([&] {
    for (int i = 0; i < kCalls; ++i) scatter.run();
  });
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  float spent = 0;
  for (int turn = 0; turn < 7 && spent < 150; ++turn) {
    float ms = 0;
    cudaEventRecord(begin, nullptr);
    graph.launch();
    cudaEventRecord(end, nullptr);
    cudaEventSynchronize(end);
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(ms);
    spent += ms;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 1e6 * static_cast<double>(*std::min_element(times.begin(), times.end())) / kCalls;
}

struct Sample {
  double updates, cells, ns;
};

// ns = call + update * updates + cell * cells, relative errors squared, no negative number.
std::array<double, 3> fitted(const std::vector<Sample>& samples) {
  double a[3][4] = {};
  for (const Sample& s : samples) {
    const double row[3] = {1 / s.ns, s.updates / s.ns, s.cells / s.ns};
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) a[i][j] += row[i] * row[j];
      a[i][3] += row[i];
    }
  }
  std::array<double, 3> best = {};
  double least = HUGE_VAL;
  for (int chosen = 1; chosen < 8;
       ++chosen) {  // of every choice of terms the best one without negatives
    double m[3][4];
    std::copy(&a[0][0], &a[0][0] + 12, &m[0][0]);
    for (int i = 0; i < 3; ++i) {
      if ((chosen >> i) & 1) continue;
      for (int j = 0; j < 4; ++j) m[i][j] = i == j ? 1 : 0;
      for (int k = 0; k < 3; ++k) {
        if (k != i) m[k][i] = 0;
      }
    }
    for (int i = 0; i < 3; ++i) {
      if (std::abs(m[i][i]) < 1e-300) m[i][i] = 1e-300;
      for (int k = 0; k < 3; ++k) {
        if (k == i) continue;
        const double by = m[k][i] / m[i][i];
        for (int j = i; j < 4; ++j) m[k][j] -= by * m[i][j];
      }
    }
    const std::array<double, 3> x = {m[0][3] / m[0][0], m[1][3] / m[1][1], m[2][3] / m[2][2]};
    if (x[0] < 0 || x[1] < 0 || x[2] < 0) continue;
    double error = 0;
    for (const Sample& s : samples)
      error += std::pow((x[0] + x[1] * s.updates + x[2] * s.cells) / s.ns - 1, 2);
    if (error < least) {
      least = error;
      best = x;
    }
  }
  return best;
}

struct Choice {
  double lost;
  std::string words;
};

int tune() {
  if (!cuda::available()) {
    std::printf("%s\n", cuda::status().c_str());
    return 1;
  }
  std::printf("%s\n\n", cuda::status().c_str());
  std::map<std::pair<std::string, std::string>, std::vector<Sample>> samples;
  std::vector<Choice> wrong;
  const std::vector<Problem> problems = grid();
  const std::vector<std::string> names = detail::cuda_strategies();
  int done = 0, planned = 0;
  for (const Problem& problem : problems) {
    std::fprintf(stderr, "\r%d of %zu ", ++done, problems.size());
    const Scatter scatter(problem);
    const std::string chosen = scatter.strategy();
    std::map<std::string, double> times;
    for (const std::string& name : names) {
      const detail::ForceStrategy forced(name.c_str());
      if (scatter.strategy() != name) continue;
      times[name] = device_ns(scatter);
      samples[{name, problem.kind()}].push_back({problem.updates(), problem.cells(), times[name]});
    }
    if (times.count(chosen) == 0) continue;
    ++planned;
    const auto best =
        std::min_element(times.begin(), times.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    const double lost = times[chosen] / best->second;
    if (lost <= 1.25) continue;
    char words[256];
    std::snprintf(words, sizeof(words), "%5.2f  %-52s %-12s %9.1f us  %-12s %9.1f us", lost,
                  problem.name().c_str(), chosen.c_str(), times[chosen] / 1e3, best->first.c_str(),
                  best->second / 1e3);
    wrong.push_back({lost, words});
  }
  std::fprintf(stderr, "\r");
  std::printf("%-14s%-26s%8s%12s%14s%14s%10s\n", "strategy", "problems", "count", "call us",
              "ns an update", "ns a cell", "worst");
  for (const auto& [of, measured] : samples) {
    if (measured.size() < 4) continue;
    const std::array<double, 3> x = fitted(measured);
    double worst = 1;
    for (const Sample& s : measured) {
      const double part = (x[0] + x[1] * s.updates + x[2] * s.cells) / s.ns;
      worst = std::max({worst, part, 1 / part});
    }
    std::printf("%-14s%-26s%8zu%12.1f%14.4f%14.4f%9.1fx\n", of.first.c_str(), of.second.c_str(),
                measured.size(), x[0] / 1e3, x[1], x[2], worst);
  }
  std::sort(wrong.begin(), wrong.end(),
            [](const Choice& a, const Choice& b) { return a.lost > b.lost; });
  std::printf("\n%zu of %d choices cost more than a quarter\n", wrong.size(), planned);
  for (const Choice& one : wrong) std::printf("%s\n", one.words.c_str());
  return 0;
}

}  // namespace
}  // namespace sow::bench

int main() { return sow::bench::tune(); }
