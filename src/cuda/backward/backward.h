// SPDX-License-Identifier: Apache-2.0
// Gradients of indexed scatters (mean, amax, amin, mul) without intermediate tensors.
#pragma once

#include "transfer/device/cuda_table.h"
#include "transfer/indexed_backward.h"

namespace sow::detail::cuda {

// False where it cannot: then the rules of src/ops do it step by step, with the same bits.
bool run_backward(const CudaContext& context, const IndexedBackward& work, const Transfer& places,
                  int64_t elements);

}  // namespace sow::detail::cuda
