// SPDX-License-Identifier: Apache-2.0
// masked_scatter: the trues of a mask take the elements of a value, one after the other.
#include <cstdlib>
#include <iostream>

#include "sow/sow.h"

using sow::Tensor;

int main() {
  const Tensor x = Tensor::zeros({3, 4}, sow::DType::float32);
  const Tensor mask = Tensor::of<bool>({true, false, true, false});
  const Tensor value = Tensor::of<float>({1, 2, 3, 4, 5, 6, 7});
  std::cout << "x\n" << x << "\nmask, which broadcasts to every row of x\n" << mask << "\n";
  std::cout << "value\n" << value << "\n\n";

  // Out of place: x stays as it is, and a seventh value is left over.
  const Tensor merged = sow::masked_scatter(x, mask, value);
  std::cout << "masked_scatter(x, mask, value)\n" << merged << "\n\n";

  // In place, as a method: the very object comes back.
  const Tensor same = x.masked_scatter_(mask, value.flip(0));
  std::cout << "x.masked_scatter_(mask, value.flip(0))\n" << x << "\n\n";

  // Six trues need six values. The error says so, and x is untouched.
  bool refused = false;
  try {
    sow::masked_scatter_(x, mask, value.slice(0, 0, 5));
  } catch (const sow::Error& error) {
    refused = true;
    std::cout << "with five values: " << error.what() << "\n";
  }

  const bool right =
      merged.to_vector<float>() == std::vector<float>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0};
  return right && refused && same.same_object(x) ? EXIT_SUCCESS : EXIT_FAILURE;
}
