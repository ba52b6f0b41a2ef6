// SPDX-License-Identifier: Apache-2.0
// Tests of tensors over memory that somebody else owns: spans, const spans, mdspans.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#if __has_include(<mdspan>)
#include <mdspan>
#endif

#include "sow/sow.h"

namespace sow {
namespace {

TEST(ContractWrap, ASpanIsWrittenInPlace) {
  std::vector<float> values(6);
  const Tensor x = Tensor::wrap(std::span(values), {2, 3});
  EXPECT_FALSE(x.read_only());
  index_add_(x, 0, Tensor::of<int64_t>({1, 1}), Tensor::ones({2, 3}, DType::float32));
  EXPECT_EQ(values, (std::vector<float>{0, 0, 0, 2, 2, 2}));
  EXPECT_EQ(x.data<float>(), values.data());
  EXPECT_EQ(Tensor::wrap(std::span(values)).shape(), Dims({6}));
  std::array<int64_t, 4> four = {1, 2, 3, 4};
  EXPECT_EQ(Tensor::wrap(std::span(four)).to_vector<int64_t>().back(), 4);
}

TEST(ContractWrap, ConstElementsMakeAReadOnlyTensor) {
  const std::vector<double> values = {1, 2, 3, 4};
  const Tensor x = Tensor::wrap(std::span(values), {2, 2});
  EXPECT_TRUE(x.read_only());
  EXPECT_EQ(x.data<const double>(), values.data());
  EXPECT_THROW(x.data<double>(), Error);
  EXPECT_THROW(x.fill_(0), Error);
  EXPECT_THROW(scatter_(x, 0, Tensor::of<int64_t>({0}, {1, 1}), 1.0), Error);
  EXPECT_TRUE(x.transpose(0, 1).read_only());
  EXPECT_EQ(scatter(x, 0, Tensor::of<int64_t>({0}, {1, 1}), 9.0).to_vector<double>(),
            (std::vector<double>{9, 2, 3, 4}));
  EXPECT_EQ(values, (std::vector<double>{1, 2, 3, 4}));
}

TEST(ContractWrap, StridesStayWithinTheSpan) {
  std::vector<int32_t> values = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::span<int32_t> span(values);
  EXPECT_EQ(Tensor::wrap(span, {2, 2}, Dims{4, 2}).to_vector<int32_t>(),
            (std::vector<int32_t>{0, 2, 4, 6}));
  EXPECT_EQ(Tensor::wrap(span, {3, 2}, Dims{0, 7}).numel(), 6);
  EXPECT_EQ(Tensor::wrap(span.first(0), {0, 5}).numel(), 0);
  EXPECT_EQ(Tensor::wrap(std::span<const int32_t>(), {0}).numel(), 0);
  EXPECT_THROW(Tensor::wrap(span, {3, 3}), Error);
  EXPECT_THROW(Tensor::wrap(span, {2, 2}, Dims{4, 4}), Error);
  EXPECT_THROW(Tensor::wrap(span, {2}, Dims{-1}), Error);
  EXPECT_THROW(Tensor::wrap(span, {2, 2}, Dims{1}), Error);
  EXPECT_THROW(Tensor::wrap(span.first(0), {1}), Error);
  EXPECT_THROW(Tensor::wrap(span, {-1}), Error);
}

// What wrap() looks at of an mdspan, for compilers that have none.
template <class T>
struct View {
  using element_type = T;
  using data_handle_type = T*;
  struct Mapping {
    std::array<int, 2> strides;
    int stride(size_t d) const { return strides[d]; }
  };
  T* first;
  std::array<int, 2> extents;
  Mapping layout;
  static constexpr size_t rank() { return 2; }
  int extent(size_t d) const { return extents[d]; }
  const Mapping& mapping() const { return layout; }
  T* data_handle() const { return first; }
};

TEST(ContractWrap, AViewWithStrides) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const View<const float> columns{values.data(), {3, 2}, {{1, 3}}};
  const Tensor x = Tensor::wrap(columns);
  EXPECT_TRUE(x.read_only());
  EXPECT_EQ(x.shape(), Dims({3, 2}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  const View<float> rows{values.data(), {2, 3}, {{3, 1}}};
  Tensor::wrap(rows).fill_(7);
  EXPECT_EQ(values, std::vector<float>(6, 7.f));
}

#if defined(__cpp_lib_mdspan)
TEST(ContractWrap, AnMdspan) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::mdspan<const float, std::dextents<int, 2>, std::layout_left> view(values.data(), 3, 2);
  EXPECT_EQ(Tensor::wrap(view).to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}
#endif

}  // namespace
}  // namespace sow
