// SPDX-License-Identifier: Apache-2.0
// Lets a call that runs for long be given up between its parts, before it writes to what is there.
#pragma once

namespace sow::detail {

// Between two parts, of which the next may be left out: asks what set_interrupt_look() was given.
void look_for_interrupt();

// While one lives, the calls of this thread go on to their end: something was written already.
class Uninterrupted {
 public:
  Uninterrupted();
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;

 private:
  bool previous_;
};

}  // namespace sow::detail
