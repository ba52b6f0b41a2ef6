// SPDX-License-Identifier: Apache-2.0
// The file of tuned costs: what it may hold, how a bad one is refused, and that no result depends
// on it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu/element_cases.h"
#include "transfer/plan/tuning_file.h"

namespace sow::detail {
namespace {

// Puts the costs back.
class Costs {
 public:
  Costs() {
    for (const TunedCost& cost : tuned_costs()) before_.push_back(*cost.value);
  }
  ~Costs() {
    for (size_t i = 0; i < before_.size(); ++i) *tuned_costs()[i].value = before_[i];
  }
  const std::vector<double>& before() const { return before_; }

 private:
  std::vector<double> before_;
};

std::string refusal(const std::string& text) {
  try {
    read_tuning(text, "costs.txt", Isa::portable);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Tuning, WhatIsWrittenIsRead) {
  const Costs costs;
  std::vector<double> values;
  for (size_t i = 0; i < tuned_costs().size(); ++i) values.push_back(0.5 + static_cast<double>(i));
  read_tuning(write_tuning(Isa::portable, values), "costs.txt", Isa::portable);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(*tuned_costs()[i].value, values[i]);
}

TEST(Tuning, BadFilesAreRefusedAndChangeNothing) {
  const Costs costs;
  const std::string head = "sow tuning 1 portable\n";
  const std::pair<std::string, std::string> bad[] = {
      {"", "line 1"},
      {"sow tuning 2 portable\n", "line 1"},
      {"sow tuning 1 avx2\ndirect 1\n", "'sow tuning 1 portable' was expected"},
      {head + "direct 3\ndirectly 1\n", "line 3: there is no cost 'directly'"},
      {head + "direct 3\nsort\n", "line 3"},
      {head + "direct 3\nsort 1 2\n", "is no name and number"},
      {head + "direct 3\nsort -1\n", "above 0"},
      {head + "direct 3\nsort nan\n", "line 3"},
      {head + "direct 3\nsort 1e9\n", "at most 1000000"},
      {std::string("\0\1\2", 3), "costs.txt, line 1"},
  };
  for (const auto& [text, words] : bad) {
    EXPECT_NE(refusal(text).find(words), std::string::npos) << text << ": " << refusal(text);
    for (size_t i = 0; i < costs.before().size(); ++i)
      EXPECT_EQ(*tuned_costs()[i].value, costs.before()[i]);
  }
  EXPECT_EQ(refusal(head + "# a remark\n\ndirect 3\n"), "");
}

// Whatever the costs are, what is chosen gives the reference's bits.
TEST(Tuning, ResultsDoNotDependOnIt) {
  const Costs costs;
  std::mt19937_64 random(3);
  ProblemMaker maker(4);
  for (int round = 0; round < 60; ++round) {
    for (size_t i = 0; i < costs.before().size(); ++i)
      *tuned_costs()[i].value =
          costs.before()[i] * std::ldexp(1.0, static_cast<int>(random() % 21) - 10);
    const ProblemSizes sizes{
        1 + static_cast<int64_t>(random() % 9), 1 + static_cast<int64_t>(random() % 3000),
        1 + static_cast<int64_t>(random() % 3), 1 + static_cast<int64_t>(random() % 900)};
    const DType dtypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::int64};
    const Reduce reduces[] = {Reduce::add, Reduce::mul, Reduce::amax, Reduce::assign};
    Problem problem =
        maker.make_plain(sizes, dtypes[random() % 4], reduces[random() % 4], Values::plain);
    const Canonical canonical = canonicalize(problem.transfer);
    if (canonical.empty) continue;
    const Plan plan = plan_for(problem.transfer, canonical, 1 + static_cast<int>(random() % 3));
    const Bytes before = problem.dst;
    run_reference(problem.transfer);
    const Bytes expected = problem.dst;
    std::copy(before.begin(), before.end(), problem.dst.begin());
    std::vector<char> memory(plan.workspace + 64);
    char* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    plan.strategy->run(problem.transfer, canonical, plan, aligned);
    EXPECT_EQ(problem.dst, expected) << plan.strategy->name << ": " << problem.text;
  }
}

}  // namespace
}  // namespace sow::detail
