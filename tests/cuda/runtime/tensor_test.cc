// SPDX-License-Identifier: Apache-2.0
// Tensors on a device: copies, views, streams, threads, sizes beyond 2^31.
#include <cuda_runtime.h>

#include <random>

#include "cuda/device_problem.h"
#include "cuda/own_streams.h"
#include "sow/sow.h"

namespace sow::test {
namespace {

TEST_F(Cuda, TensorsMoveBetweenHostAndDevice) {
  const Tensor x = Tensor::arange(24, DType::int32).reshape({2, 3, 4});
  const Tensor on_gpu = x.to(kGpu);
  EXPECT_EQ(on_gpu.device(), kGpu);
  EXPECT_EQ(on_gpu.to_vector<int32_t>(), x.to_vector<int32_t>());
  EXPECT_EQ(on_gpu.transpose(0, 2).to_vector<int32_t>(), x.transpose(0, 2).to_vector<int32_t>());
  EXPECT_EQ(on_gpu.flip(1).to({}).to_vector<int32_t>(), x.flip(1).to_vector<int32_t>());
  EXPECT_EQ(on_gpu.to_string(), x.to_string());
  const Tensor back = Tensor::zeros({2, 3, 4}, DType::int32);
  back.copy_(on_gpu);
  EXPECT_EQ(back.to_vector<int32_t>(), x.to_vector<int32_t>());
  EXPECT_TRUE(on_gpu.to(kGpu).same_object(on_gpu));
}

TEST_F(Cuda, OperandsOnTwoDevicesAreAnError) {
  const Tensor x = Tensor::zeros({4}, DType::float32, kGpu);
  EXPECT_THROW(x.scatter_add_(0, Tensor::of<int64_t>({0}), Tensor::ones({1}, DType::float32)),
               Error);
}

TEST_F(Cuda, ForeignMemoryIsWrapped) {
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 4 * sizeof(float)), cudaSuccess);
  bool given_back = false;
  {
    Tensor::Foreign foreign;
    foreign.data = data;
    foreign.shape = {4};
    foreign.device = kGpu;
    foreign.deleter = [&] {
      cudaFree(data);
      given_back = true;
    };
    const Tensor x = Tensor::wrap(std::move(foreign));
    x.fill_(2.5);
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>(4, 2.5f)));
  }
  EXPECT_TRUE(given_back);
}

TEST_F(Cuda, EveryThreadHasItsStream) {
  constexpr int kThreads = 8;
  std::vector<int> wrong(kThreads, 0);
  run_on_streams(kThreads, [&wrong](int t) {
    const int64_t places = 100 + t;
    const Tensor ones = Tensor::ones({20000}, DType::float32, kGpu);
    const Tensor keys = Tensor::arange(20000).to(kGpu);
    for (int round = 0; round < 20; ++round) {
      const Tensor x = Tensor::zeros({places}, DType::float32, kGpu);
      x.scatter_add_(0, Index(keys, Bounds::clip), ones);
      std::vector<float> expected(static_cast<size_t>(places), 1);
      expected.back() = static_cast<float>(20000 - places + 1);
      wrong[t] += x.to_vector<float>() != expected;
    }
    cuda::synchronize();
  });
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST_F(Cuda, TensorsOutliveTheStreamTheyWereMadeOn) {
  const Tensor key = Tensor::of<int64_t>({1}).to(kGpu),
               one = Tensor::ones({1}, DType::float32, kGpu);
  for (int round = 0; round < 20; ++round) {
    Tensor x;
    cudaStream_t stream;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    {
      const cuda::StreamGuard guard(stream);
      x = Tensor::zeros({1000}, DType::float32, kGpu);
      x.scatter_add_(0, key, one);
    }
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(x.slice(0, 0, 3).to_vector<float>(), (std::vector<float>{0, 1, 0}));
  }
}

// A tensor that another stream used last comes back only when that stream is done with it.
TEST_F(Cuda, MemoryWaitsForWhoeverUsedItLast) {
  cudaStream_t first, second;
  ASSERT_EQ(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  const int64_t count = int64_t{1} << 26;
  const Tensor out = Tensor::zeros({count}, DType::float32, kGpu);
  cuda::synchronize();
  for (int round = 0; round < 10; ++round) {
    Tensor x;
    {
      const cuda::StreamGuard guard(first);
      x = Tensor::full({count}, 1, DType::float32, kGpu);
    }
    ASSERT_EQ(cudaStreamSynchronize(first), cudaSuccess);
    {
      const cuda::StreamGuard guard(second);
      out.fill_(0);
      out.copy_(x);
      x = Tensor();
    }
    {
      const cuda::StreamGuard guard(first);
      Tensor::full({count}, 2, DType::float32, kGpu);  // in the same memory
    }
    cuda::synchronize();
    EXPECT_EQ(sum(out).to_vector<float>(), std::vector<float>{static_cast<float>(count)});
  }
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
}

TEST_F(Cuda, MoreThan31BitsOfElements) {
  const int64_t large = (int64_t{1} << 31) + 1000;
  const Tensor x = Tensor::zeros({large}, DType::uint8, kGpu);
  const Tensor keys = Tensor::of<int64_t>({large - 1, 5, -2}).to(kGpu);
  x.scatter_add_(0, keys, Tensor::of<uint8_t>({1, 2, 3}).to(kGpu));
  EXPECT_EQ(x.slice(0, large - 3, large).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 3, 1}));
  EXPECT_EQ(x.slice(0, 4, 7).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 2, 0}));
  // One key for all of them, and one value: the index and the source have stride 0.
  const Tensor count = Tensor::zeros({2}, DType::int64, kGpu);
  const Tensor one = Tensor::ones({1}, DType::int64, kGpu).broadcast_to({large});
  const Tensor key = Tensor::ones({1}, DType::int64, kGpu).broadcast_to({large});
  count.scatter_add_(0, key, one);
  EXPECT_EQ(count.to_vector<int64_t>(), (std::vector<int64_t>{0, large}));
  const Tensor mask = Tensor::ones({1}, DType::bool_, kGpu).broadcast_to({large});
  EXPECT_EQ(x.masked_fill(mask, 7).slice(0, large - 2, large).to_vector<uint8_t>(),
            (std::vector<uint8_t>{7, 7}));
}

