// SPDX-License-Identifier: Apache-2.0
// put_along_axis: values meet in chosen places of an array, and a reduction says what becomes of
// them.
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::Tensor;

int main() {
  const Tensor arr = Tensor::of<float>({10, 20, 30, 40, 50, 60}, {2, 3});
  const Tensor indices = Tensor::of<int64_t>({0, 0, 2, 1, 1, 1}, {2, 3});
  const Tensor values = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  std::cout << "arr\n" << arr << "\nindices along axis 1\n" << indices;
  std::cout << "\nvalues\n" << values << "\n\n";

  for (const char* reduce : {"assign", "add", "mul", "amax", "amin", "mean"}) {
    std::cout << reduce << "\n" << put_along_axis(arr, indices, values, 1, reduce) << "\n";
  }

  // Without the old value: touched places hold the updates alone, the others keep what they had.
  const Tensor mean = put_along_axis(arr, indices, values, 1, "mean", /*include_self=*/false);
  std::cout << "mean, include_self=false\n" << mean << "\n\n";

  // Indices expand to the array off the axis, and a scalar goes everywhere. The default is add.
  const Tensor column = Tensor::of<int64_t>({-1, 0}, {2, 1});
  arr.put_along_axis_(column, 100, 1);
  std::cout << "arr.put_along_axis_([[-1], [0]], 100, 1)\n" << arr << "\n";

  const bool right = mean.to_vector<float>() == std::vector<float>{1.5f, 20, 3, 40, 5, 60} &&
                     arr.to_vector<float>() == std::vector<float>{10, 20, 130, 140, 50, 60};
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
