// SPDX-License-Identifier: Apache-2.0
// Locks that a fork waits for: a child is never born with one that a thread of its parent holds.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace sow::detail {

// Forks of the process hold this exclusively.
std::shared_mutex& fork_gate();

// Called once by the memory pool, after it has registered handlers of its own: those that came last
// run first, and who holds the gate may ask for memory.
void close_gate_in_forks();

// std::lock_guard for work that is done without Python's lock and may take long.
class ForkSafeLock {
 public:
  explicit ForkSafeLock(std::mutex& mutex) : gate_(fork_gate()), lock_(mutex) {}

 private:
  std::shared_lock<std::shared_mutex> gate_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace sow::detail
