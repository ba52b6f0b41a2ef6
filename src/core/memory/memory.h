// SPDX-License-Identifier: Apache-2.0
// Where results and workspace get their memory: a pool that keeps freed blocks for the next caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sow/memory.h"

namespace sow::detail {

// Blocks start on a boundary of at least this many bytes.
inline constexpr size_t kMemoryAlignment = 64;

// A block of at least this many bytes, with any content; of zero bytes it is unique and not null.
// std::bad_alloc when there is no memory, or less than that under the limits of the process. From
// any thread, also in a forked child.
void* allocate(size_t bytes);

// Gives back what allocate(bytes) returned; null does nothing. From any thread at any time, also
// after static objects have been destroyed.
void deallocate(void* block, size_t bytes) noexcept;

using sow::memory_stats;
using sow::release_memory;

// Tests: asked at every allocation, by whichever thread makes it, whether it fails. Null: none
// does.
using AllocationTest = bool (*)();
void set_allocation_test(AllocationTest test);

// The most bytes that stay in the pool, for large blocks and small ones together. It starts as
// SOW_POOL_LIMIT (bytes) or, without it, as a quarter of the memory but at most 4 GiB.
int64_t memory_pool_limit();
void set_memory_pool_limit(int64_t bytes);

}  // namespace sow::detail
