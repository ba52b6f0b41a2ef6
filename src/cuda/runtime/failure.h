// SPDX-License-Identifier: Apache-2.0
// The record of the first call that failed on a device, filled without waiting for the device.
//
// A kernel that meets a bad index sets the call's Flag; writers look at the Flag and leave the
// destination alone; at the end of the call the first bad key is looked for, only if there is one,
// and written with what its message needs into memory that the host can read at any time.
#pragma once

#include "cuda/plan/problem.h"
#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

struct FailureSlot {
  volatile uint32_t filled;
  CudaFailure failure;
};

void open_failures(DeviceState& state);

// Whether anything of this Transfer's indices is an error for the contract, whatever the keys.
bool must_check_keys(const Transfer& transfer);
// Sets the flag if there is a bad key.
void mark_bad_keys(const CudaContext& context, const Transfer& transfer, Flag* flag);
// Finds and keeps the first bad key, if the flag says that there is one (or `always`), and clears
// the flag.
void report_bad_keys(const CudaContext& context, const Transfer& transfer, Flag* flag, bool always);

// Copies the failure out and makes room for the next; false if there was none.
bool take_failure(const CudaContext& context, CudaFailure& out);

}  // namespace sow::detail::cuda
