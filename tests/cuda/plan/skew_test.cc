// SPDX-License-Identifier: Apache-2.0
// Sums in which one place meets half of all updates, larger than random Transfers are: every
// strategy gives the bits of the CPU.
#include <cstring>

#include "cuda/device_problem.h"
#include "sow/ops.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Half of the keys are 7.
Tensor skewed_keys(int64_t count, int64_t places) {
  Tensor keys = Tensor::empty({count}, DType::int64);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mixed(static_cast<uint64_t>(i / 2) + 1);
    static_cast<int64_t*>(keys.data())[i] =
        bits % 2 == 0 ? 7 : static_cast<int64_t>((bits >> 8) % static_cast<uint64_t>(places));
  }
  return keys;
}
// With `cancel`, large values meet their negatives: neighbours have one key.
Tensor values(const Dims& shape, int64_t row, bool cancel) {
  Tensor out = Tensor::empty(shape, DType::float32);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t item = i / row;
    const uint64_t bits = mixed(static_cast<uint64_t>(i) * 977 + 5);
    float value = static_cast<float>(static_cast<int64_t>(bits >> 40)) * 0x1p-24f - 0.5f;
    if (cancel && item / 2 % 3 == 0)
      value = (item % 2 == 0 ? 1.0f : -1.0f) * (1e30f + 1e27f * static_cast<float>(item / 2 % 50));
    static_cast<float*>(out.data())[i] = value;
  }
  return out;
}

void expect_equal_bits(const Tensor& expected, const Tensor& found, const std::string& way) {
  const Tensor host = found.to({});
  EXPECT_EQ(std::memcmp(expected.data(), host.data(),
                        static_cast<size_t>(expected.numel()) * size_of(expected.dtype())),
            0)
      << way;
}

template <class F>
void compare(const Tensor& x, const Tensor& keys, const Tensor& source, const std::string& name,
             F&& apply) {
  const Tensor expected = x.clone();
  apply(expected, keys, source);
  const Tensor gpu_keys = keys.to(kGpu), gpu_source = source.to(kGpu);
  for (const std::string& strategy : detail::cuda_strategies()) {
    const Tensor found = x.to(kGpu);
    const detail::ForceStrategy forced(strategy.c_str());
    apply(found, gpu_keys, gpu_source);
    cuda::check();
    expect_equal_bits(expected, found, name + " by " + strategy);
  }
}

TEST_F(Cuda, SkewedElementsHaveTheReferencesBits) {
  for (const int64_t places : {8, 300, 1500, 4000, 60000}) {
    for (const bool cancel : {false, true}) {
      const int64_t count = 300'000;
      const Tensor keys = skewed_keys(count, places), source = values({count}, 1, cancel);
      const Tensor x = values({places}, 1, false);
      const std::string name =
          std::to_string(places) + (cancel ? " places, cancelling" : " places");
      compare(x, keys, source, name,
              [](const Tensor& to, const Tensor& k, const Tensor& v) { to.scatter_add_(0, k, v); });
      compare(x, keys, source, name + ", mean",
              [](const Tensor& to, const Tensor& k, const Tensor& v) {
                to.scatter_reduce_(0, k, v, "mean");
              });
    }
  }
}

// More buckets than are written in whole sectors; half of the keys overflow the room of one.
TEST_F(Cuda, ElementsOfVeryManyPlacesHaveTheReferencesBits) {
  const int64_t count = 3'000'000, places = 50'000'000;
  const Tensor keys = skewed_keys(count, places), x = Tensor::ones({places}, DType::float32);
  for (const bool cancel : {false, true}) {
    compare(x, keys, values({count}, 1, cancel), cancel ? "cancelling" : "plain",
            [](const Tensor& to, const Tensor& k, const Tensor& v) { to.scatter_add_(0, k, v); });
  }
}

TEST_F(Cuda, SkewedRowsHaveTheReferencesBits) {
  const int64_t count = 6000, places = 400;
  const Tensor keys = skewed_keys(count, places);
  for (const int64_t row : {32, 64, 100, 256}) {
    for (const bool cancel : {false, true}) {
      const Tensor source = values({count, row}, row, cancel),
                   x = values({places, row}, row, false);
      for (const char* reduce : {"sum", "mean", "amax", "amin", "mul"}) {
        compare(x, keys, source, "rows of " + std::to_string(row) + ", " + reduce,
                [&](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.index_reduce_(0, k, v, reduce);
                });
      }
    }
  }
}

// What a block does alone: few items, of which many may meet in one place.
TEST_F(Cuda, SkewedSmallProblemsHaveTheReferencesBits) {
  for (const int64_t count : {37, 1000, 2048}) {
    for (const int64_t places : {8, 300, 50000}) {
      const Tensor keys = skewed_keys(count, places);
      for (const int64_t row : {1, 16, 700}) {
        const Tensor source = values({count, row}, row, true),
                     x = values({places, row}, row, false);
        for (const char* reduce : {"sum", "mean", "amax", "amin", "mul", "assign"}) {
          const std::string name = std::to_string(count) + " of " + std::to_string(row) + " to " +
                                   std::to_string(places) + ", " + reduce;
          compare(x, keys, source, name, [&](const Tensor& to, const Tensor& k, const Tensor& v) {
            to.index_reduce_(0, k, v, reduce);
          });
        }
      }
    }
  }
}

TEST_F(Cuda, SkewedOuterPositionsHaveTheReferencesBits) {
  constexpr int64_t kOuter = 24;
  for (const int64_t count : {50, 1100, 2048}) {
    for (const int64_t places : {8, 3000, 40000}) {
      const Tensor keys = skewed_keys(kOuter * count, places).reshape({kOuter, count});
      const Tensor source = values({kOuter, count}, 1, true),
                   x = values({kOuter, places}, 1, false);
      for (const char* reduce : {"add", "mean", "amax", "amin", "mul", "assign"}) {
        compare(x, keys, source,
                std::to_string(count) + " a row to " + std::to_string(places) + ", " + reduce,
                [&](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.put_along_axis_(k, v, 1, reduce);
                });
      }
    }
  }
}

}  // namespace
}  // namespace sow::test
