// SPDX-License-Identifier: Apache-2.0
// Section 7 of the contract: destinations that overlap themselves, inputs that overlap the
// destination, memory that must not be written.
#include <numeric>

#include "ops/expect.h"

namespace sow::test {
namespace {

Tensor wrapped(std::vector<float>& memory, const Dims& shape, const Dims& strides,
               bool read_only = false) {
  Tensor::Foreign foreign;
  foreign.data = memory.data();
  foreign.dtype = DType::float32;
  foreign.shape = shape;
  foreign.strides = strides;
  foreign.read_only = read_only;
  return Tensor::wrap(foreign);
}

std::vector<float> counted(size_t count) {
  std::vector<float> memory(count);
  std::iota(memory.begin(), memory.end(), 0.0f);
  return memory;
}

// Calls f and expects an error of kind overlap whose message begins with the operation.
template <class F>
void expect_overlap(const std::string& op, const std::vector<float>& memory, F&& f) {
  const std::vector<float> before = memory;
  try {
    f();
    ADD_FAILURE() << op << " wrote into a destination that overlaps itself";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::overlap)) << error.what();
    EXPECT_EQ(std::string(error.what()).find(op + ": "), 0u) << error.what();
  }
  EXPECT_EQ(memory, before);
}

TEST(Overlap, ADestinationThatOverlapsItselfIsRefused) {
  std::vector<float> memory = counted(12);
  const Tensor index = Tensor::of<int64_t>({0, 1}, {1, 2});
  const Tensor mask = Tensor::ones({3, 4}, DType::bool_);
  for (const Dims& strides : {Dims{0, 1}, Dims{1, 1}, Dims{2, 1}, Dims{3, 1}}) {
    const Tensor x = wrapped(memory, {3, 4}, strides);
    expect_overlap("scatter_", memory, [&] { scatter_(x, 0, index, 9); });
    expect_overlap("masked_fill_", memory, [&] { masked_fill_(x, mask, 9); });
    expect_overlap("index_fill_", memory, [&] { index_fill_(x, 0, Tensor::of<int64_t>({1}), 9); });
  }
}

TEST(Overlap, InterleavedPlacesAreNone) {
  std::vector<float> memory = counted(40);
  // Strides 3 and 4 meet only at multiples of 12, which these extents don't reach.
  const Tensor x = wrapped(memory, {3, 3}, {3, 4});
  fill_diagonal_(x, -1);
  EXPECT_EQ(memory[0], -1);
  EXPECT_EQ(memory[7], -1);
  EXPECT_EQ(memory[14], -1);
  EXPECT_EQ(memory[3], 3);
}

TEST(Overlap, ABroadcastInputMayStillBeReadOutOfPlace) {
  std::vector<float> memory = {1, 2};
  const Tensor x = wrapped(memory, {3, 2}, {0, 1});
  expect_tensor<float>(scatter(x, 0, Tensor::of<int64_t>({1}, {1, 1}), 9), {3, 2},
                       {1, 2, 9, 2, 1, 2});
}

TEST(Overlap, ASourceInsideTheDestinationIsReadFirst) {
  // Every element moves one place on: only right if all are read before any is written.
  const Tensor memory = Tensor::arange(6, DType::float32);
  const Tensor index = Tensor::of<int64_t>({1, 2, 3, 4, 5});
  scatter_(memory, 0, index, memory.slice(0, 0, 5));
  expect_tensor<float>(memory, {6}, {0, 0, 1, 2, 3, 4});

  const Tensor back = Tensor::arange(6, DType::float32);
  slice_scatter_(back, back.flip(0), 0);
  expect_tensor<float>(back, {6}, {5, 4, 3, 2, 1, 0});

  const Tensor square = Tensor::arange(9, DType::float32).reshape({3, 3});
  slice_scatter_(square, square.transpose(0, 1), 0);
  expect_tensor<float>(square, {3, 3}, {0, 3, 6, 1, 4, 7, 2, 5, 8});
}

TEST(Overlap, AnIndexInsideTheDestinationIsReadFirst) {
  const Tensor x = Tensor::of<int64_t>({3, 2, 1, 0});
  scatter_(x, 0, x, 9);
  expect_tensor<int64_t>(x, {4}, {9, 9, 9, 9});
  const Tensor y = Tensor::of<int64_t>({1, 2, 0});
  scatter_add_(y, 0, y, y);
  expect_tensor<int64_t>(y, {3}, {1, 3, 2});
}

TEST(Overlap, AMaskInsideTheDestinationIsReadFirst) {
  const Tensor x = Tensor::of<bool>({true, false, true, true});
  masked_fill_(x, x.flip(0), false);
  expect_tensor<bool>(x, {4}, {false, false, true, false});
  const Tensor y = Tensor::of<bool>({true, true, false, true});
  masked_scatter_(y, y, y);
  expect_tensor<bool>(y, {4}, {true, true, false, false});
}

TEST(Overlap, ASumOverItselfIsTheSumOfBefore) {
  const Tensor x = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  index_add_(x, 0, Tensor::of<int64_t>({1, 0}), x);
  expect_tensor<float>(x, {2, 2}, {4, 6, 4, 6});
}

TEST(Overlap, ReadOnlyMemoryIsReadButNotWritten) {
  std::vector<float> memory = counted(4);
  const Tensor x = wrapped(memory, {4}, {1}, true);
  EXPECT_TRUE(x.read_only());
  EXPECT_TRUE(x.slice(0, 1, 3).read_only());
  const Tensor index = Tensor::of<int64_t>({0});
  expect_tensor<float>(scatter(x, 0, index, 9), {4}, {9, 1, 2, 3});
  expect_overlap("scatter_", memory, [&] { scatter_(x, 0, index, 9); });
  expect_overlap("masked_fill_", memory,
                 [&] { masked_fill_(x, Tensor::ones({4}, DType::bool_), 9); });
  EXPECT_THROW(x.fill_(1), Error);
  EXPECT_THROW(x.copy_(Tensor::zeros({4}, DType::float32)), Error);
  EXPECT_EQ(memory, counted(4));
}

}  // namespace
}  // namespace sow::test
