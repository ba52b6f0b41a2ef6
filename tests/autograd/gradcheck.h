// SPDX-License-Identifier: Apache-2.0
// Compares gradients with finite differences in float64 and complex128, first and second order.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>

#include "sow/sow.h"

namespace sow::testing {

using Function = std::function<Tensor(const TensorList&)>;

// Numbers in [-2, -0.5] and [0.5, 2]: away from zero, where products and powers are tame.
inline Tensor random_tensor(const Dims& shape, DType dtype = DType::float64, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> size(0.5, 2.0);
  const auto next = [&] { return size(random) * ((random() & 1) != 0 ? 1 : -1); };
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  if (dtype == DType::complex128) {
    std::vector<std::complex<double>> values(count);
    for (auto& value : values) value = {next(), next()};
    return Tensor::of(values, shape);
  }
  std::vector<double> values(count);
  for (double& value : values) value = next();
  return Tensor::of(values, shape);
}

// Re(sum(conj(weight) * y)): a real loss whose gradient is what backward(weight) gives.
inline double weighted(const Tensor& y, const Tensor& weight) {
  double sum = 0;
  if (y.dtype() == DType::complex128) {
    const auto a = y.to_vector<std::complex<double>>(),
               w = weight.to_vector<std::complex<double>>();
    for (size_t i = 0; i < a.size(); ++i) sum += (std::conj(w[i]) * a[i]).real();
  } else {
    const auto a = y.to_vector<double>(), w = weight.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) sum += w[i] * a[i];
  }
  return sum;
}

inline TensorList leaves_of(const TensorList& inputs) {
  TensorList leaves;
  for (const Tensor& input : inputs) {
    const Tensor leaf = input.detach();
    leaves.push_back(is_differentiable(input.dtype()) ? leaf.set_requires_grad() : leaf);
  }
  return leaves;
}

// Central differences of the loss by each real number of inputs[k].
inline std::vector<double> differences(const Function& f, const TensorList& inputs, size_t k,
                                       const Tensor& weight) {
  constexpr double kStep = 1e-6;
  const NoGrad guard;
  const Tensor base = inputs[k].clone();
  const int64_t parts = base.numel() * (base.dtype() == DType::complex128 ? 2 : 1);
  std::vector<double> out;
  for (int64_t i = 0; i < parts; ++i) {
    double loss[2];
    for (const int side : {0, 1}) {
      TensorList moved = inputs;
      moved[k] = base.clone();
      static_cast<double*>(moved[k].data())[i] += side == 0 ? kStep : -kStep;
      loss[side] = weighted(f(moved), weight);
    }
    out.push_back((loss[0] - loss[1]) / (2 * kStep));
  }
  return out;
}

inline void expect_near(const Tensor& gradient, const std::vector<double>& expected,
                        const std::string& what) {
  const Tensor dense = gradient.detach().contiguous();
  const double* found = static_cast<const double*>(dense.data());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double scale = 1 + std::abs(expected[i]);
    ASSERT_NEAR(found[i], expected[i], 2e-6 * scale) << what << ", number " << i;
  }
}

inline void check_first(const Function& f, const TensorList& inputs, const std::string& what) {
  const TensorList leaves = leaves_of(inputs);
  const Tensor y = f(leaves);
  const Tensor weight = random_tensor(y.shape(), y.dtype(), 99);
  TensorList wanted;
  for (const Tensor& leaf : leaves) {
    if (leaf.requires_grad()) wanted.push_back(leaf);
  }
  const TensorList gradients = grad({y}, wanted, {weight});
  size_t at = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!leaves[k].requires_grad()) continue;
    ASSERT_EQ(gradients[at].shape(), inputs[k].shape()) << what;
    expect_near(gradients[at], differences(f, inputs, k, weight),
                what + ", input " + std::to_string(k));
    ++at;
  }
}

// The gradients of f as a function of its inputs and of the incoming gradient, each weighted and
// summed to one number.
inline Function gradient_function(const Function& f, bool create_graph) {
  return [f, create_graph](const TensorList& all) {
    const EnableGrad guard;
    const TensorList inputs(all.begin(), all.end() - 1);
    TensorList leaves, wanted;
    for (const Tensor& input : inputs) {
      const bool open = is_differentiable(input.dtype()) && !input.requires_grad();
      leaves.push_back(open ? input.detach().set_requires_grad() : input);
      if (leaves.back().requires_grad()) wanted.push_back(leaves.back());
    }
    const TensorList gradients = grad({f(leaves)}, wanted, {all.back()}, create_graph);
    Tensor total;
    unsigned seed = 7;
    for (const Tensor& gradient : gradients) {
      const Tensor weight = random_tensor(gradient.shape(), gradient.dtype(), seed++);
      const Tensor term = sum(mul(gradient, weight));
      total = total.defined() ? total + term : term;
    }
    return create_graph ? total : total.detach();
  };
}

inline void check_second(const Function& f, const TensorList& inputs, const std::string& what) {
  TensorList all = inputs;
  Tensor y;
  {
    const NoGrad guard;
    y = f(inputs);
  }
  all.push_back(random_tensor(y.shape(), y.dtype(), 99));
  const TensorList leaves = leaves_of(all);
  TensorList wanted;
  for (const Tensor& leaf : leaves) {
    if (leaf.requires_grad()) wanted.push_back(leaf);
  }
  const Tensor total = gradient_function(f, true)(leaves);
  const Tensor weight = random_tensor(total.shape(), total.dtype(), 98);
  const Function numeric = gradient_function(f, false);
  TensorList gradients;
  if (total.requires_grad()) gradients = grad({total}, wanted, {weight});
  size_t at = 0;
  for (size_t k = 0; k < all.size(); ++k) {
    if (!leaves[k].requires_grad()) continue;
    const std::vector<double> expected = differences(numeric, all, k, weight);
    const std::string where = what + ", second order, input " + std::to_string(k);
    if (gradients.empty()) {
      for (const double value : expected) ASSERT_NEAR(value, 0, 1e-6) << where;
    } else {
      expect_near(gradients[at], expected, where);
    }
    ++at;
  }
}

inline void check_gradients(const Function& f, const TensorList& inputs, const std::string& what) {
  check_first(f, inputs, what);
  if (::testing::Test::HasFatalFailure()) return;
  check_second(f, inputs, what);
}

}  // namespace sow::testing
