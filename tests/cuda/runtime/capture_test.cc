// SPDX-License-Identifier: Apache-2.0
// Captured calls: a graph gives the same bits at every launch, and capturing waits for nothing.
#include <cuda_runtime.h>

#include "cuda/on_device.h"
#include "sow/sow.h"

namespace sow::test {
namespace {

TEST_F(Cuda, AGraphOfEagerCallsIsReplayed) {
  const int64_t n = 5000, places = 64;
  const Tensor index = keys({n}, places), first = values({n}),
               second = values({n}, DType::float32, 2);
  const Tensor x = Tensor::zeros({places}, DType::float32, kGpu), source = first.to(kGpu),
               where = index.to(kGpu);
  const Tensor zeros = Tensor::zeros({places}, DType::float32);
  x.scatter_add_(0, where, source);  // what is loaded on first use is loaded
  const cuda::Graph graph = cuda::Graph::capture([&] {
    x.fill_(0);
    x.scatter_add_(0, where, source);
    x.scatter_reduce_(0, where, mul(source, source), "amax");
  });
  for (const Tensor& values : {first, second, first}) {
    source.copy_(values);
    const Tensor expected =
        zeros.scatter_add(0, index, values).scatter_reduce(0, index, mul(values, values), "amax");
    graph.launch();
    graph.launch();
    EXPECT_TRUE(same_bits(x.to({}), expected));
  }
  cuda::check();
}

TEST_F(Cuda, ARunOfAProgramIsCaptured) {
  Program program;
  const Tensor x = program.input("x", DType::float32, {100, 8}, kGpu);
  const Tensor index = program.input("index", DType::int64, {700}, kGpu);
  const Tensor source = program.input("source", DType::float32, {700, 8}, kGpu);
  const Tensor y = index_add(x, 0, index, source);
  program.output("y", index_select(mul(y, y), 0, index));
  const CompiledProgram compiled(program);
  const TensorList host = {values({100, 8}), keys({700}, 100), values({700, 8}, DType::float32, 4)};
  const TensorList feeds = on_gpu(host);
  const Tensor added = index_add(host[0], 0, host[1], host[2]);
  const Tensor expected = index_select(mul(added, added), 0, host[1]);
  const Tensor given = Tensor::zeros({700, 8}, DType::float32, kGpu);
  compiled.run_into(feeds, {given});
  const cuda::Graph into = cuda::Graph::capture([&] { compiled.run_into(feeds, {given}); });
  Tensor made;
  const cuda::Graph making = cuda::Graph::capture([&] { made = compiled(feeds)[0]; });
  for (int launch = 0; launch < 3; ++launch) {
    given.fill_(0);
    into.launch();
    making.launch();
    EXPECT_TRUE(same_bits(given.to({}), expected));
    EXPECT_TRUE(same_bits(made.to({}), expected));
  }
  cuda::check();
}

TEST_F(Cuda, AStreamOfTheCallersIsCaptured) {
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    const cuda::StreamGuard guard(stream);
    const Tensor mask = Tensor::of<bool>({true, false, true, true}).to(kGpu);
    const Tensor x = Tensor::zeros({4}, DType::float32, kGpu),
                 value = Tensor::of<float>({1, 2, 3}).to(kGpu);
    x.masked_scatter_(mask, value);
    x.fill_(0);
    cuda::synchronize();
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    x.masked_scatter_(mask, value);
    { const Tensor dropped = x.clone(); }
    EXPECT_THROW(x.to_vector<float>(), Error);  // it would wait
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 0, 2, 3}));
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    cuda::synchronize();
  }
  cudaStreamDestroy(stream);
}

TEST_F(Cuda, MemoryLetGoDuringACaptureComesBackLater) {
  Tensor kept = Tensor::ones({1 << 20}, DType::float32, kGpu);
  const Tensor x = Tensor::zeros({1 << 20}, DType::float32, kGpu);
  const cuda::Graph graph = cuda::Graph::capture([&] {
    x.copy_(x.clone());
    kept = Tensor();
  });
  graph.launch();
  const Tensor next = Tensor::ones({1 << 20}, DType::float32, kGpu);
  EXPECT_EQ(next.slice(0, 0, 1).to_vector<float>(), std::vector<float>{1});
  cuda::synchronize();
}

TEST_F(Cuda, ABadIndexInAGraphIsToldAtEveryLaunch) {
  const Tensor x = Tensor::zeros({3}, DType::float32, kGpu),
               key = Tensor::of<int64_t>({7}).to(kGpu);
  const Tensor one = Tensor::ones({1}, DType::float32, kGpu);
  const cuda::Graph graph = cuda::Graph::capture([&] { x.scatter_add_(0, key, one); });
  for (int launch = 0; launch < 2; ++launch) {
    graph.launch();
    EXPECT_THROW(cuda::check(), Error);
  }
  key.copy_(Tensor::of<int64_t>({2}));
  graph.launch();
  cuda::check();
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 1}));
}

TEST_F(Cuda, WhatFailsInACaptureLeavesNone) {
  const Tensor x = Tensor::of<float>({1, 0, 2}).to(kGpu);
  EXPECT_THROW(cuda::Graph::capture([&] { nonzero(x); }), Error);
  EXPECT_EQ(nonzero(x).to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
}

}  // namespace
}  // namespace sow::test
