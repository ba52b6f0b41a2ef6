// SPDX-License-Identifier: Apache-2.0
// Plans on a device: made once for whatever data, equal where the facts are, run on arrays that
// they were not made for, and printed.
#include "transfer/plan/plan.h"

#include "cuda/device_problem.h"
#include "sow/ops.h"
#include "transfer/plan/plan_cache.h"

namespace sow::test {
namespace {

detail::Plan plan_of(const DeviceProblem& problem) {
  return detail::planned_for(problem.transfer(), kGpu).plan;
}

TEST_F(Cuda, APlanServesOtherArraysOfTheSameLayout) {
  int kept = 0, moved = 0;
  for (uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    Draw draw(seed), same(seed), other(seed + 1000);
    Problem problem = draw_problem(draw);
    const Problem twin = draw_problem(same);
    if (problem.too_few_values) continue;
    const DeviceProblem first(problem, draw);
    DeviceProblem second(twin, same), shifted(problem, other);
    const detail::Plan plan = plan_of(first);
    ASSERT_NE(plan.on_device, nullptr);
    const detail::Plan again = plan_of(second);
    EXPECT_TRUE(plan == again) << describe(problem);
    kept += plan.on_device == again.on_device;
    const Buffer before = problem.destination;
    run_reference(problem.transfer);
    for (DeviceProblem* arrays : {&second, &shifted}) {
      arrays->set_destination(before);
      detail::device_table(DeviceType::cuda)
          .run_plan(arrays->transfer(), *plan.on_device, kGpu.index);
      cuda::check();
      EXPECT_TRUE(arrays->destination() == problem.destination) << describe(problem);
      ++moved;
    }
  }
  EXPECT_GT(kept, 200);
  EXPECT_GT(moved, 600);
}

TEST_F(Cuda, PlansTellStrategiesApart) {
  const Tensor few = Tensor::zeros({8}, DType::float32, kGpu),
               many = Tensor::zeros({5'000'000}, DType::float32, kGpu);
  const Tensor keys = Tensor::zeros({100'000}, DType::int64, kGpu),
               ones = Tensor::ones({100'000}, DType::float32, kGpu);
  const std::string into_few = explain([&] { few.scatter_add_(0, keys, ones); }),
                    into_many = explain([&] { many.scatter_add_(0, keys, ones); });
  EXPECT_NE(into_few.find("on cuda:0\n  strategy     bins:"), std::string::npos) << into_few;
  EXPECT_NE(into_few.find("bytes"), std::string::npos) << into_few;
  EXPECT_NE(into_few, into_many);
  EXPECT_EQ(few.to_vector<float>(),
            std::vector<float>(8, 0));  // nothing of the caller's is written
}

}  // namespace
}  // namespace sow::test
