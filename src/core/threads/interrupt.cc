// SPDX-License-Identifier: Apache-2.0
// The one function that is asked, and the threads that do not ask.
#include "core/threads/interrupt.h"

#include <atomic>

#include "sow/interrupt.h"

namespace sow {

namespace detail {

namespace {

std::atomic<InterruptLook> asked{nullptr};
constinit thread_local bool goes_on = false;

}  // namespace

void look_for_interrupt() {
  const InterruptLook look = asked.load(std::memory_order_relaxed);
  if (look != nullptr && !goes_on) look();
}

Uninterrupted::Uninterrupted() : previous_(goes_on) { goes_on = true; }
Uninterrupted::~Uninterrupted() { goes_on = previous_; }

}  // namespace detail

void set_interrupt_look(InterruptLook look) { detail::asked.store(look); }

}  // namespace sow
