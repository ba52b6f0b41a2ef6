// SPDX-License-Identifier: Apache-2.0
// Giving up a call that runs for long: for bindings to languages whose users press Ctrl-C.
#pragma once

#include "sow/export.h"

namespace sow {

// Sets what is asked, on the thread of the call, between the parts of a call and before its
// destination is written to; if it throws, the call is given up with that. Null: nothing is asked.
using InterruptLook = void (*)();
SOW_API void set_interrupt_look(InterruptLook look);

}  // namespace sow
