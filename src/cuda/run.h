// Runs Transfers on a device.
#pragma once

#include <string>

#include "cuda/strategy.h"

namespace sow::detail::cuda {

void run_transfer(const CudaContext& context, const Transfer& transfer);
std::string explain_transfer(const CudaContext& context, const Transfer& transfer);
bool forced_supports(const CudaContext& context, const Transfer& transfer);

}  // namespace sow::detail::cuda
