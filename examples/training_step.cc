// SPDX-License-Identifier: Apache-2.0
// A training step: a linear layer, masked_scatter into its output, a loss, gradients, an update.
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::Tensor;

namespace {

// y[i, j] = sum over k of x[i, k] * weight[k, j], plus bias: a broadcast product and an exact sum.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor columns = x.reshape({x.size(0), x.size(1), 1});
  return sum(columns * weight, {1}) + bias;
}

}  // namespace

int main() {
  const Tensor x = Tensor::of<float>(
      {0.5f, -0.5f, 0.25f, -1.5f, -1.0f, 2.0f, 1.0f, 0.25f, 0.25f, -1.0f, -0.75f, 0.25f}, {3, 4});
  const Tensor mask = Tensor::of<bool>({true, false, true, false});
  const Tensor weight = Tensor::full({4, 4}, 0.5f, sow::DType::float32).set_requires_grad();
  const Tensor bias = Tensor::zeros({4}, sow::DType::float32).set_requires_grad();
  const Tensor value = Tensor::of<float>({1, 2, 3, 4, 5, 6, 7}).set_requires_grad();

  // Out of place and in place give the same gradients: in place, y's handle moves on in the graph.
  const auto loss_of = [&](bool in_place) {
    const Tensor y = linear(x, weight, bias);
    const Tensor result =
        in_place ? masked_scatter_(y, mask, value) : masked_scatter(y, mask, value);
    return mean(pow(result - 1, 2));
  };
  const Tensor loss = loss_of(false);
  loss.backward();
  const sow::TensorList again = sow::grad({loss_of(true)}, {weight, bias, value});
  std::cout << "loss " << loss.item<float>() << "\n\n";
  std::cout << "gradient of the weight\n" << weight.grad() << "\n\n";
  std::cout << "gradient of the value: the seventh was not used\n" << value.grad() << "\n\n";

  bool right = weight.grad().to_vector<float>() == again[0].to_vector<float>() &&
               bias.grad().to_vector<float>() == again[1].to_vector<float>() &&
               value.grad().to_vector<float>() == again[2].to_vector<float>();
  // d mean((v - 1)^2) / dv = 2 (v - 1) / 12 for the six that were used.
  const std::vector<float> by_value = value.grad().to_vector<float>();
  for (int i = 0; i < 7; ++i) {
    const float expected = i < 6 ? 2.0f * static_cast<float>(i) / 12.0f : 0.0f;
    right = right && std::abs(by_value[i] - expected) < 1e-6f;
  }
  // Columns that the mask covers do not depend on the layer.
  const std::vector<float> by_bias = bias.grad().to_vector<float>();
  right = right && by_bias[0] == 0 && by_bias[2] == 0 && by_bias[1] != 0;

  // One step downhill; leaves change in place only where nothing is recorded.
  {
    const sow::NoGrad guard;
    for (const Tensor& leaf : {weight, bias, value}) leaf.copy_(leaf - leaf.grad() * 0.1f);
  }
  const float after = loss_of(false).item<float>();
  std::cout << "loss after one step " << after << "\n";
  return right && after < loss.item<float>() ? EXIT_SUCCESS : EXIT_FAILURE;
}
