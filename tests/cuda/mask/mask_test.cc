// SPDX-License-Identifier: Apache-2.0
// What is chosen by a mask and where its trues lie, of sizes on either side of every border that
// the kernels have: lanes, parts, tiles, ranges.
#include <random>

#include "cuda/on_device.h"

namespace sow::test {
namespace {

constexpr int64_t kSizes[] = {1,
                              31,
                              32,
                              33,
                              511,
                              512,
                              513,
                              1023,
                              1025,
                              4095,
                              4096,
                              4097,
                              8191,
                              12'289,
                              65'535,
                              65'537,
                              131'073,
                              1'000'003,
                              (1024 << 12) + 17,
                              (1025 << 12) + 1};

// A byte that is not zero is true, whatever it is.
Tensor drawn_mask(int64_t count, double density, uint64_t seed) {
  std::mt19937_64 engine(seed);
  const Tensor mask = Tensor::empty({count}, DType::bool_);
  uint8_t* const bytes = static_cast<uint8_t*>(mask.data());
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t word = engine();
    const bool chosen = static_cast<double>(word >> 11) < density * 0x1p53;
    bytes[i] = !chosen ? 0 : seed % 2 == 0 ? 1 : static_cast<uint8_t>(1 + word % 255);
  }
  return mask;
}

int64_t positions(const Dims& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

Tensor drawn_values(const Dims& shape, DType dtype) {
  return in_type(reshape(to(Tensor::arange(positions(shape)), DType::float32), shape), dtype);
}

TEST_F(Cuda, MaskedSelectOfEverySizeGivesTheCpusBytes) {
  uint64_t seed = 0;
  for (const int64_t count : kSizes) {
    for (const double density : {0.0, 0.01, 0.1, 0.5, 1.0}) {
      const Tensor mask = drawn_mask(count, density, ++seed);
      const DType dtype = kCaseTypes[seed % std::size(kCaseTypes)];
      const Tensor x = drawn_values({count}, dtype);
      const Tensor found = masked_select(x.to(kGpu), mask.to(kGpu));
      EXPECT_TRUE(same_bits(found.to({}), masked_select(x, mask)))
          << count << " of " << name_of(dtype) << ", " << density << " true";
    }
  }
  cuda::check();
}

// Views that begin anywhere, steps between elements, masks that are expanded on either side.
TEST_F(Cuda, MaskedSelectOfViewsGivesTheCpusBytes) {
  const Tensor x = drawn_values({67, 301}, DType::float32), dx = x.to(kGpu);
  const Tensor mask = reshape(drawn_mask(67 * 301, 0.3, 7), {67, 301}), dmask = mask.to(kGpu);
  const auto expect_same = [](const Tensor& found, const Tensor& expected) {
    EXPECT_TRUE(same_bits(found.to({}), expected));
  };
  for (const int64_t from : {0, 1, 3, 5}) {
    expect_same(masked_select(dx.slice(1, from, 301), dmask.slice(1, from, 301)),
                masked_select(x.slice(1, from, 301), mask.slice(1, from, 301)));
    expect_same(masked_select(dx.slice(0, from, 67), dmask.slice(0, from, 67)),
                masked_select(x.slice(0, from, 67), mask.slice(0, from, 67)));
  }
  expect_same(masked_select(transpose(dx, 0, 1), transpose(dmask, 0, 1)),
              masked_select(transpose(x, 0, 1), transpose(mask, 0, 1)));
  expect_same(masked_select(dx, dmask.slice(1, 4, 5)), masked_select(x, mask.slice(1, 4, 5)));
  expect_same(masked_select(dx, dmask.slice(0, 4, 5)), masked_select(x, mask.slice(0, 4, 5)));
  cuda::check();
}

TEST_F(Cuda, NonzeroOfEveryShapeGivesTheCpusCoordinates) {
  const std::vector<Dims> shapes = {{1},
                                    {4097},
                                    {300'007},
                                    {17, 1},
                                    {1, 9000},
                                    {700, 801},
                                    {31, 33, 65},
                                    {7, 1, 5, 300},
                                    {3, 4, 5, 6, 7, 8},
                                    {2, 3, 2, 3, 2, 3, 2, 3, 2},
                                    {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}};
  uint64_t seed = 0;
  for (const Dims& shape : shapes) {
    for (const double density : {0.0, 0.02, 0.3, 1.0}) {
      const Tensor mask = reshape(drawn_mask(positions(shape), density, ++seed), shape);
      EXPECT_TRUE(same_bits(nonzero(mask.to(kGpu)).to({}), nonzero(mask)))
          << to_string(shape) << ", " << density << " true";
    }
  }
  const Tensor x = drawn_values({50, 60}, DType::float64);
  EXPECT_TRUE(same_bits(nonzero(transpose(x.to(kGpu), 0, 1)).to({}), nonzero(transpose(x, 0, 1))));
  cuda::check();
}

// More positions than 31 bits count.
TEST_F(Cuda, NonzeroOfVeryManyPositions) {
  const int64_t rows = (1 << 16) + 3, columns = 1 << 15;
  const Tensor mask = Tensor::zeros({rows, columns}, DType::bool_, kGpu);
  const std::vector<int64_t> at = {0, 5, 777, 31'999, (1 << 16) - 1, 1 << 16, rows - 1};
  std::vector<int64_t> expected;
  for (const int64_t row : at) {
    const int64_t column = row * 7919 % columns;
    mask.slice(0, row, row + 1).slice(1, column, column + 1).fill_(true);
    expected.push_back(row);
    expected.push_back(column);
  }
  EXPECT_EQ(nonzero(mask).to_vector<int64_t>(), expected);
}

// A value for every true: the mask is counted, and not read again.
TEST_F(Cuda, IndexPutUnderAMaskGivesTheCpusBytes) {
  uint64_t seed = 40;
  for (const int64_t count : {1, 100, 4096, 4097, 70'001}) {
    for (const int64_t row : {1, 3, 16}) {
      const Tensor mask = drawn_mask(count, 0.4, ++seed);
      const int64_t trues = nonzero(mask).shape()[0];
      const Tensor x = drawn_values({count, row}, DType::float32);
      const Tensor value = drawn_values({trues, row}, DType::float32);
      const Tensor expected = index_put(x, {mask}, value);
      const Tensor found = index_put(x.to(kGpu), {mask.to(kGpu)}, value.to(kGpu));
      EXPECT_TRUE(same_bits(found.to({}), expected)) << count << " rows of " << row;
    }
  }
  cuda::check();
}

}  // namespace
}  // namespace sow::test
