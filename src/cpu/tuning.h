// Every tuned constant of the CPU strategies, with the measurement it comes from.
#pragma once

#include <cstdint>

namespace sow::detail::tuning {

// Long accumulators that are in use at a time while refused sums are repaired, per worker.
inline constexpr int64_t kRepairBytes = 256 * 1024;

// Fewer element updates than this are done on the calling thread: waking another costs some
// microseconds.
inline constexpr int64_t kSerialUpdates = 16384;

// Up to this many items may go through a hash table that stays in the first-level cache.
inline constexpr int64_t kHashedItems = 4096;

// Digits of the radix sort.
inline constexpr int kDigitBits = 11;

// Destination rows with more items than this are cut into chunks when they would hold up a worker.
inline constexpr int64_t kLongItems = 2048;
inline constexpr int64_t kChunkItems = 1024;

// Costs in nanoseconds that strategies estimate with.
inline constexpr double kCallNs = 100;
inline constexpr double kRegionNs = 4000;
inline constexpr double kTaskNs = 60;
inline constexpr double kCellNs = 3;
inline constexpr double kCellColumnNs = 0.8;
inline constexpr double kHashNs = 3;
inline constexpr double kDirectNs = 2;
inline constexpr double kDirectColumnNs = 0.5;
inline constexpr double kMoveByteNs = 0.1;
inline constexpr double kOwnedNs = 1.5;
inline constexpr double kOrderNs = 300;
inline constexpr double kSortNs = 5;
inline constexpr double kRowNs = 40;
inline constexpr double kRowItemNs = 5;
inline constexpr double kRowByteNs = 0.1;

// What a random access costs more when it goes to so many bytes.
inline double miss_ns(double bytes) {
  if (bytes <= 512e3) return 0;
  if (bytes <= 16e6) return 3;
  return 8;
}

}  // namespace sow::detail::tuning
