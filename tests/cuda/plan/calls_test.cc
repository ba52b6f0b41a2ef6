// SPDX-License-Identifier: Apache-2.0
// Every operation, given the same arguments on the CPU and on the device, leaves the same bytes.
#include <cstdlib>

#include "cuda/device_problem.h"
#include "cuda/on_device.h"
#include "random_call.h"

namespace sow::test {
namespace {

TEST_F(Cuda, CallsLeaveTheCpusBytes) {
  const char* text = std::getenv("SOW_TEST_PROBLEMS");
  const uint64_t calls = text != nullptr ? std::strtoull(text, nullptr, 10) : 6000;
  std::map<std::string, int> right, wrong;
  for (uint64_t seed = 1; seed <= calls && !HasFailure(); ++seed) {
    const RandomCall on_cpu{Draw(seed)}, on_gpu{Draw(seed), kGpu};
    const Outcome expected = on_cpu.run(nullptr, 2);
    const Outcome found = on_gpu.run(nullptr, 2, [] { cuda::check(); });
    ++(expected.error.empty() ? right : wrong)[on_cpu.name()];
    EXPECT_EQ(found.error, expected.error) << on_cpu.name() << ", seed " << seed;
    EXPECT_EQ(found.shape, expected.shape) << on_cpu.name() << ", seed " << seed;
    EXPECT_TRUE(found.result == expected.result)
        << on_cpu.name() << ", seed " << seed << ": result";
    EXPECT_TRUE(found.destination == expected.destination)
        << on_cpu.name() << ", seed " << seed << ": destination";
  }
  if (calls < 3000) return;
  for (const auto& [name, count] : right) EXPECT_GT(count, 10) << name;
  EXPECT_GE(right.size(), 10u);
  EXPECT_GE(wrong.size(), 8u);
}

// Every case of the table of operations, in every type that it takes.
TEST_F(Cuda, EveryOperationInEveryType) {
  int calls = 0;
  for (const Case& one : all_cases()) {
    for (const DType dtype : kCaseTypes) {
      const TensorList inputs = in_type(one.inputs, dtype);
      Tensor expected;
      try {
        expected = one.call(inputs);
      } catch (const Error&) {
        continue;  // the type is none of this operation's
      }
      const Tensor found = one.call(on_gpu(inputs));
      ++calls;
      EXPECT_EQ(found.device(), kGpu) << one.name;
      EXPECT_TRUE(same_bits(found.to({}), expected)) << one.name << " of " << name_of(dtype);
    }
  }
  cuda::check();
  EXPECT_GT(calls, 800);
}

}  // namespace
}  // namespace sow::test
