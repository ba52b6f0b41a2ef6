// SPDX-License-Identifier: Apache-2.0
// How many bytes of the pool a call holds at most.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "core/memory/memory.h"

namespace sow::detail {

// Bytes that `call` held at most, above what was in use before it. The peak only ever grows, so the
// pool is first filled up to it.
inline int64_t peak_of(const std::function<void()>& call) {
  const MemoryStats before = memory_stats();
  const size_t gap = static_cast<size_t>(before.peak_bytes_in_use - before.bytes_in_use);
  void* filling = allocate(gap);
  const int64_t start = memory_stats().peak_bytes_in_use;
  EXPECT_EQ(memory_stats().bytes_in_use, start);
  call();
  const int64_t found = memory_stats().peak_bytes_in_use - start;
  deallocate(filling, gap);
  return found;
}

}  // namespace sow::detail
