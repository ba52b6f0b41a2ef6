// Where results and workspace get their memory: a pool that keeps freed blocks for the next caller.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sow::detail {

// Blocks start on a boundary of at least this many bytes.
inline constexpr size_t kMemoryAlignment = 64;

// A block of at least this many bytes, with any content; of zero bytes it is unique and not null.
// std::bad_alloc when there is no memory. From any thread, also in a forked child.
void* allocate(size_t bytes);

// Gives back what allocate(bytes) returned; null does nothing. From any thread at any time, also
// after static objects have been destroyed.
void deallocate(void* block, size_t bytes) noexcept;

struct PoolStats {
  int64_t bytes_in_use;  // as the callers asked for
  int64_t peak_bytes_in_use;
  int64_t bytes_kept;          // freed, waiting for reuse; never above the limit
  int64_t allocations;         // calls of allocate that succeeded
  int64_t system_allocations;  // those of them that the pool could not serve
};

PoolStats memory_stats();

// Returns every kept block to the system.
void release_memory();

// The most bytes that stay in the pool, for large blocks and small ones together. It starts as
// SOW_POOL_LIMIT (bytes) or, without it, as a quarter of the memory but at most 4 GiB.
int64_t memory_pool_limit();
void set_memory_pool_limit(int64_t bytes);

}  // namespace sow::detail
