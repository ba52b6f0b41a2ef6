// SPDX-License-Identifier: Apache-2.0
// planned_for(): the plan of each Transfer, whatever was planned before it.
#include "transfer/plan/plan_cache.h"

#include <gtest/gtest.h>

#include "sow/sow.h"
#include "transfer/random_transfer.h"

namespace sow::test {
namespace {

using detail::Axes;
using detail::Canonical;
using detail::Plan;
using detail::Planned;
using detail::planned_for;
using detail::Transfer;

bool same(const Axes& a, const Axes& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size != b[i].size || a[i].dst != b[i].dst || a[i].src != b[i].src) return false;
    if (!(a[i].index == b[i].index)) return false;
  }
  return true;
}

void expect_right(const Transfer& transfer) {
  const bool masked = transfer.mask_side != detail::MaskSide::none;
  bool empty = false;
  for (const int64_t extent : transfer.shape) empty = empty || extent == 0;
  const Canonical canonical = masked ? Canonical() : canonicalize(transfer);
  const Planned& planned = planned_for(transfer);
  ASSERT_EQ(planned.canonical.empty, masked ? empty : canonical.empty);
  if (planned.canonical.empty) return;
  EXPECT_TRUE(planned.plan == plan_transfer(transfer, canonical));
  if (masked) return;
  EXPECT_TRUE(same(planned.canonical.outer, canonical.outer));
  EXPECT_TRUE(same(planned.canonical.items, canonical.items));
  EXPECT_EQ(planned.canonical.row.size, canonical.row.size);
  EXPECT_EQ(planned.canonical.row.dst, canonical.row.dst);
}

TEST(PlanCache, GivesEachTransferItsOwnPlan) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const Problem first = draw_problem(draw), second = draw_problem(draw);
    expect_right(first.transfer);
    expect_right(second.transfer);
    expect_right(first.transfer);
  }
}

// One fact is changed at a time, so that a fact that were forgotten would give the old plan.
TEST(PlanCache, SeesEveryFact) {
  const int threads = get_num_threads();
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Draw draw(seed);
    const Problem problem = draw_problem(draw);
    Transfer transfer = problem.transfer;
    expect_right(transfer);
    set_num_threads(threads + 1);
    expect_right(transfer);
    set_num_threads(threads);
    transfer.include_self = !transfer.include_self;
    expect_right(transfer);
    transfer.order = nullptr;
    expect_right(transfer);
    transfer.order = problem.transfer.order;
    expect_right(transfer);
    for (int64_t& extent : transfer.shape) extent += extent > 1 ? 4096 : 0;
    expect_right(transfer);
    for (detail::IndexOperand& index : transfer.dst_index) index.extent *= 1000;
    expect_right(transfer);
    for (int64_t& stride : transfer.src.strides) stride *= 2;
    expect_right(transfer);
  }
}

TEST(PlanCache, LooksAtForcedStrategies) {
  Draw draw(1);
  const Problem problem = draw_problem(draw);
  expect_right(problem.transfer);
  const detail::ForceStrategy force("reference");
  expect_right(problem.transfer);
}

// Waking a thread takes as long as adding up some thousand rows.
TEST(Planner, WakesThreadsOnlyForWhatTheySave) {
  const int before = get_num_threads();
  set_num_threads(2);
  const auto threads_for = [](int64_t items, int64_t columns, int64_t places) {
    const Tensor x = Tensor::zeros({places, columns}, DType::float32);
    const Tensor src = Tensor::ones({items, columns}, DType::float32);
    const Tensor index = Tensor::zeros({items}, DType::int64);
    const std::string words = explain([&] { index_add_(x, 0, index, src); });
    return words.find("up to 2\n") != std::string::npos ? 2 : 1;
  };
  EXPECT_EQ(threads_for(1000, 48, 200), 1);
  EXPECT_EQ(threads_for(100000, 64, 10000), 2);
  set_num_threads(before);
}

}  // namespace
}  // namespace sow::test
