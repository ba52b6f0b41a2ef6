// SPDX-License-Identifier: Apache-2.0
// The memory that the library holds: results, workspace, and freed blocks kept for the next caller.
#pragma once

#include <cstdint>

#include "sow/export.h"

namespace sow {

// Of the main memory, in bytes. What arrays of other libraries take is not counted.
struct MemoryStats {
  int64_t bytes_in_use;  // by tensors, held indices, programs and calls that run
  int64_t peak_bytes_in_use;
  int64_t bytes_kept;   // freed, waiting for reuse; never above the limit
  int64_t keep_limit;   // SOW_POOL_LIMIT or, without it, a quarter of the memory, 4 GiB at most
  int64_t allocations;  // how many were made
  int64_t system_allocations;  // those that what was kept could not serve
};

SOW_API MemoryStats memory_stats();

// Gives everything that is kept back to the system. By itself that happens where memory is short:
// when an allocation fails, or comes near the limit of the process (of its control groups too).
SOW_API void release_memory();

}  // namespace sow
