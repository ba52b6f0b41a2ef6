// SPDX-License-Identifier: Apache-2.0
// Gradients on the device: of every operation, in every type, of first and second order, with the
// CPU's bits; and of random large calls, where other strategies run.
#include <cmath>
#include <optional>

#include "cuda/on_device.h"

namespace sow::test {
namespace {

// The gradients of a weighted sum of the result, or of such a sum of those gradients.
TensorList gradients(const std::function<Tensor(const TensorList&)>& call, const TensorList& given,
                     int order) {
  TensorList inputs, leaves;
  for (const Tensor& x : given) {
    inputs.push_back(is_differentiable(x.dtype()) ? x.clone().set_requires_grad() : x);
    if (is_differentiable(x.dtype())) leaves.push_back(inputs.back());
  }
  const Tensor result = call(inputs);
  if (leaves.empty() || !result.requires_grad()) return {};
  const auto weights = [](const Tensor& like) {
    const Tensor one = values({std::max<int64_t>(like.numel(), 1)}, DType::float32, 9);
    return in_type(one, like.dtype())
        .to(like.device())
        .slice(0, 0, like.numel())
        .reshape(like.shape());
  };
  TensorList out = grad({result}, leaves, {weights(result)}, order > 1);
  if (order == 1) return out;
  TensorList tracked, seeds;
  for (const Tensor& gradient : out) {
    if (!gradient.requires_grad()) continue;
    tracked.push_back(gradient);
    seeds.push_back(weights(gradient));
  }
  if (tracked.empty()) return {};
  return grad(tracked, leaves, seeds);
}

std::optional<TensorList> tried(const std::function<Tensor(const TensorList&)>& call,
                                const TensorList& inputs, int order) {
  try {
    return gradients(call, inputs, order);
  } catch (const Error&) {
    return {};
  }
}

TEST_F(Cuda, GradientsOfEveryOperationHaveTheCpusBits) {
  int compared = 0;
  for (const Case& one : all_cases()) {
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64,
                              DType::complex64, DType::complex128}) {
      for (const int order : {1, 2}) {
        const TensorList inputs = in_type(one.inputs, dtype);
        const std::optional<TensorList> expected = tried(one.call, inputs, order);
        if (!expected) continue;  // the type is none of this operation's
        const TensorList found = on_cpu(gradients(one.call, on_gpu(inputs), order));
        ASSERT_EQ(found.size(), expected->size()) << one.name;
        for (size_t i = 0; i < found.size(); ++i) {
          ++compared;
          EXPECT_TRUE(same_bits(found[i], (*expected)[i]))
              << one.name << " of " << name_of(dtype) << ", order " << order << ", gradient " << i;
        }
      }
    }
  }
  cuda::check();
  EXPECT_GT(compared, 1000);
}

TEST_F(Cuda, GradientsOfLargeCallsHaveTheCpusBits) {
  const int64_t rows = 30000, places = 700, width = 12;
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
    const TensorList inputs = {values({places, width}, dtype), keys({rows}, places),
                               values({rows, width}, dtype, 5)};
    for (const char* reduce : {"assign", "add", "mul", "amax", "amin", "mean"}) {
      for (const bool self : {true, false}) {
        const auto call = [&](const TensorList& t) {
          return index_reduce(t[0], 0, t[1], t[2], reduce, self);
        };
        const TensorList expected = gradients(call, inputs, 1),
                         found = on_cpu(gradients(call, on_gpu(inputs), 1));
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(same_bits(found[i], expected[i]))
              << reduce << " of " << name_of(dtype) << ", gradient " << i;
        }
      }
    }
    const TensorList masked = {values({300, 200}, dtype), mask({300, 200}),
                               values({60000}, dtype, 3)};
    const auto call = [](const TensorList& t) { return masked_scatter(t[0], t[1], t[2]); };
    const TensorList expected = gradients(call, masked, 1),
                     found = on_cpu(gradients(call, on_gpu(masked), 1));
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(same_bits(found[i], expected[i])) << "mask, gradient " << i;
  }
}

// Many equal values, zeros, NaN and dropped keys: who shares a gradient, and who has none.
Tensor awkward(const Dims& shape, DType dtype, int64_t seed) {
  const Tensor drawn = keys(shape, 5, DType::int64, seed);  // -5 to 4
  const Tensor numbers = to(drawn, dtype);
  return where(eq(drawn, 4), Tensor::full({}, std::nan(""), dtype),
               where(lt(drawn, 0), Tensor::zeros({}, dtype), numbers));
}

