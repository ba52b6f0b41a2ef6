// SPDX-License-Identifier: Apache-2.0
// The threads that tests start: an exception in one is a failure of the test, told by its text.
#include "test_threads.h"

#include <gtest/gtest-spi.h>

#include <atomic>
#include <stdexcept>

namespace sow::test {
namespace {

TEST(TestThreads, AnExceptionFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(run_in_threads(3,
                                         [](int t) {
                                           if (t == 1) throw std::runtime_error("no such bucket");
                                         }),
                          "a thread threw: no such bucket");
  EXPECT_NONFATAL_FAILURE(run_in_threads(1, [](int) { throw 7; }), "no std::exception");
}

TEST(TestThreads, EveryThreadRuns) {
  std::atomic<int> sum{0};
  run_in_threads(8, [&](int t) { sum += t; });
  EXPECT_EQ(sum, 28);
}

}  // namespace
}  // namespace sow::test
