// SPDX-License-Identifier: Apache-2.0
// How far ahead the fixed-point loops in vectors prefetch what they read.
#pragma once

#include <cstdint>

#include "cpu/common/prefetch.h"

namespace sow::detail {

// Keys and values, in bytes of int64 keys.
inline constexpr int64_t kStream = 16384;
// Cells that leave the second-level cache are prefetched as well ([cells_ahead] in the notebook).
struct Near {
  static constexpr int kPrefetchAhead = 0;
};
struct Beyond {
  static constexpr int kPrefetchAhead = 32;
  static constexpr uint32_t kBytes = 768 * 1024;
  static void prefetch_cell(const void* cells, int64_t bytes) { prefetch(cells, bytes); }
};
struct Far {
  static constexpr int kPrefetchAhead = 128;
  static constexpr uint32_t kBytes = 2 * 1024 * 1024;
  static void prefetch_cell(const void* cells, int64_t bytes) { prefetch_l2(cells, bytes); }
};

}  // namespace sow::detail
