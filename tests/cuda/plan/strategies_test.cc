// SPDX-License-Identifier: Apache-2.0
// Whatever Transfer is drawn, every strategy of the backend gives the reference's bits.
#include <cstdlib>
#include <map>
#include <set>

#include "cuda/device_problem.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// What a call leaves when it had too few values: the destination as it was, or the base.
void run_refused(const detail::Transfer& transfer) {
  if (transfer.base.data == nullptr) return;
  detail::Transfer all_false = transfer;
  char none = 0;
  all_false.mask.data = &none;
  all_false.mask.strides = Dims(transfer.shape.size(), 0);
  run_reference(all_false);
}

struct Checker {
  int failures = 0;
  std::map<std::string, int> uses;

  void check(Problem& problem, DeviceProblem& on_device, const Buffer& before,
             const Buffer& expected, const std::string& way, uint64_t seed) {
    on_device.set_destination(before);
    std::string complaint;
    try {
      execute(on_device.transfer(), kGpu);
      cuda::check();
    } catch (const Error& error) {
      complaint = error.what();
    }
    const std::string replay = "\n  " + describe(problem) +
                               "\n  replay: SOW_TEST_SEED=" + std::to_string(seed) +
                               " SOW_TEST_PROBLEMS=1";
    if (complaint.empty() == problem.too_few_values) {
      ++failures;
      ADD_FAILURE() << way << ": "
                    << (complaint.empty() ? "too few values went unnoticed" : complaint) << replay;
      return;
    }
    const Buffer result = on_device.destination();
    if (result == expected) return;
    size_t at = 0;
    while (result[at] == expected[at]) ++at;
    ++failures;
    ADD_FAILURE() << way << ": differs from the reference at element "
                  << at / size_of(problem.transfer.dtype) << " of "
                  << expected.size() / size_of(problem.transfer.dtype) << replay;
  }
};

TEST_F(Cuda, EveryStrategyGivesTheReferencesBits) {
  const uint64_t first = setting("SOW_TEST_SEED", 1),
                 last = first + setting("SOW_TEST_PROBLEMS", 20000);
  const std::vector<std::string> names = detail::cuda_strategies();
  Checker checker;
  std::set<std::pair<DType, Reduce>> drawn;
  for (uint64_t seed = first; seed < last && checker.failures < 10; ++seed) {
    Draw draw(seed);
    Problem problem = draw_problem(draw);
    DeviceProblem on_device(problem, draw);
    const Buffer before = problem.destination;
    if (problem.too_few_values)
      run_refused(problem.transfer);
    else
      run_reference(problem.transfer);
    const Buffer expected = problem.destination;
    if (problem.transfer.mask_side == detail::MaskSide::none) {
      drawn.insert({problem.transfer.dtype, problem.transfer.reduce});
    }
    checker.check(problem, on_device, before, expected, "the planner's choice", seed);
    for (const std::string& name : names) {
      if (!detail::cuda_supports(name.c_str(), on_device.transfer(), 0)) continue;
      ++checker.uses[name];
      const detail::ForceStrategy forced(name.c_str());
      checker.check(problem, on_device, before, expected, name, seed);
    }
  }
  if (last - first < 500) return;  // a replay
  for (const std::string& name : names)
    EXPECT_TRUE(checker.uses.count(name)) << name << " was never exercised";
  if (last - first < 5000) return;
  EXPECT_EQ(drawn.size(), 15u * 9u - 2u * 2u - 1u - 3u * 6u);
}

}  // namespace
}  // namespace sow::test
