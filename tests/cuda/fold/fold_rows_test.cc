// SPDX-License-Identifier: Apache-2.0
// Rows in numbers that random Transfers never have: enough to be grouped without a sort, with hot
// places, dropped keys, several keys a row and values that need a wider sum. Each has the bits of
// the CPU.
#include <cstring>

#include "cuda/device_problem.h"
#include "sow/math.h"
#include "sow/ops.h"
#include "transfer/device/cuda_backend.h"
#include "transfer/plan/plan.h"

namespace sow::test {
namespace {

constexpr int64_t kItems = 600'000, kPlaces = 40'000, kRow = 32;

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Every `hot`th key is 12345 (0: none), every `dropped`th lies outside.
Tensor keys_of(const Dims& shape, int64_t limit, int64_t hot, int64_t dropped) {
  Tensor keys = Tensor::empty(shape, DType::int64);
  for (int64_t i = 0; i < keys.numel(); ++i) {
    int64_t key =
        static_cast<int64_t>(mixed(static_cast<uint64_t>(i) + 11) % static_cast<uint64_t>(limit));
    if (hot != 0 && i % hot == 0) key = 12345 % limit;
    if (dropped != 0 && i % dropped == 1) key = limit + i;
    static_cast<int64_t*>(keys.data())[i] = key;
  }
  return keys;
}

// With `wide`, exponents from end to end, zeros of both signs, and some infinities and NaN.
Tensor values_of(const Dims& shape, DType dtype, bool wide) {
  Tensor out = Tensor::empty(shape, DType::float32);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const uint64_t bits = mixed(static_cast<uint64_t>(i) * 31 + 7);
    float value = static_cast<float>(static_cast<int64_t>(bits >> 40)) * 0x1p-23f - 1.0f;
    if (wide) {
      const uint32_t pattern = bits % 1000 == 3 ? 0x7f800000u : static_cast<uint32_t>(bits >> 32);
      std::memcpy(&value, &pattern, sizeof(value));
      if (bits % 50 == 0) value = bits % 100 == 0 ? 0.0f : -0.0f;
    }
    static_cast<float*>(out.data())[i] = value;
  }
  return to(out, dtype);
}

template <class F>
void compare(const Tensor& x, const Tensor& keys, const Tensor& source, const std::string& name,
             F&& apply) {
  const Tensor expected = x.clone(), found = x.to(kGpu);
  apply(expected, keys, source);
  apply(found, keys.to(kGpu), source.to(kGpu));
  cuda::check();
  const Tensor host = found.to({});
  EXPECT_EQ(std::memcmp(expected.data(), host.data(),
                        static_cast<size_t>(expected.numel()) * size_of(expected.dtype())),
            0)
      << name;
}

TEST_F(Cuda, ManyRowsHaveTheReferencesBits) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64}) {
    for (const bool wide : {false, true}) {
      const Tensor source = values_of({kItems, kRow}, dtype, wide),
                   x = values_of({kPlaces, kRow}, dtype, false);
      for (const int64_t hot : {0, 3}) {
        const Tensor keys = keys_of({kItems}, kPlaces, hot, 0),
                     some = keys_of({kItems}, kPlaces, hot, 5);
        const std::string name =
            name_of(dtype) + std::string(wide ? ", wide" : "") + (hot ? ", a hot place" : "");
        compare(x, keys, source, name + ", add",
                [](const Tensor& to, const Tensor& k, const Tensor& v) { to.index_add_(0, k, v); });
        compare(x, keys, source, name + ", less",
                [](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.tensor_scatter_nd_sub_(k.reshape({kItems, 1}), v);
                });
        compare(x, some, source, name + ", mean, some dropped",
                [](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.index_reduce_(0, Index(k, Bounds::drop), v, "mean", false);
                });
        compare(x, keys, source, name + ", amax",
                [](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.index_reduce_(0, k, v, "amax");
                });
        compare(x, keys, source, name + ", held",
                [](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.index_add_(0, Index::hold(k, to.size(0)), v);
                });
        compare(x, some, source, name + ", mean, held, some dropped",
                [](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.index_reduce_(0, Index::hold(k, to.size(0), Bounds::drop), v, "mean");
                });
        compare(x, keys, source, name + ", mul, held",
                [](const Tensor& to, const Tensor& k, const Tensor& v) {
                  to.index_reduce_(0, Index::hold(k, to.size(0)), v, "mul");
                });
      }
    }
  }
}

TEST_F(Cuda, RowsOfSeveralKeysHaveTheReferencesBits) {
  const Tensor source = values_of({kItems, kRow}, DType::float32, false),
               x = values_of({200, 200, kRow}, DType::float32, false);
  for (const int64_t hot : {0, 1}) {
    compare(x, keys_of({kItems, 2}, 200, hot, 0), source, hot ? "one place" : "two keys",
            [](const Tensor& to, const Tensor& k, const Tensor& v) {
              to.tensor_scatter_nd_add_(k, v);
            });
  }
}

TEST_F(Cuda, ManyRowsAreLeftAloneWhenAKeyIsBad) {
  const Tensor source = values_of({kItems, kRow}, DType::float32, false),
               x = values_of({kPlaces, kRow}, DType::float32, false);
  const Tensor keys = keys_of({kItems}, kPlaces, 0, 500'000), found = x.to(kGpu);
  found.index_add_(0, keys.to(kGpu), source.to(kGpu));
  EXPECT_THROW(cuda::check(), Error);
  const Tensor host = found.to({});
  EXPECT_EQ(std::memcmp(x.data(), host.data(), static_cast<size_t>(x.numel()) * sizeof(float)), 0);
}

}  // namespace
}  // namespace sow::test
