// SPDX-License-Identifier: Apache-2.0
// Every strategy that folds updates against the reference, bit for bit.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cpu/strategies.h"
#include "fold_problem.h"
#include "sow/runtime.h"

namespace sow::detail {
namespace {

// How many problems each strategy was given that it supports.
using Tried = std::map<std::string, int>;

void expect_reference_bits(const Problem& problem, Tried& tried) {
  const Bytes expected = result_of(problem, k_reference, 1);
  ASSERT_FALSE(expected.empty());
  for (const Strategy* strategy : cpu_strategies()) {
    for (const int threads : {1, 3}) {
      const Bytes found = result_of(problem, *strategy, threads);
      if (found.empty()) break;
      ++tried[strategy->name];
      ASSERT_TRUE(found == expected)
          << strategy->name << " with " << threads << " threads: " << problem.text;
    }
  }
}

// Types x reductions x kinds of values over sizes that reach every way of working.
class Fold : public testing::TestWithParam<int> {};

TEST_P(Fold, GivesTheReferenceBits) {
  const DType dtype = static_cast<DType>(GetParam());
  ProblemMaker maker(GetParam() + 1);
  Tried tried;
  const ProblemSizes sizes[] = {{1, 1, 1, 1},    {1, 100, 1, 7},   {3, 50, 1, 40},
                                {2, 30, 5, 6},   {1, 600, 1, 64},  {1, 20, 70, 9},
                                {5, 9, 3, 1000}, {1, 700, 2, 1},   {1, 40, 1, 100000},
                                {40, 3, 1, 2},   {2, 600, 33, 20}, {3, 300, 1, 1200}};
  const ProblemSizes plain[] = {
      {1, 400, 3, 50}, {1, 200, 8, 90}, {1, 500, 2, 300}, {1, 90, 16, 30}};
  for (int reduce = 0; reduce < kReduceCount; ++reduce) {
    if (!is_reducible(dtype, static_cast<Reduce>(reduce))) continue;
    for (int values = 0; values < 4; ++values) {
      if (is_left_out(values + reduce + GetParam())) continue;
      for (const ProblemSizes& size : sizes) {
        const Problem problem =
            maker.make(size, dtype, static_cast<Reduce>(reduce), static_cast<Values>(values));
        expect_reference_bits(problem, tried);
        if (HasFatalFailure()) return;
      }
      for (const ProblemSizes& size : plain) {
        expect_reference_bits(
            maker.make_plain(size, dtype, static_cast<Reduce>(reduce), static_cast<Values>(values)),
            tried);
        if (HasFatalFailure()) return;
      }
    }
  }
  // Each that folds had its problems of this type; the others of the list move, or read masks.
  for (const char* name :
       {"direct", "small", "owned", "ordered", "block", "private", "partition", "reference"}) {
    EXPECT_GT(tried[name], 10) << name << " was hardly tried";
  }
  if (dtype != DType::bool_ && !is_complex(dtype)) {
    EXPECT_GT(tried["short_rows"], 3);
  }
}

// More updates than one fixed-point scale takes, and some of them of another kind: what is in fixed
// point and what is not must meet in one sum.
TEST(FixedPointSums, MeetThoseOfOtherKinds) {
  ProblemMaker maker(5);
  Tried tried;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    for (const Reduce reduce : {Reduce::add, Reduce::mean}) {
      for (const ProblemSizes size :
           {ProblemSizes{1, 70000, 1, 40}, ProblemSizes{1, 20000, 1, 9000}}) {
        for (int values = 0; values < 4; ++values) {
          if (is_left_out(values + static_cast<int>(reduce) + static_cast<int>(dtype))) continue;
          Problem problem = maker.make(size, dtype, reduce, static_cast<Values>(values));
          const int64_t count = static_cast<int64_t>(problem.src.size() / size_of(dtype));
          const Bytes other = random_elements(maker.random, dtype, count / 2,
                                              static_cast<Values>((values + 1) % 4));
          std::copy(other.begin(), other.end(), problem.src.begin());
          expect_reference_bits(problem, tried);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  for (const char* name : {"private", "partition", "ordered"}) {
    EXPECT_GT(tried[name], 5) << name << " was hardly tried";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Fold, testing::Range(0, kDTypeCount), [](const auto& info) {
  return std::string(name_of(static_cast<DType>(info.param)));
});

}  // namespace
}  // namespace sow::detail
