// SPDX-License-Identifier: Apache-2.0
// Programs on a device: the CPU's bits, for several shapes, from many threads.
#include "cuda/on_device.h"
#include "sow/sow.h"
#include "test_threads.h"

namespace sow::test {
namespace {

// Scatters and gathers that chain, fuse and run in place.
Tensor chain(const Tensor& x, const Tensor& index, const Tensor& source, const Tensor& mask) {
  Tensor y = index_add(x, 0, index, source);
  y = masked_scatter(y, mask, source);
  y = index_add(y, 0, index, index_select(source, 0, index));
  return sum(scatter_reduce(y, 0, reshape(index, {-1, 1}), source, "amax"), {0});
}

Program chain_program(Device device) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {"n", "d"}, device);
  const Tensor index = program.input("index", DType::int64, {"m"}, device);
  const Tensor source = program.input("source", DType::float32, {"m", "d"}, device);
  const Tensor mask = program.input("mask", DType::bool_, {"n", 1}, device);
  program.output("y", chain(x, index, source, mask));
  return program;
}

TensorList host_feeds(int64_t n, int64_t m, int64_t d) {
  const auto numbers = [](int64_t rows, int64_t columns, int64_t step) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * columns; ++i) {
      values.push_back(static_cast<float>(i * step % 101 - 50) / 7);
    }
    return Tensor::of(values, {rows, columns});
  };
  std::vector<int64_t> keys;
  std::vector<bool> bits;
  for (int64_t i = 0; i < m; ++i) keys.push_back(i * 37 % n);
  for (int64_t i = 0; i < n; ++i) bits.push_back(i % 3 == 0);
  return {numbers(n, d, 13), Tensor::of(keys, {m}), numbers(m, d, 29), Tensor::of(bits, {n, 1})};
}

TEST_F(Cuda, ProgramsGiveTheBitsOfTheCpu) {
  const CompiledProgram compiled(chain_program(kGpu));
  for (int run = 0; run < 2; ++run) {
    for (const int64_t n : {5, 64, 1000}) {
      const TensorList host = host_feeds(n, 3 * n, 8);
      const Tensor expected = chain(host[0], host[1], host[2], host[3]);
      EXPECT_EQ(compiled(on_gpu(host))[0].to_vector<float>(), expected.to_vector<float>()) << n;
    }
  }
}

TEST_F(Cuda, ThreadsRunOneProgram) {
  const CompiledProgram compiled(chain_program(kGpu));
  const TensorList host = host_feeds(300, 900, 16), feeds = on_gpu(host);
  const std::vector<float> expected = chain(host[0], host[1], host[2], host[3]).to_vector<float>();
  std::vector<int> wrong(4, 0);
  run_in_threads(4, [&](int t) {
    for (int run = 0; run < 20; ++run) {
      if (compiled(feeds)[0].to_vector<float>() != expected) ++wrong[t];
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

Program program_on(Device device, const Case& one, bool gradients) {
  Program program;
  TensorList symbols, wanted;
  for (const Tensor& input : one.inputs) {
    std::vector<Extent> shape;
    for (const int64_t extent : input.shape()) shape.push_back(extent);
    std::string name = "x";
    name += std::to_string(symbols.size());
    symbols.push_back(program.input(name, input.dtype(), shape, device));
    if (is_differentiable(input.dtype())) wanted.push_back(symbols.back());
  }
  const Tensor y = one.call(symbols);
  program.output("y", y);
  if (!gradients || wanted.empty() || !is_differentiable(y.dtype())) return program;
  const TensorList found = program.gradients({sum(y)}, wanted);
  for (size_t i = 0; i < found.size(); ++i) {
    std::string name = "g";
    name += std::to_string(i);
    program.output(name, found[i]);
  }
  return program;
}

TEST_F(Cuda, EveryOperationAndItsGradientInAProgram) {
  int outputs = 0;
  for (const Case& one : all_cases()) {
    const TensorList expected = CompiledProgram(program_on({}, one, true))(one.inputs);
    const CompiledProgram compiled(program_on(kGpu, one, true));
    const TensorList feeds = on_gpu(one.inputs);
    for (int run = 0; run < 2; ++run) {
      const TensorList found = compiled(feeds);
      ASSERT_EQ(found.size(), expected.size()) << one.name;
      for (size_t i = 0; i < found.size(); ++i) {
        ++outputs;
        EXPECT_TRUE(same_bits(found[i].to({}), expected[i])) << one.name << ", output " << i;
      }
    }
  }
  cuda::check();
  EXPECT_GT(outputs, 500);
}

TEST_F(Cuda, ABadIndexInAProgramIsToldLater) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {4}, kGpu);
  const Tensor index = program.input("index", DType::int64, {2}, kGpu);
  const Tensor source = program.input("source", DType::float32, {2}, kGpu);
  program.output("y", scatter_add(x, 0, index, source));
  const CompiledProgram compiled(program);
  const Tensor zeros = Tensor::zeros({4}, DType::float32, kGpu),
               ones = Tensor::ones({2}, DType::float32, kGpu);
  const Tensor outside = Tensor::of<int64_t>({1, 9}).to(kGpu),
               inside = Tensor::of<int64_t>({1, 3}).to(kGpu);
  const Tensor bad = compiled({zeros, outside, ones})[0], good = compiled({zeros, inside, ones})[0];
  EXPECT_THROW(cuda::check(), Error);
  EXPECT_EQ(bad.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(good.to_vector<float>(), (std::vector<float>{0, 1, 0, 1}));
}

TEST_F(Cuda, AConstantIndexOnTheDevice) {
  const int64_t n = 50000, places = 300;
  const TensorList host = {values({places, 4}), values({n, 4}, DType::float32, 3)};
  const Tensor index = keys({n}, places);
  const Tensor expected = index_add(host[0], 0, index, host[1]);
  Program program;
  const Tensor x = program.input("x", DType::float32, {places, 4}, kGpu);
  const Tensor source = program.input("source", DType::float32, {n, 4}, kGpu);
  program.output("y", index_add(x, 0, program.constant(index.to(kGpu)), source));
  const CompiledProgram compiled(program);
  for (int run = 0; run < 3; ++run)
    EXPECT_TRUE(same_bits(compiled(on_gpu(host))[0].to({}), expected));
}

}  // namespace
}  // namespace sow::test
