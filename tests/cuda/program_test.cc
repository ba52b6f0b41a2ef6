// Programs on a device: the CPU's bits, for several shapes, from many threads.
#include <thread>

#include "cuda/device_problem.h"
#include "sow/sow.h"

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

TensorList on_gpu(const TensorList& host) {
  TensorList out;
  for (const Tensor& tensor : host) out.push_back(tensor.to(kGpu));
  return out;
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
  const std::vector<float> expected =
      chain(host[0], host[1], host[2], host[3]).to_vector<float>();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int run = 0; run < 20; ++run) {
        if (compiled(feeds)[0].to_vector<float>() != expected) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace sow::test
