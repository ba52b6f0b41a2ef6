// SPDX-License-Identifier: Apache-2.0
// Whatever Transfer is drawn, in tiles of whatever shape it leaves the reference's bits.
#include "sow/limits.h"

#include <gtest/gtest.h>

#include <string>

#include "transfer/random_transfer.h"

namespace sow::test {
namespace {

TEST(Tiles, LeaveTheReferencesBits) {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 1500 && !::testing::Test::HasFailure(); ++seed) {
    Draw draw(seed);
    Problem problem = draw_problem(draw);
    if (problem.too_few_values || problem.transfer.shape.empty()) continue;
    const Buffer before = problem.destination;
    run_reference(problem.transfer);
    const Buffer expected = problem.destination;
    std::copy(before.begin(), before.end(), problem.destination.begin());
    Dims shape;
    for (size_t d = 0; d < problem.transfer.shape.size(); ++d) shape.push_back(draw.between(1, 6));
    const Tiles tiles(shape);
    const std::string said = explain([&] { execute(problem.transfer, Device{}); });
    if (said.find("at a time") == std::string::npos) continue;
    ++cut;
    EXPECT_TRUE(problem.destination == expected) << "seed " << seed << "\n" << describe(problem);
  }
  EXPECT_GT(cut, 250);
}

}  // namespace
}  // namespace sow::test
