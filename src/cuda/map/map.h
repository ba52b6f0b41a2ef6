// SPDX-License-Identifier: Apache-2.0
// Elementwise operations on a device.
#pragma once

#include "cuda/runtime/runtime.h"
#include "transfer/map.h"

namespace sow::detail::cuda {

void run_map(const CudaContext& context, const Map& map);

}  // namespace sow::detail::cuda
