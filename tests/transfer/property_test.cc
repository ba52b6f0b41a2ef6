// SPDX-License-Identifier: Apache-2.0
// The heart of the tests: whatever Transfer is drawn, every strategy that supports it gives the
// reference's bits, for any number of threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "core/isa.h"
#include "core/threads/parallel.h"
#include "sow/error.h"
#include "transfer/plan/plan.h"
#include "transfer/random_transfer.h"

namespace sow::test {
namespace {

using detail::Canonical;
using detail::Isa;
using detail::MaskSide;
using detail::Plan;
using detail::Strategy;

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

uint64_t first_seed() { return setting("SOW_TEST_SEED", 1); }
uint64_t problem_count() { return setting("SOW_TEST_PROBLEMS", 20000); }

class ThreadCount {
 public:
  explicit ThreadCount(int count) : previous_(get_num_threads()) { set_num_threads(count); }
  ~ThreadCount() { set_num_threads(previous_); }

 private:
  int previous_;
};

struct Case {
  uint64_t seed;
  Problem problem;
  Canonical canonical;
  Buffer before;
  Buffer expected;
};

Case make_case(uint64_t seed) {
  Draw draw(seed);
  Case c;
  c.seed = seed;
  c.problem = draw_problem(draw);
  c.before = c.problem.destination;
  const auto& transfer = c.problem.transfer;
  if (transfer.mask_side == MaskSide::none) c.canonical = canonicalize(transfer);
  for (const int64_t extent : transfer.shape) c.canonical.empty |= extent == 0;
  if (!c.problem.too_few_values) run_reference(c.problem.transfer);
  c.expected = c.problem.destination;
  return c;
}

// Workspace as a strategy is promised it: aligned, of just that size, and full of rubbish.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kAlign, '\xa5') {}
  char* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (kAlign - address % kAlign) % kAlign;
  }
  bool overrun() {
    const char* end = memory_.data() + memory_.size();
    for (const char* at = data() + bytes_; at != end; ++at) {
      if (*at != '\xa5') return true;
    }
    return false;
  }

 private:
  static constexpr size_t kAlign = 64;
  size_t bytes_;
  std::vector<char> memory_;
};

class Checker {
 public:
  // Runs one case one way and compares the whole destination with its guard bytes.
  template <class F>
  void check(Case& c, const std::string& way, F&& run) {
    c.problem.destination = c.before;
    bool refused = false;
    std::string complaint;
    try {
      run();
    } catch (const Error& error) {
      refused = error.kind() == ErrorKind::shape;
      complaint = error.what();
    }
    if (refused != c.problem.too_few_values || (!refused && !complaint.empty())) {
      return fail(c, way, complaint.empty() ? "too few values went unnoticed" : complaint);
    }
    if (c.problem.destination == c.expected) return;
    size_t at = 0;
    while (c.problem.destination[at] == c.expected[at]) ++at;
    const size_t element = at / size_of(c.problem.transfer.dtype);
    fail(c, way,
         "differs from the reference at element " + std::to_string(element) + " of " +
             std::to_string(c.expected.size() / size_of(c.problem.transfer.dtype)));
  }

  void check_strategy(Case& c, const Strategy& strategy, int threads, const std::string& note) {
    const auto& transfer = c.problem.transfer;
    if (c.canonical.empty || !strategy.supports(transfer, c.canonical)) return;
    const bool serial = std::string_view(strategy.name) == "reference";
    if (serial && threads != 1) return;  // neither threads nor instructions are anything to it
    ++uses_[strategy.name];
    const detail::ShareSmallWork share(threads > 2);
    const size_t bytes = strategy.workspace(transfer, c.canonical, threads);
    const Plan plan{&strategy, threads, bytes};
    Workspace workspace(bytes);
    const std::string way =
        std::string(strategy.name) + " with " + std::to_string(threads) + " threads" + note;
    check(c, way, [&] { strategy.run(transfer, c.canonical, plan, workspace.data()); });
    if (workspace.overrun()) fail(c, way, "wrote past its workspace");
  }

  void fail(const Case& c, const std::string& way, const std::string& what) {
    ++failures_;
    ADD_FAILURE() << way << ": " << what << "\n  " << describe(c.problem)
                  << "\n  replay: SOW_TEST_SEED=" << c.seed << " SOW_TEST_PROBLEMS=1";
  }

  bool gave_up() const { return failures_ >= 10; }
  const std::map<std::string, int>& uses() const { return uses_; }

 private:
  int failures_ = 0;
  std::map<std::string, int> uses_;
};

void check_on_every_isa(Checker& checker, Case& c) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (!isa_available(isa)) continue;
    const detail::ScopedIsa forced(isa);
    for (const Strategy* strategy : detail::cpu_strategies()) {
      checker.check_strategy(c, *strategy, 2, std::string(" on ") + isa_name(isa));
    }
  }
}

// Threads outermost: starting and stopping them costs more than most of the problems.
void check_batch(Checker& checker, std::vector<Case>& batch) {
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadCount count(threads);
    for (Case& c : batch) {
      for (const Strategy* strategy : detail::cpu_strategies()) {
        checker.check_strategy(c, *strategy, threads, "");
      }
      checker.check(c, "the planner's choice", [&] { execute(c.problem.transfer, Device{}); });
      if (threads == 2) check_on_every_isa(checker, c);
      if (checker.gave_up()) return;
    }
  }
}

TEST(Property, EveryStrategyGivesTheReferencesBits) {
  constexpr uint64_t kBatch = 100;
  const uint64_t first = first_seed(), last = first + problem_count();
  Checker checker;
  std::set<std::pair<DType, Reduce>> drawn;
  for (uint64_t seed = first; seed < last && !checker.gave_up(); seed += kBatch) {
    std::vector<Case> batch;
    for (uint64_t s = seed; s < std::min(seed + kBatch, last); ++s) {
      batch.push_back(make_case(s));
      const auto& transfer = batch.back().problem.transfer;
      if (transfer.mask_side == MaskSide::none) drawn.insert({transfer.dtype, transfer.reduce});
    }
    check_batch(checker, batch);
  }
  if (problem_count() < 5000) return;  // a replay, or a slow build: too few to meet every strategy
  for (const Strategy* strategy : detail::cpu_strategies()) {
    EXPECT_TRUE(checker.uses().count(strategy->name)) << strategy->name << " was never exercised";
  }
  // 15 types times 9 reductions, less amax and amin of the two complex types, the mean of bool, and
  // the bits of six types that have a fraction.
  EXPECT_EQ(drawn.size(), 15u * 9u - 2u * 2u - 1u - 3u * 6u);
}

}  // namespace
}  // namespace sow::test
