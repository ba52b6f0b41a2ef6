// SPDX-License-Identifier: Apache-2.0
// scatter_: writes a scalar or a tensor where an index says, along one dimension.
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::Tensor;

int main() {
  const Tensor x = Tensor::zeros({3, 5}, sow::DType::float32);
  const Tensor y = Tensor::of<int64_t>({1, 2, 0, 1}, {2, 2});
  std::cout << "x\n" << x << "\ny\n" << y << "\n\n";

  // x[y[i][j]][j] = 2
  scatter_(x, 0, y, 2.0);
  std::cout << "scatter_(x, 0, y, 2.0)\n" << x << "\n\n";
  const bool twos = x.to_vector<float>() == std::vector<float>{2, 0, 0, 0, 0,  //
                                                               2, 2, 0, 0, 0,  //
                                                               0, 2, 0, 0, 0};

  // Only the corner of src that y covers is used.
  const Tensor src = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  scatter_(x, 0, y, src, "add");
  std::cout << "scatter_(x, 0, y, src, \"add\") with src\n" << src << "\n\n" << x << "\n\n";

  // Where several updates meet, the last one in row-major order wins: always.
  const Tensor same = Tensor::zeros({1, 5}, sow::DType::int64);
  const Tensor last = scatter(Tensor::zeros({1, 3}, sow::DType::int32), 1, same,
                              Tensor::of<int32_t>({1, 2, 3, 4, 5}, {1, 5}));
  std::cout << "five updates of one place\n" << last << "\n\n";

  // A bad index is found before anything is written.
  std::string complaint;
  try {
    scatter_(x, 0, Tensor::of<int64_t>({0, 3}, {1, 2}), 9);
  } catch (const sow::Error& error) {
    complaint = error.what();
  }
  std::cout << complaint << "\n";

  return twos && last.to_vector<int32_t>()[0] == 5 && !complaint.empty() ? EXIT_SUCCESS
                                                                         : EXIT_FAILURE;
}
