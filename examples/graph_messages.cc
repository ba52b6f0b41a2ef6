// SPDX-License-Identifier: Apache-2.0
// Message passing in a graph: every edge carries its source's features to its target, and every
// node reduces what arrives.
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::DType;
using sow::Index;
using sow::Tensor;

int main() {
  // 0 -> 1, 0 -> 2, 1 -> 2, 3 -> 2, 2 -> 0; nobody writes to node 3.
  const Tensor from = Tensor::of<int64_t>({0, 0, 1, 3, 2});
  const Tensor to = Tensor::of<int64_t>({1, 2, 2, 2, 0});
  const Tensor features = Tensor::of<float>({1, 10, 2, 20, 3, 30, 4, 40}, {4, 2});
  std::cout << "features of the nodes\n" << features << "\n";
  std::cout << "edges\n" << from << "\n" << to << "\n\n";

  // A graph is used over and over: hold its index, and it is checked and ordered only once.
  const Index targets = Index::hold(to, 4);
  const Tensor messages = index_select(features, 0, from);
  const Tensor nothing = Tensor::zeros({4, 2}, DType::float32);

  const Tensor sum = index_add(nothing, 0, targets, messages);
  std::cout << "sum of the messages\n" << sum << "\n";
  const Tensor mean = index_reduce(nothing, 0, targets, messages, "mean", false);
  std::cout << "mean\n" << mean << "\n";
  const Tensor most = index_reduce(nothing, 0, targets, messages, "amax", false);
  std::cout << "max\n" << most << "\n\n";

  // Float sums are exact, so the order of the edges can't matter: not one bit of it.
  const Tensor weights = Tensor::of<float>({5, 1e8f, 1, -1e8f, 3});
  const Tensor forward = index_add(Tensor::zeros({4}, DType::float32), 0, to, weights);
  const Tensor reversed =
      index_add(Tensor::zeros({4}, DType::float32), 0, to.flip(0), weights.flip(0));
  std::cout << "1e8 + 1 - 1e8 at node 2, edges in both orders\n"
            << forward << "\n"
            << reversed << "\n";

  const bool right = sum.to_vector<float>() == std::vector<float>{3, 30, 1, 10, 7, 70, 0, 0} &&
                     most.to_vector<float>() == std::vector<float>{3, 30, 1, 10, 4, 40, 0, 0};
  const bool exact = forward.to_vector<float>() == reversed.to_vector<float>() &&
                     forward.to_vector<float>()[2] == 1;
  return right && exact ? EXIT_SUCCESS : EXIT_FAILURE;
}
