// SPDX-License-Identifier: Apache-2.0
// diagonal_scatter: embeds a tensor along a diagonal of another.
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::Tensor;

int main() {
  const Tensor input = Tensor::zeros({3, 3}, sow::DType::float32);
  const Tensor three = Tensor::of<float>({1, 2, 3});
  const Tensor two = Tensor::of<float>({8, 9});
  std::cout << "input\n" << input << "\n\n";

  const Tensor main_diagonal = diagonal_scatter(input, three);
  std::cout << "the main diagonal\n" << main_diagonal << "\n\n";
  std::cout << "offset 1, above it\n" << diagonal_scatter(input, two, 1) << "\n\n";
  std::cout << "offset -1, below it\n" << diagonal_scatter(input, two, -1) << "\n\n";

  // Any two axes have diagonals; their dimension comes last in src. Here: one for each channel.
  const Tensor channels = Tensor::zeros({2, 3, 3}, sow::DType::int32);
  const Tensor diagonals = Tensor::of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  channels.diagonal_scatter_(diagonals, 0, 1, 2);
  std::cout << "channels.diagonal_scatter_(diagonals, 0, 1, 2)\n" << channels << "\n\n";

  std::string complaint;
  try {
    (void)diagonal_scatter(input, two);
  } catch (const sow::Error& error) {
    complaint = error.what();
  }
  std::cout << complaint << "\n";

  const bool right =
      main_diagonal.to_vector<float>() == std::vector<float>{1, 0, 0, 0, 2, 0, 0, 0, 3} &&
      channels.diagonal(0, 1, 2).to_vector<int32_t>() == diagonals.to_vector<int32_t>();
  return right && !complaint.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
