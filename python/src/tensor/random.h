// SPDX-License-Identifier: Apache-2.0
// Random tensors from a counter: the same seed gives the same numbers, whatever came before.
#pragma once

#include <optional>

#include "sow/tensor.h"

namespace sow::python {

Tensor uniform(const Dims& shape, DType dtype, std::optional<uint64_t> seed);
Tensor normal(const Dims& shape, DType dtype, std::optional<uint64_t> seed);
void set_seed(uint64_t seed);

}  // namespace sow::python
