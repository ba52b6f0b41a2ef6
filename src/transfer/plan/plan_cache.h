// SPDX-License-Identifier: Apache-2.0
// The plans that a thread made lately, so that small calls that are alike are planned once.
#pragma once

#include "transfer/plan/plan.h"

namespace sow::detail {

struct Planned {
  Canonical canonical;  // of a Transfer under a mask only `empty` is filled in
  Plan plan;            // without a strategy where there is nothing to do
};

// Valid until this thread asks for the next one.
const Planned& planned_for(const Transfer& transfer, Device device = {});

// Plans, checks the indices and runs, on the CPU: the `run` of its device table.
void run_on_cpu(const Transfer& transfer);

// Runs a Transfer whose indices are checked, on the CPU, in the default floating-point state.
void run_planned(const Transfer& transfer, const Planned& planned);

}  // namespace sow::detail