TEST_F(Cuda, GradientsOfTiesZerosAndDroppedKeys) {
  int64_t seed = 1;
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const char* reduce : {"assign", "add", "mul", "amax", "amin", "mean"}) {
      for (const Bounds bounds : {Bounds::error, Bounds::drop, Bounds::clip}) {
        for (const int64_t width : {1, 3, 8}) {
          const bool self = ++seed % 2 == 0;
          const int64_t reach = bounds == Bounds::error ? 40 : 60;
          const TensorList rows = {awkward({40, width}, dtype, seed),
                                   keys({300}, reach, DType::int64, seed),
                                   awkward({300, width}, dtype, seed + 1)};
          const auto by_rows = [&](const TensorList& t) {
            return index_reduce(t[0], 0, Index(t[1], bounds), t[2], reduce, self);
          };
          const TensorList lines = {awkward({6, 40}, dtype, seed),
                                    keys({6, 30 * width}, reach, DType::int32, seed),
                                    awkward({6, 30 * width}, dtype, seed + 1)};
          const auto along = [&](const TensorList& t) {
            return put_along_axis(t[0], Index(t[1], bounds), t[2], 1, reduce, self);
          };
          const auto compare = [&](const auto& call, const TensorList& inputs, const char* what) {
            const TensorList expected = gradients(call, inputs, 1),
                             found = on_cpu(gradients(call, on_gpu(inputs), 1));
            ASSERT_EQ(found.size(), expected.size());
            for (size_t i = 0; i < found.size(); ++i) {
              EXPECT_TRUE(same_bits(found[i], expected[i]))
                  << what << " " << reduce << " of " << name_of(dtype) << ", width " << width
                  << ", gradient " << i;
            }
          };
          compare(by_rows, rows, "rows");
          compare(along, lines, "along an axis");
        }
      }
    }
  }
}

// Enough rows that their order is worked out, with one place that has many chunks of them, one of a
// single chunk more, dropped keys, and widths that fill warps, more than one, and none.
TEST_F(Cuda, GradientsOfManyRowsHaveTheCpusBits) {
  int64_t seed = 100;
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const char* reduce : {"assign", "mul", "amax", "amin"}) {
      for (const int64_t width : {16, 33, 64, 132}) {
        const bool self = ++seed % 2 == 0;
        const Bounds bounds = seed % 3 == 0 ? Bounds::drop : Bounds::error;
        const int64_t rows = 17000, places = 900, reach = bounds == Bounds::drop ? 950 : places;
        const Tensor index = keys({rows}, reach, DType::int64, seed);
        index.slice(0, 3000, 6000).fill_(7);
        index.slice(0, 9000, 9257).fill_(8);
        const TensorList inputs = {awkward({places, width}, dtype, seed), index,
                                   awkward({rows, width}, dtype, seed + 1)};
        const auto call = [&](const TensorList& t) {
          return index_reduce(t[0], 0, Index(t[1], bounds), t[2], reduce, self);
        };
        const TensorList expected = gradients(call, inputs, 1),
                         found = on_cpu(gradients(call, on_gpu(inputs), 1));
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(same_bits(found[i], expected[i]))
              << reduce << " of " << name_of(dtype) << ", width " << width << ", gradient " << i;
        }
      }
    }
  }
}

TEST_F(Cuda, VjpAndBackwardWork) {
  const TensorList host = {values({6, 4}), keys({9}, 6), values({9, 4}, DType::float32, 2)};
  const auto call = [](const TensorList& t) { return index_add(t[0], 0, t[1], mul(t[2], t[2])); };
  const Tensor seed = values({6, 4}, DType::float32, 8);
  const Vjp here = vjp(call, host), there = vjp(call, on_gpu(host));
  EXPECT_TRUE(same_bits(there.result.to({}), here.result));
  const TensorList expected = here.pullback(seed), found = there.pullback(seed.to(kGpu));
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined());
    if (found[i].defined()) {
      EXPECT_TRUE(same_bits(found[i].to({}), expected[i]));
    }
  }
  const Tensor w = host[0].to(kGpu).set_requires_grad();
  sum(mul(w, w)).backward();
  EXPECT_TRUE(same_bits(w.grad().to({}), mul(host[0], 2.0)));
}

}  // namespace
}  // namespace sow::test
