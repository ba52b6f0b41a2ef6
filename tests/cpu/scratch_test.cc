// SPDX-License-Identifier: Apache-2.0
// How much memory operations take besides their operands: counted by the pool, strategy by
// strategy.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "memory_peak.h"
#include "sow/sow.h"
#include "transfer/plan/plan.h"

namespace sow::detail {
namespace {

// Scratch of small problems may be this much larger than what they work on.
constexpr int64_t kSmall = 256 * 1024;

// What explain() says after a label, step by step; it always says something.
std::vector<std::string> told(const std::function<void()>& call, const std::string& label) {
  const std::string words = explain(call);
  std::vector<std::string> found;
  for (size_t at = words.find(label); at != std::string::npos; at = words.find(label, at)) {
    at += label.size();
    found.push_back(words.substr(at, words.find_first_of(":\n", at) - at));
  }
  EXPECT_FALSE(found.empty()) << "no \"" << label << "\" in: " << words;
  return found;
}

int64_t planned(const std::function<void()>& call) {
  int64_t most = 0;
  for (const std::string& bytes : told(call, "workspace    ")) {
    most = std::max<int64_t>(most, std::stoll(bytes));
  }
  return most;
}

std::string strategy_of(const std::function<void()>& call) {
  const std::vector<std::string> names = told(call, "strategy     ");
  return names.empty() ? "" : names[0];
}

class Threads {
 public:
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_ = get_num_threads();
};

struct Sizes {
  int64_t outer, items, width, places;
};

// Random keys, ones as values: what strategies plan for depends on neither.
struct Arrays {
  Arrays(const Sizes& sizes, DType dtype) {
    std::mt19937_64 random(5);
    x = Tensor::zeros({sizes.outer, sizes.places, sizes.width}, dtype);
    src = Tensor::ones({sizes.outer, sizes.items, sizes.width}, dtype);
    std::vector<int64_t> places(static_cast<size_t>(sizes.items));
    for (int64_t& place : places)
      place = static_cast<int64_t>(random() % static_cast<uint64_t>(sizes.places));
    keys = Tensor::of(places, {sizes.items});
    bytes = static_cast<int64_t>(x.nbytes() + src.nbytes() + keys.nbytes());
  }
  void run(Reduce reduce) const {
    if (reduce == Reduce::assign)
      index_copy_(x, 1, keys, src);
    else
      index_reduce_(x, 1, keys, src, reduce);
  }
  Tensor x, src, keys;
  int64_t bytes;
};

constexpr Sizes kSizes[] = {{1, 100, 1, 100},      {1, 50000, 1, 1000}, {1, 50000, 1, 100000},
                            {1, 200000, 1, 7},     {1, 3000, 64, 300},  {1, 3000, 64, 6000},
                            {64, 500, 1, 4000},    {16, 200, 16, 50},   {1, 300000, 1, 1000000},
                            {1, 2000, 1, 2000000}, {300, 1000, 1, 10},  {1, 3000, 8, 300}};

// The sanitizers' runs draw few problems, and here leave out the large ones: they take minutes
// there.
bool is_left_out(const Sizes& sizes) {
  const char* problems = std::getenv("SOW_TEST_PROBLEMS");
  const bool quick = problems != nullptr && std::atoi(problems) < 5000;
  return quick && (sizes.outer * sizes.items * sizes.width > 60000 || sizes.places > 200000);
}

class Scratch : public testing::TestWithParam<DType> {};

TEST_P(Scratch, OfThePlannersChoiceStaysBelowTheOperands) {
  for (const int threads : {1, 2, 7}) {
    const Threads set(threads);
    for (const Sizes& sizes : kSizes) {
      if (is_left_out(sizes)) continue;
      const Arrays arrays(sizes, GetParam());
      for (const Reduce reduce :
           {Reduce::assign, Reduce::add, Reduce::mul, Reduce::amax, Reduce::mean}) {
        if (reduce == Reduce::amax && is_complex(GetParam())) continue;
        const auto call = [&] { arrays.run(reduce); };
        // A mean of one-byte numbers has no place to add up in, and its keys and positions, sorted
        // out of place, are longer than an 8-byte key and the number: 16 bytes an update.
        const int64_t allowed = std::max(arrays.bytes, 16 * sizes.outer * sizes.items);
        EXPECT_LE(peak_of(call), allowed + kSmall)
            << strategy_of(call) << " " << name_of(reduce) << " " << sizes.outer << "x"
            << sizes.items << "x" << sizes.width << " to " << sizes.places << ", " << threads
            << " threads";
      }
    }
  }
}

TEST_P(Scratch, OfEveryStrategyIsWhatItPlanned) {
  const Threads set(3);
  std::map<std::string, int> tried;
  for (const Sizes& sizes : kSizes) {
    if (is_left_out(sizes)) continue;
    const Arrays arrays(sizes, GetParam());
    for (const Reduce reduce : {Reduce::assign, Reduce::add, Reduce::mean}) {
      const auto call = [&] { arrays.run(reduce); };
      for (const Strategy* strategy : cpu_strategies()) {
        const ForceStrategy force(strategy->name);
        if (strategy_of(call) != strategy->name) continue;
        ++tried[strategy->name];
        EXPECT_LE(peak_of(call), planned(call))
            << strategy->name << " " << name_of(reduce) << " " << sizes.items;
      }
    }
  }
  for (const char* name :
       {"direct", "small", "owned", "ordered", "block", "private", "partition"}) {
    EXPECT_GT(tried[name], 0) << name << " was never tried";
  }
  if (size_of(GetParam()) < 8) {
    EXPECT_GT(tried["short_rows"], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Scratch,
                         testing::Values(DType::int8, DType::float16, DType::float32,
                                         DType::float64, DType::complex128),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(MaskScratch, IsAThousandthOfTheElements) {
  for (const int threads : {1, 2, 7}) {
    const Threads set(threads);
    for (const int64_t elements : {1000, 100000, 4000000}) {
      const Tensor x = Tensor::zeros({elements / 10, 10}, DType::float32);
      const Tensor src = Tensor::ones({elements}, DType::float32);
      for (const Tensor& mask : {Tensor::ones({elements / 10, 10}, DType::bool_),
                                 Tensor::ones({elements / 10, 1}, DType::bool_)}) {
        const int64_t allowed = elements / 1000 + 1024;
        EXPECT_LE(peak_of([&] { masked_scatter_(x, mask, src); }), allowed) << elements;
        EXPECT_LE(peak_of([&] { masked_fill_(x, mask, 1.0); }), allowed) << elements;
        Tensor out;
        EXPECT_LE(peak_of([&] { out = masked_scatter(x, mask, src); }),
                  allowed + static_cast<int64_t>(x.nbytes()))
            << elements;
        EXPECT_LE(peak_of([&] { out = masked_select(x, mask); }),
                  allowed + static_cast<int64_t>(x.nbytes()))
            << elements;
      }
    }
  }
}

TEST(MoveScratch, IsNone) {
  const Threads set(2);
  const Tensor x = Tensor::zeros({512, 512}, DType::float32),
               src = Tensor::ones({512}, DType::float32);
  const Tensor keys = Tensor::arange(512);
  Tensor out;
  EXPECT_EQ(peak_of([&] { diagonal_scatter_(x, src); }), 0);
  EXPECT_LE(peak_of([&] { out = diagonal_scatter(x, src); }), static_cast<int64_t>(x.nbytes()));
  EXPECT_LE(peak_of([&] { out = index_select(x, 0, keys); }), static_cast<int64_t>(x.nbytes()));
}

}  // namespace
}  // namespace sow::detail
