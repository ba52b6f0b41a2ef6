// SPDX-License-Identifier: Apache-2.0
// Counts the allocations of this test program, and lets one of them fail.
#pragma once

#include <cstdint>

namespace sow::test {

// Calls of operator new.
int64_t heap_calls();

// False under ThreadSanitizer, whose operator new cannot be replaced: only the pool's allocations
// are counted and fail there.
bool counts_operator_new();

// While it lives, allocation number `n` from now on (the first is 1) fails, by operator new or in
// the pool, on whichever thread it is; and all after it, if memory does not come back.
class FailAllocation {
 public:
  enum class Then { works, fails };
  FailAllocation(int64_t n, Then then);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;

  static int64_t made();  // since it lives, those that failed too
};

// How many allocations f makes.
template <class F>
int64_t allocations_of(F&& f) {
  const FailAllocation none(INT64_MAX, FailAllocation::Then::works);
  f();
  return FailAllocation::made();
}

}  // namespace sow::test