TEST_F(Cuda, AnIndexOnTheDeviceIsHeld) {
  const Tensor keys = Tensor::of<int64_t>({3, 0, 3, -1}).to(kGpu);
  const Index held = Index::hold(keys, 5);
  const Tensor x = Tensor::zeros({5}, DType::float32, kGpu);
  for (int round = 0; round < 3; ++round)
    x.scatter_add_(0, held, Tensor::ones({4}, DType::float32, kGpu));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{3, 0, 0, 6, 3}));
  EXPECT_THROW(Index::hold(keys, 2), Error);
}

// Several threads, each with its stream: good calls, and now and then one with a bad index. Nothing
// of a bad call is written, nothing of a good one is lost, and some bad call is told about.
TEST_F(Cuda, AFailingIndexAmongGoodOnes) {
  constexpr int kThreads = 6;
  constexpr int64_t kPlaces = 1000, kUpdates = 30000;
  std::vector<int64_t> keys(kUpdates);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i) % kPlaces;
  const Tensor good = Tensor::of(keys, {kUpdates}).to(kGpu),
               ones = Tensor::ones({kUpdates}, DType::float32, kGpu);
  TensorList bad, sums, untouched;
  for (int t = 0; t < kThreads; ++t) {
    keys[12345] = kPlaces + t;
    bad.push_back(Tensor::of(keys, {kUpdates}).to(kGpu));
    sums.push_back(Tensor::zeros({kPlaces}, DType::float32, kGpu));
    untouched.push_back(Tensor::zeros({kPlaces}, DType::float32, kGpu));
  }
  cuda::synchronize();
  run_on_streams(kThreads, [&](int t) {
    for (int round = 0; round < 40; ++round) {
      sums[t].scatter_add_(0, good, ones);
      if (round % 2 == 0)
        untouched[t].scatter_add_(0, bad[t], ones);
      else
        untouched[t].scatter_(0, bad[t], ones);
    }
  });
  EXPECT_THROW(cuda::check(), Error);
  cuda::synchronize();
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(sums[t].to_vector<float>(), std::vector<float>(kPlaces, 1200));
    EXPECT_EQ(untouched[t].to_vector<float>(), std::vector<float>(kPlaces, 0));
  }
}

TEST_F(Cuda, AnAddressBetweenElementsIsRefused) {
  const Tensor memory = Tensor::zeros({64}, DType::uint8, kGpu);
  const auto at = [&](int64_t offset, DType dtype) {
    Tensor::Foreign foreign;
    foreign.data = static_cast<char*>(memory.data()) + offset;
    foreign.dtype = dtype;
    foreign.shape = {3};
    foreign.device = kGpu;
    return Tensor::wrap(std::move(foreign));
  };
  const Tensor key = Tensor::of<int64_t>({1}).to(kGpu);
  for (const DType dtype :
       {DType::int16, DType::float32, DType::float64, DType::complex64, DType::complex128}) {
    const auto width = static_cast<int64_t>(size_of(dtype));
    EXPECT_THROW(at(width / 2, dtype).index_select(0, key), Error) << name_of(dtype);
    EXPECT_THROW(at(width / 2, dtype).fill_(1), Error) << name_of(dtype);
    EXPECT_EQ(at(width, dtype).index_select(0, key).numel(), 1);
  }
  EXPECT_THROW(at(8, DType::float32).index_select(0, at(4, DType::int64)), Error);
  cuda::check();
  EXPECT_EQ(memory.to_vector<uint8_t>(), std::vector<uint8_t>(64, 0));
}

}  // namespace
}  // namespace sow::test
