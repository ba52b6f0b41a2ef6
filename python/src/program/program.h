// SPDX-License-Identifier: Apache-2.0
// What programs and traced functions share: arrays in, arrays out.
#pragma once

#include <vector>

#include "calls/bind.h"
#include "sow/program.h"

namespace sow::python {

// Runs a program on these feeds. `results` are tensors to write into, or undefined and then made.
// Lets other threads run where there is enough to do.
void run_program(const CompiledProgram& program, const TensorList& feeds, TensorList& results);

// The tensors of a sequence, or of the one array that is given.
TensorList read_tensors(nb::handle object, const char* op, const char* argument);

}  // namespace sow::python
