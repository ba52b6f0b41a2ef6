// SPDX-License-Identifier: Apache-2.0
// Memory straight from the system: what the pool is filled from and emptied into.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define SOW_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOW_ADDRESS_SANITIZER 1
#endif
#endif

namespace sow::detail {

// AddressSanitizer finds uses after the end and after the free only if no pool is in between.
#if defined(SOW_ADDRESS_SANITIZER)
inline constexpr bool kMemoryIsPooled = false;
#else
inline constexpr bool kMemoryIsPooled = true;
#endif

inline constexpr size_t kHugePage = size_t{2} << 20;

// A block aligned to 64 bytes, in huge pages from the size of one; null when there is no memory.
void* system_allocate(size_t bytes) noexcept;
void system_free(void* block, size_t bytes) noexcept;

}  // namespace sow::detail
