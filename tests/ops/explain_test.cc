// SPDX-License-Identifier: Apache-2.0
// explain(): says how, and leaves the caller's tensors alone.
#include <gtest/gtest.h>

#include "sow/sow.h"
#include "transfer/plan/plan.h"

namespace sow {
namespace {

TEST(Explain, NamesOperationStrategyAndSizes) {
  const Tensor x = Tensor::zeros({4, 6}, DType::float32);
  const Tensor index = Tensor::zeros({4, 2}, DType::int64);
  const std::string words = explain([&] { put_along_axis(x, index, 1.0, 1, "add"); });
  EXPECT_NE(words.find("put_along_axis: add to indexed places float32 over [4, 2]"),
            std::string::npos)
      << words;
  EXPECT_NE(words.find("strategy"), std::string::npos) << words;
  EXPECT_NE(words.find("workspace"), std::string::npos) << words;
}

TEST(Explain, NamesTheStrategyThatMayTakeOver) {
  const detail::ForceStrategy forced("small");
  const Tensor index = Tensor::of<int64_t>({0, 1, 1});
  for (const DType dtype : {DType::float32, DType::int32}) {
    const Tensor x = Tensor::zeros({4}, dtype), source = Tensor::ones({3}, dtype);
    const std::string words = explain([&] { x.scatter_add_(0, index, source); });
    EXPECT_NE(words.find("strategy     small"), std::string::npos) << words;
    // Integers are added where they lie; only a float sum can turn out inexact.
    EXPECT_EQ(words.find("fallback     block") != std::string::npos, dtype == DType::float32)
        << words;
  }
}

TEST(Explain, WritesNothingInPlace) {
  const Tensor x = Tensor::zeros({4, 6}, DType::float32);
  const Tensor index = Tensor::zeros({4, 2}, DType::int64);
  explain([&] { put_along_axis_(x.transpose(0, 1), index.transpose(0, 1), 1.0, 0, "add"); });
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(24, 0));
}

TEST(Explain, SeesTheValuesThatStepsLookAt) {
  const Tensor mask =
      Tensor::of<bool>({true, false, true, true, false, false}, {2, 3}).transpose(0, 1);
  const Tensor x = Tensor::arange(6).reshape({3, 2});
  Tensor chosen;
  explain([&] { chosen = masked_select(x, mask); });
  EXPECT_EQ(chosen.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 4}));
}

TEST(Explain, ReportsBadCallsAsTheyAre) {
  const Tensor x = Tensor::zeros({4}, DType::float32);
  EXPECT_THROW(explain([&] { index_fill(x, 0, Tensor::of<int64_t>({4}), 1.0); }), Error);
}

}  // namespace
}  // namespace sow
