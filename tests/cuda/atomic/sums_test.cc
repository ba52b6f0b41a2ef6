// SPDX-License-Identifier: Apache-2.0
// Strategies whose scratch is zero between calls: whatever a call met, the next one finds it so;
// and what zeros, NaN and numbers far from the others do to a sum.
#include <cmath>
#include <limits>

#include "cuda/on_device.h"
#include "random_values.h"
#include "sow/sow.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

constexpr int64_t kUpdates = 5000, kPlaces = 1700;

Tensor numbers(int64_t count, uint64_t seed) {
  Draw draw(seed);
  const Tensor out = Tensor::empty({count}, DType::float32);
  fill_random(draw, DType::float32, ValueKind::near_one, count, out.data());
  return out;
}

TEST_F(Cuda, AfterABadKeyScratchIsZeroAgain) {
  const Tensor x = numbers(kPlaces, 1), source = numbers(kUpdates, 2);
  const Tensor index = keys({kUpdates}, kPlaces), bad = index.clone();
  bad.slice(0, kUpdates / 2, kUpdates / 2 + 1).fill_(kPlaces);
  const Tensor gpu_source = source.to(kGpu), gpu_index = index.to(kGpu), gpu_bad = bad.to(kGpu);
  for (const auto& [strategy, reduce] :
       {std::pair{"sums", "sum"}, {"sums", "mean"}, {"cells", "amax"}}) {
    const detail::ForceStrategy forced(strategy);
    for (const bool self : {true, false}) {
      const Tensor expected = x.scatter_reduce(0, index, source, reduce, self);
      for (int round = 0; round < 3; ++round) {
        const Tensor kept = x.to(kGpu);
        kept.scatter_reduce_(0, gpu_bad, gpu_source, reduce, self);
        EXPECT_THROW(cuda::check(), Error);
        EXPECT_TRUE(same_bits(kept.to({}), x)) << strategy;
        const Tensor found = x.to(kGpu).scatter_reduce(0, gpu_index, gpu_source, reduce, self);
        cuda::check();
        EXPECT_TRUE(same_bits(found.to({}), expected)) << strategy << " " << reduce;
      }
    }
  }
  const detail::ForceStrategy forced("last_value");
  for (int round = 0; round < 3; ++round) {
    const Tensor kept = x.to(kGpu);
    kept.scatter_(0, gpu_bad, gpu_source);
    EXPECT_THROW(cuda::check(), Error);
    EXPECT_TRUE(same_bits(kept.to({}), x));
    EXPECT_TRUE(same_bits(x.to(kGpu).scatter(0, gpu_index, gpu_source).to({}),
                          x.scatter(0, index, source)));
  }
}

// Who came to a place matters to its sign and its NaN, even where what came adds up to nothing.
TEST_F(Cuda, ZerosAndCancellationInSums) {
  const float minus_zero = -0.0f, nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> old = {0.0f, minus_zero, 1.5f, nan};
  const std::vector<std::vector<float>> updates = {{},
                                                   {0.0f},
                                                   {minus_zero},
                                                   {minus_zero, minus_zero},
                                                   {0.0f, minus_zero},
                                                   {2.0f, -2.0f},
                                                   {minus_zero, 2.0f, -2.0f},
                                                   {1e-30f, -1e-30f},
                                                   {minus_zero, 1e-42f, -1e-42f},
                                                   {-1.5f}};
  std::vector<float> x, source;
  std::vector<int64_t> index;
  for (const float before : old) {
    for (const auto& terms : updates) {
      for (const float term : terms) {
        index.push_back(static_cast<int64_t>(x.size()));
        source.push_back(term);
      }
      x.push_back(before);
    }
  }
  const Tensor host = Tensor::of(x, {static_cast<int64_t>(x.size())}),
               where = Tensor::of(index, {static_cast<int64_t>(index.size())}),
               values = Tensor::of(source, {static_cast<int64_t>(source.size())});
  const detail::ForceStrategy forced("sums");
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor a = to(host, dtype), s = to(values, dtype);
    for (const char* reduce : {"sum", "mean"}) {
      for (const bool self : {true, false}) {
        const Tensor expected = a.scatter_reduce(0, where, s, reduce, self);
        const Tensor found =
            a.to(kGpu).scatter_reduce(0, where.to(kGpu), s.to(kGpu), reduce, self).to({});
        EXPECT_TRUE(same_bits(found, expected)) << name_of(dtype) << " " << reduce << self;
      }
    }
  }
}

// Terms whose parts carry into each other: a float64 sum of zero leaves its scratch zero all the
// same.
TEST_F(Cuda, CancelledPartsOfFloat64LeaveScratchZero) {
  const double a = 1 + 0x1p-48;
  const Tensor index = Tensor::of<int64_t>({0, 0, 0, 1}), x = Tensor::zeros({3}, DType::float64),
               wide = Tensor::of<double>({a, a, -2 * a, 1.0}),
               narrow = Tensor::of<float>({1.5f, 2.5f, -1.0f, 3.0f}),
               y = Tensor::zeros({3}, DType::float32);
  const detail::ForceStrategy forced("sums");
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(same_bits(x.to(kGpu).scatter_add(0, index.to(kGpu), wide.to(kGpu)).to({}),
                          x.scatter_add(0, index, wide)));
    EXPECT_TRUE(same_bits(y.to(kGpu).scatter_add(0, index.to(kGpu), narrow.to(kGpu)).to({}),
                          y.scatter_add(0, index, narrow)));
  }
}

// Numbers far from the others, most of them to one place: its chain is too long for one thread.
TEST_F(Cuda, ManyUpdatesOutsideOfTheRangeInOnePlace) {
  const int64_t updates = 100000, places = 600;
  const detail::ForceStrategy forced("sums");
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor source = to(numbers(updates, 3), dtype), x = to(numbers(places, 4), dtype);
    const Tensor far = source.slice(0, 0, updates / 4);
    far.copy_(far * 1e25);
    const Tensor index = keys({updates}, places);
    index.slice(0, 0, updates / 5).fill_(5);
    EXPECT_TRUE(same_bits(x.to(kGpu).scatter_add(0, index.to(kGpu), source.to(kGpu)).to({}),
                          x.scatter_add(0, index, source)))
        << name_of(dtype);
  }
}

}  // namespace
}  // namespace sow::test
