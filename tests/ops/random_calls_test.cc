// SPDX-License-Identifier: Apache-2.0
// Random calls of every family, as the fuzzer makes them: planned and by the reference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "random_call.h"

namespace sow::test {
namespace {

TEST(RandomCalls, GiveTheReferencesBitsOrItsError) {
  const char* problems = std::getenv("SOW_TEST_PROBLEMS");
  const uint64_t count = problems ? std::strtoull(problems, nullptr, 10) : 20000;
  std::map<std::string, int> succeeded, failed;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const RandomCall call{Draw(seed)};
    const Outcome planned = call.run(nullptr, 1 + seed / 200 % 3);
    ASSERT_TRUE(planned == call.run("reference", 1))
        << call.name() << " with seed " << seed << ": " << planned.error;
    ++(planned.error.empty() ? succeeded : failed)[call.name()];
  }
  for (const auto& [name, times] : failed) {
    EXPECT_GT(succeeded[name], times / 4) << name << " is hardly ever called rightly";
  }
}

}  // namespace
}  // namespace sow::test
