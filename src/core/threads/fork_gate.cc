// SPDX-License-Identifier: Apache-2.0
// Registers the handlers that hold the gate while a process forks.
#include "core/threads/fork_gate.h"

#include <pthread.h>

#include <new>

namespace sow::detail {

std::shared_mutex& fork_gate() {
  static auto* const gate = new std::shared_mutex;  // never destroyed: threads may outlive main
  return *gate;
}

void close_gate_in_forks() {
  fork_gate();
  // In the child the gate is made anew: threads that waited for it are not there.
  pthread_atfork([] { fork_gate().lock(); }, [] { fork_gate().unlock(); },
                 [] { new (&fork_gate()) std::shared_mutex; });
}

}  // namespace sow::detail
