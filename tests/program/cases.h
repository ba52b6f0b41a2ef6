// SPDX-License-Identifier: Apache-2.0
// One case for every operation and reduction: inputs, and a function of them that runs on real and
// on symbolic tensors alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sow/sow.h"

namespace sow::test {

struct Case {
  std::string name;
  TensorList inputs;
  std::function<Tensor(const TensorList&)> call;
};

std::vector<Case> all_cases();

// Row-major values that do not add up nicely; no zeros.
Tensor values(const Dims& shape, DType dtype = DType::float32, int64_t seed = 1);
// Keys in [-size, size), with repetitions.
Tensor keys(const Dims& shape, int64_t size, DType dtype = DType::int64, int64_t seed = 1);
Tensor mask(const Dims& shape, int64_t seed = 1);

// A program of one output, with inputs x0, x1, ... whose extents are known or not.
Program program_of(const Case& one, bool known);

// What the Error says that f throws.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Type, shape and every byte.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace sow::test
