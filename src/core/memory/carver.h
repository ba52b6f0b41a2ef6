// SPDX-License-Identifier: Apache-2.0
// The workspace carver: a strategy that needs several arrays lists them once, and the same list
// measures the workspace (no memory given: used() is the answer) and lays it out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory/memory.h"

namespace sow::detail {

class Carver {
 public:
  explicit Carver(char* workspace) : start_(reinterpret_cast<uintptr_t>(workspace)) {}
  // The next `count` elements, from a boundary of a cache line on. Without memory the address is
  // good for nothing.
  template <class T>
  T* take(int64_t count) {
    T* taken = reinterpret_cast<T*>(start_ + used_);
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    used_ += (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
    return taken;
  }
  size_t used() const { return used_; }

 private:
  uintptr_t start_;
  size_t used_ = 0;
};

}  // namespace sow::detail
