// SPDX-License-Identifier: Apache-2.0
// Every tuned constant of the CPU strategies. 2 cores of a Zen 4 class EPYC, 2026-11-15 and 16; a
// [key] names the measurement in docs/lab-notebook.md, "Where the constants come from".
#pragma once

#include <cstdint>

namespace sow::detail::tuning {

// Long accumulators that are in use at a time while inconclusive sums are repaired, per worker. Few
// are inconclusive; with room for more, folds of 16,384 updates and places were over their budget
// of memory.
inline constexpr int64_t kRepairBytes = 64 * 1024;
// And at least, however few cells there are: kernels write eight at a time while there is room for
// as many that are inconclusive.
inline constexpr int64_t kRepairSlots = 16;

// Fewer element updates than this are done on the calling thread: waking another costs some
// microseconds.
inline constexpr int64_t kSerialUpdates = 16384;

// Neighbouring outer positions are worked on together up to so many updates and places: enough to
// make up for beginning a block, few enough that its cells stay in the first-level cache.
inline constexpr int64_t kGroupUpdates = 2048;
inline constexpr int64_t kGroupPlaces = 4096;
// Columns are taken into a block up to so many places.
inline constexpr int64_t kColumnPlaces = 65536;

// Up to so many places an update, and updates a place, floats are added and multiplied in plain
// float64s; [plain].
inline constexpr int64_t kPlainPlaces = 4;
inline constexpr int64_t kPlainUpdates = 2;

// Up to this many items may go through a hash table that stays in the first-level cache.
inline constexpr int64_t kHashedItems = 4096;

// Updates that are added in fixed point at a time, at least: enough to make up for emptying
// it, few enough that values of normal spread fit its 62 bits.
inline constexpr int64_t kFixedPointUpdates = 65536;

// With so many updates per cell and more, an extreme rarely changes; [often].
inline constexpr int64_t kOftenUpdates = 64;
// The same where floats come by their keys.
inline constexpr int64_t kOftenKeys = 512;

// Digits of the radix sort.
inline constexpr int kDigitBits = 11;

// Places of a bucket of items: they are counted out in the first-level cache.
inline constexpr int kBucketBits = 8;

// Items of a bucket that is sorted and folded at once, at most.
inline constexpr int64_t kRoomItems = 32768;

// Destination rows with more items than this are cut into chunks when they would hold up a worker.
inline constexpr int64_t kLongItems = 2048;
inline constexpr int64_t kChunkItems = 1024;

// Destinations up to this size may have a copy per worker, those of accumulators that are large up
// to the second; [private].
inline constexpr int64_t kPrivateCells = 524288;
inline constexpr int64_t kPrivateSums = 65536;
inline constexpr int64_t kPrivateFixedPointCells = 4194304;

// Beyond so many cells a worker's sums have one fixed-point scale and nothing else: values that it
// does not take are partitioned. And one in so many cells may be added up again at a time.
inline constexpr int64_t kFixedPointOnlyCells = 16384;
inline constexpr int64_t kRepairCells = 64;

// A bucket of the partition: its cells, or its part of the destination, stay in the second-level
// cache; [buckets].
inline constexpr int64_t kBucketBytes = 512 * 1024;
inline constexpr int64_t kBuckets = 384;
inline constexpr int64_t kMostBuckets = 1024;
inline constexpr int kFewestBucketBits = 10;

// Beyond so many places an update, cells are found through a hash table (block), and places with
// one update are written without a cell (block, partition).
inline constexpr int64_t kHashedPlaces = 32;
inline constexpr int64_t kSparsePlaces = 2;

// Blocks of the destination whose lines are all prefetched before they are updated: up to this
// size, and no more than so many lines an update; [touched].
inline constexpr int64_t kTouchedBytes = 256 * 1024;
inline constexpr int64_t kTouchedLines = 2;

// Costs in nanoseconds that strategies estimate with, a worker; 2 cores of a Zen 4 class EPYC,
// 2026-11-15. Those that are no constants `sow tune` measures anew (transfer/plan/tuning_file.h).
// They are fitted to a grid of problems and strategies (`make tune` prints where they choose
// badly); kFarKeyNs and kDecodeNs to the order of 2^20 sums along the first axis of 8192x1024, 13
// to 17 ms (block) against 8 to 12 (partition).
inline double kCallNs = 100;
inline double kRegionNs = 4000;
// What a strategy must save at least where the other way is to work alone: threads that sleep take
// 20 to 50 us to come, those that wait 1; [team].
inline constexpr double kTeamNs = 20000;
inline constexpr double kTaskNs = 60;
inline constexpr double kNeverNs = 1e12;  // too small a problem for this strategy
// Sums in one float64 per place (small), and any update of which neither places nor values are one
// run.
inline constexpr double kPlainSumNs = 1.3;
inline constexpr double kPlainPlaceNs = 0.2;
inline constexpr double kFlattenNs = 1.9;
// Single elements straight to their places; [direct].
inline constexpr double kMoveNs = 0.6;
inline double kDirectNs = 0.75;
inline constexpr double kDirectExtremeNs = 1.5;
// Rows: 1,024 of 4 float32 maxima 5.5 us, of 64 50 us; moved 5.3 and 5.7, 4,096 of 1,024 1.1 ms.
inline constexpr double kRowNs = 2.5;
inline double kRowColumnNs = 0.75;
inline constexpr double kMoveRowNs = 4.5;
inline constexpr double kMoveShortRowNs = 2.2;  // 64 bytes at most
inline double kMoveByteNs = 0.02;
inline constexpr double kMoveFarByteNs = 0.035;
inline constexpr double kFarKeyNs = 9;
inline constexpr double kDecodeNs = 3;
inline constexpr double kDecodeRunNs = 20;
inline constexpr double kDecodePlainNs = 0.4;
inline constexpr double kDecodePlainRunNs = 8;
inline constexpr double kOwnedNs = 8;
// Cells (block): the first position, updates of places that are met once, places behind a hash
// table, and rows, by their columns: an item, and opening and writing a cell.
inline constexpr double kBlockCallNs = 450;
inline constexpr double kSparseNs = 3.5;
inline constexpr double kEmptyCellNs = 0.02;
inline constexpr double kCellNs = 9;
inline constexpr double kHashNs = 3;
inline constexpr double kCellRowNs = 4;
struct CellColumnNs {
  double item, cell;
};
inline constexpr CellColumnNs kNumberColumn = {0.26, 1.1};
// Extremes and products of float64: maxima of 20,000 rows of 16 to 2,000 places 0.44 ms,
// ordered 0.18.
inline constexpr CellColumnNs kDoubleColumn = {1, 1.1};
inline CellColumnNs kSumColumn = {0.8, 1.5};
inline constexpr CellColumnNs kDoubleSumColumn = {1.6, 2};
inline constexpr double kLastUpdateNs = 0.4;
inline constexpr double kLastPlaceNs = 12;
inline double kMergeNs = 6;
// Partitioning a pair, and a larger update; applying a pair to its block; a bucket; a line of the
// destination that is prefetched; [partition].
inline constexpr double kPartitionPairNs = 1.4;
inline double kPartitionUpdateNs = 7;
inline constexpr double kPartitionByteNs = 5;
inline constexpr double kPairNs = 0.9;
inline constexpr double kBucketNs = 400;
inline constexpr double kLineNs = 5;
inline constexpr double kOrderNs = 300;

// Ordered rows: sorting an item, a destination row, an item of it, and a byte of that, out of the
// cache and out of memory; [ordered].
struct RowNs {
  double row, item, byte, far_byte;
};
inline double kSortNs = 5;
inline RowNs kTiledRows = {6, 3, 0.03, 0.06};
inline constexpr RowNs kPlainRows = {20, 5, 0.06, 0.1};
inline constexpr double kOrderRegionNs = 1500;
inline constexpr double kCachedBytes = 16e6;

// Short rows: one in so many terms may be a residual; items that take up more than so many bytes
// are prefetched. A call, the choice of a fixed-point scale, a key that is read, an item of a row
// that is one's own, a column of it with vectors and without, a byte of it out of memory, a cell
// that is emptied and written by vectors and without; [short_rows].
inline constexpr int64_t kShortResiduals = 1024;
inline constexpr int64_t kShortNearBytes = int64_t{1} << 20;
inline constexpr double kShortNs = 300;
inline constexpr double kShortScaleNs = 400;
inline constexpr double kShortKeyNs = 0.4;
inline constexpr double kShortRowNs = 0.8;
inline constexpr double kShortColumnNs = 0.15;
inline constexpr double kShortPlainNs = 1.2;
inline constexpr double kShortFarByteNs = 0.03;
inline constexpr double kShortCellNs = 0.5;
inline constexpr double kShortPlainCellNs = 5;

// A block of cells: an update, and what opening, emptying and writing a cell cost. Fixed-point
// cells are 64-bit integers, accumulators may be inconclusive, the rest are single numbers;
// [block].
struct BlockNs {
  double update, cell;
};
inline BlockNs kFixedPointBlock = {0.5, 0.4};
inline BlockNs kTwoWordBlock = {0.8, 1.0};
inline constexpr BlockNs kAccumulatorBlock = {3.4, 2.0};
inline BlockNs kNumberBlock = {0.85, 2.5};
inline constexpr BlockNs kFloatExtremeBlock = {0.65, 0.3};
// Plain float64s, one and two a place.
inline BlockNs kPlainBlock = {0.9, 0.3};
inline BlockNs kPlainPairBlock = {1.5, 0.5};
// Sums of integers that take the old values in, which nobody counts.
inline constexpr BlockNs kUncountedBlock = {0.6, 0.3};
// Those of integers are counted.
inline constexpr BlockNs kExtremeBlock = {1.9, 2.0};
inline constexpr BlockNs kOftenBlock = {0.7, 2.0};

// Emptying, merging and writing a cell that each of two workers has; what all workers have may
// leave the third-level cache; [join].
inline constexpr double kJoinNs = 0.8;
inline constexpr double kJoinFarByteNs = 0.04;
inline constexpr double kFarBytes = 24e6;

// What a random access costs more when it goes to so many bytes: 8-byte cells and 4-byte places, on
// the same machine (1 MB second-level, 32 MB third-level cache).
inline double miss_ns(double bytes) {
  if (bytes <= 64e3) return 0;
  if (bytes <= 640e3) return 0.2;
  if (bytes <= 4.5e6) return 1.2;
  if (bytes <= 20e6) return 3;
  if (bytes <= 40e6) return 4.5;
  return 7;
}

// The same where cells are prefetched, `all` of all workers: 2^22 float32 sums on two threads to
// 16,384, 131,072 and 524,288 places 1.6, 2.1 and 2.5 ms, on one to 2^20 5.1 (2026-11-16).
inline double prefetched_miss_ns(double bytes, double all) {
  if (bytes <= 64e3) return 0;
  if (bytes <= 640e3) return 0.2;
  if (all > kFarBytes) return 2;
  return bytes <= 1.5e6 ? 0.45 : 0.65;
}

}  // namespace sow::detail::tuning
