// Runs Transfers on a device.
#pragma once

#include <string>

#include "cuda/strategy.h"

namespace sow::detail::cuda {

// A misaligned access would end the context and every tensor in it: an error before anything runs.
void expect_aligned(const char* op, const void* data, int width);

void run_transfer(const CudaContext& context, const Transfer& transfer);
std::string explain_transfer(const CudaContext& context, const Transfer& transfer);
bool forced_supports(const CudaContext& context, const Transfer& transfer);

}  // namespace sow::detail::cuda
