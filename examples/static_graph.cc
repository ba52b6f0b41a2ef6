// SPDX-License-Identifier: Apache-2.0
// A static graph: a training step is built once, compiled once and run for batches of any size.
#include <cstdlib>
#include <iostream>
#include <vector>

#include "sow/sow.h"

using sow::DType;
using sow::Tensor;

namespace {

// The same line runs eagerly and in the program.
Tensor merged(const Tensor& x, const Tensor& weight, const Tensor& mask, const Tensor& value) {
  const Tensor y = sum(reshape(x, {-1, 4, 1}) * weight, {1});  // a linear layer: x @ weight
  return masked_scatter(y, mask, value);
}

sow::Program training_step() {
  sow::Program program;
  const Tensor x = program.input("x", DType::float32, {"batch", 4});
  const Tensor mask = program.input("mask", DType::bool_, {"batch", 3});
  const Tensor value = program.input("value", DType::float32, {-1});
  const Tensor weight = program.input("weight", DType::float32, {4, 3});
  const Tensor loss = sow::named(mean(pow(merged(x, weight, mask, value) - 1, 2)), "loss");
  const Tensor slope = program.gradients({loss}, {weight})[0];
  program.output("loss", loss);
  program.output("weight", weight - slope * 0.2);
  return program;
}

Tensor numbers(int64_t rows, int64_t columns, float scale) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows * columns; ++i)
    values.push_back(scale * static_cast<float>(i % 7 - 3));
  return Tensor::of(values, {rows, columns});
}

Tensor checkered(int64_t rows, int64_t columns) {
  std::vector<bool> bits;
  for (int64_t i = 0; i < rows * columns; ++i) bits.push_back(i % 5 == 0);
  return Tensor::of(bits, {rows, columns});
}

}  // namespace

int main() {
  const sow::Program program = training_step();
  std::cout << program << "\n";
  // The new weight may take the old one's memory.
  const sow::CompiledProgram step(program, {.donate = {"weight"}});
  std::cout << step.explain({{6, 4}, {6, 3}, {18}, {4, 3}}) << "\n";

  const Tensor weight = numbers(4, 3, 0.25f), value = numbers(1, 30, 0.5f).flatten();
  const Tensor before = weight.clone();
  bool falling = true, same_bits = true;
  for (const int64_t batch : {6, 10}) {
    float last = 0;
    for (int i = 0; i < 5; ++i) {
      const Tensor x = numbers(batch, 4, 0.5f), mask = checkered(batch, 3);
      const Tensor eager = mean(pow(merged(x, weight, mask, value) - 1, 2));
      const auto out = step.run({{"x", x}, {"mask", mask}, {"value", value}, {"weight", weight}},
                                {{"weight", weight}});
      const float loss = out.at("loss").item<float>();
      std::cout << "batch of " << batch << ", loss " << loss << "\n";
      same_bits = same_bits && loss == eager.item<float>();
      falling = falling && (i == 0 || loss < last);
      last = loss;
    }
  }
  const bool changed = weight.to_vector<float>() != before.to_vector<float>();

  // Another process could load the file and go on.
  const sow::Program copy = sow::Program::deserialize(program.serialize());
  const bool saved = copy.to_string() == program.to_string();
  return falling && same_bits && changed && saved ? EXIT_SUCCESS : EXIT_FAILURE;
}
