// SPDX-License-Identifier: Apache-2.0
// The CUDA backend as the core sees it: loaded on first need, or the reason why it is not there.
#pragma once

#include <string>
#include <vector>

#include "core/device_table.h"
#include "transfer/device/cuda_table.h"

namespace sow::detail {

struct CudaBackend {
  const CudaTable* table = nullptr;  // null: `status` says why
  int devices = 0;
  std::string status;
};
const CudaBackend& cuda_backend();

// The table of CUDA devices; an Error of kind device if there are none.
const DeviceTable& cuda_table();

// Raises what failed on the device, if anything has. `last` is the call that has just been made,
// for what its failure could not carry along.
void raise_cuda_failure(int device, const Transfer* last = nullptr);

// For tests: the names of the backend's strategies, and whether one supports a Transfer.
std::vector<std::string> cuda_strategies();
bool cuda_supports(const char* strategy, const Transfer& transfer, int device);

}  // namespace sow::detail
