// SPDX-License-Identifier: Apache-2.0
// Tiles on the device: the bytes of the whole, its errors, and nothing written where a key is bad.
#include <string>

#include "cuda/on_device.h"
#include "sow/limits.h"
#include "sow/ops.h"

namespace sow::test {
namespace {

Dims draw_tiles(Draw& draw, const Dims& shape) {
  Dims tiles;
  for (size_t d = 0; d < shape.size(); ++d) tiles.push_back(draw.between(1, 6));
  return tiles;
}

TEST_F(Cuda, TilesChangeNoBit) {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 600 && !HasFailure(); ++seed) {
    Draw draw(seed);
    const Problem problem = draw_problem(draw);
    if (problem.transfer.shape.empty() || problem.transfer.mask_side != detail::MaskSide::none)
      continue;
    DeviceProblem whole(problem, draw), tiled(problem, draw);
    execute(whole.transfer(), kGpu);
    const Tiles tiles(draw_tiles(draw, problem.transfer.shape));
    const std::string said = explain([&] { execute(tiled.transfer(), kGpu); });
    if (said.find("at a time") == std::string::npos) continue;
    ++cut;
    cuda::check();
    EXPECT_TRUE(tiled.destination() == whole.destination()) << "seed " << seed << "\n" << said;
  }
  EXPECT_GT(cut, 100);
}

// Sums by rows, of more places than a tile holds: what each tile is done with is bounded by it.
TEST_F(Cuda, TilesAreToldAndChangeNoBit) {
  const int64_t places = 1 << 16, items = 1 << 18;
  std::vector<int64_t> keys;
  std::vector<float> numbers;
  Draw draw(7);
  for (int64_t i = 0; i < items; ++i) {
    keys.push_back(draw.between(-places, places - 1));
    numbers.push_back(static_cast<float>(draw.between(-1000, 1000)) * 1e-3f);
  }
  const Tensor index = Tensor::of(keys, {items}).to(kGpu);
  const Tensor source = Tensor::of(numbers, {items, 1}).to(kGpu);
  const Tensor x = Tensor::zeros({places, 1}, DType::float32, kGpu);
  const Tensor expected = index_add(x, 0, index, source);
  const Tiles tiles({4096, 1});
  EXPECT_TRUE(same_bits(index_add(x, 0, index, source).to({}), expected.to({})));
  const std::string said = explain([&] { index_add(x, 0, index, source); });
  EXPECT_NE(said.find("[4096, 1] at a time, 16 in all"), std::string::npos) << said;
}

TEST_F(Cuda, ABadKeyWritesNothingInAnyTile) {
  const Tensor x = Tensor::zeros({6, 4}, DType::float32, kGpu);
  const Tensor source = Tensor::ones({3, 4}, DType::float32, kGpu);
  const Tensor index = Tensor::of(std::vector<int64_t>{0, 1, 6}, {3}).to(kGpu);
  std::string said;
  try {
    const Tiles tiles({2, 2});
    x.index_add_(0, index, source);
    cuda::check();
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("index 6 at position [2] is out of range for axis 0 of size 6"),
            std::string::npos)
      << said;
  for (const float value : x.to({}).to_vector<float>()) EXPECT_EQ(value, 0.0f);
  const Tiles tiles({2, 2});
  x.index_add_(0, Tensor::of(std::vector<int64_t>{0, 5, 5}, {3}).to(kGpu), source);
  cuda::check();
  EXPECT_EQ(x.to({}).to_vector<float>()[20], 2.0f);
}

TEST_F(Cuda, TilesCanBeCaptured) {
  const Tensor x = Tensor::zeros({6, 4}, DType::float32, kGpu);
  const Tensor source = Tensor::ones({3, 4}, DType::float32, kGpu);
  const Tensor index = Tensor::of(std::vector<int64_t>{0, 5, 5}, {3}).to(kGpu);
  const Tiles tiles({2, 2});
  x.index_add_(0, index, source);
  const cuda::Graph graph = cuda::Graph::capture([&] { x.index_add_(0, index, source); });
  graph.launch();
  cuda::check();
  EXPECT_EQ(x.to({}).to_vector<float>()[20], 4.0f);
}

TEST_F(Cuda, ATileShapeOfAnotherRankIsAnErrorOnTheDeviceToo) {
  const Tensor x = Tensor::zeros({6, 4}, DType::float32, kGpu);
  const Tensor index = Tensor::of(std::vector<int64_t>{0}, {1}).to(kGpu);
  const Tiles tiles({2, 2, 2});
  EXPECT_THROW(x.index_add_(0, index, Tensor::ones({1, 4}, DType::float32, kGpu)), Error);
}

}  // namespace
}  // namespace sow::test
