// SPDX-License-Identifier: Apache-2.0
// Plans of Transfers on a device: made once, run as often as wanted, printed and compared.
#pragma once

#include <string>

#include "cuda/plan/strategy.h"

namespace sow::detail::cuda {

// A misaligned access would end the context and every tensor in it: an error before anything runs.
void expect_aligned(const char* op, const void* data, int width);

Plan make_plan(const CudaContext& context, const Transfer& transfer);
void run_plan(const CudaContext& context, const Transfer& transfer, const Plan& plan);
std::string describe(const Plan& plan);
bool operator==(const Plan& a, const Plan& b);

// Tests: whether the strategy that the context forces supports the Transfer.
bool forced_supports(const CudaContext& context, const Transfer& transfer);

}  // namespace sow::detail::cuda
