// Every tuned constant of the CPU strategies, with the measurement it comes from.
#pragma once

#include <cstdint>

namespace sow::detail::tuning {

// Long accumulators that are in use at a time while refused sums are repaired, per worker. Few are
// refused; with room for more, folds of 16,384 updates and places were over their budget of memory.
inline constexpr int64_t kRepairBytes = 64 * 1024;

// Fewer element updates than this are done on the calling thread: waking another costs some
// microseconds.
inline constexpr int64_t kSerialUpdates = 16384;

// Up to this many items may go through a hash table that stays in the first-level cache.
inline constexpr int64_t kHashedItems = 4096;

// Updates that go through a window at a time, at least: enough to make up for emptying it, few
// enough that values of normal spread fit its 62 bits.
inline constexpr int64_t kWindowUpdates = 65536;

// With so many updates a cell and more, an extreme rarely changes. Random float32: 2^23 maxima of
// 1,024 places 2.5 ms by branches, of 2^22 places 16 ms, and 5 without (2 cores of a Zen 4 class
// EPYC, 2026-11-15).
inline constexpr int64_t kOftenUpdates = 64;
// And where floats come by their keys, two threads: 2^22 maxima of 1,024, 4,096 and 16,384 places
// 1.4, 2.0 and 3.0 ms by branches, and 1.5, 2.1 and 2.5 without (the same machine, 2026-11-16).
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

// Destinations up to this size may have a copy a worker, those of accumulators that are large up to
// the second. 2^22 float32 sums to 65,536, 131,072, 262,144 and 524,288 places: 2.4, 3.0, 3.9 and
// 6.0 ms, dealt out 5.8 to 8.1 (2 cores of a Zen 4 class EPYC, 2026-11-15); maxima 3.0, 3.1, 3.4
// and 4.4, dealt out 4.7 to 4.9; int64 sums to the first three 5.2, 5.9 and 6.7, dealt out 6.7, 6.9
// and 7.8 (2026-11-16).
inline constexpr int64_t kPrivateCells = 524288;
inline constexpr int64_t kPrivateSums = 65536;
inline constexpr int64_t kPrivateWindows = 4194304;

// Beyond so many cells a worker's sums have one window and nothing else: values that it does not
// take are dealt out. And one in so many cells may be added up again at a time.
inline constexpr int64_t kWideCells = 16384;
inline constexpr int64_t kRepairCells = 64;

// A bucket of the partition: its cells, or its part of the destination, stay in the second-level
// cache. 2^23 pairs are dealt to 64, 128, 256 and 512 buckets in 5.4, 5.2, 5.3 and 5.6 ms, and 2^23
// float32 sums to 2^22 places take 11.5 ms with 128 buckets, 10.9 with 256, 11.2 with 512 (2 cores
// of a Zen 4 class EPYC, 2026-11-16). 10^7 sums and moves to 5,000,000 places 11.8 and 9.4 ms with
// 306, 12.4 and 10.4 with 153.
inline constexpr int64_t kBucketBytes = 512 * 1024;
inline constexpr int64_t kBuckets = 384;
inline constexpr int64_t kMostBuckets = 1024;
inline constexpr int kFewestBucketBits = 10;

// Beyond so many places an update, cells are found through a hash table (tile), and places with
// one update are written without a cell (tile, partition).
inline constexpr int64_t kHashedPlaces = 32;
inline constexpr int64_t kSparsePlaces = 2;

// Blocks of the destination whose lines are all sent for before they are updated, the first by
// reading through it, each next one while the one before is worked on: up to this size, and no more
// than so many lines an update. 1024 sums into each of 1024 blocks of 8192 float32: 6.1 ms
// without, 2.3 when each is read through, 1.7 when the next one is sent for (loops of a prototype,
// 2 cores of a Zen 4 class EPYC, 2026-11-15).
inline constexpr int64_t kTouchedBytes = 256 * 1024;
inline constexpr int64_t kTouchedLines = 2;

// Costs in nanoseconds that strategies estimate with, a worker; 2 cores of a Zen 4 class EPYC,
// 2026-11-15. They are fitted to a grid of problems and strategies (`make tune` prints where they
// choose badly); kFarKeyNs and kDecodeNs to the order of 2^20 sums along the first axis of
// 8192x1024, 13 to 17 ms (tile) against 8 to 12 (partition).
inline constexpr double kCallNs = 100;
inline constexpr double kRegionNs = 4000;
// Threads that sleep until they are called take 20 to 50 us to come, those that wait 1: what a
// strategy must save at least where the other way is to work alone (30,000 float32 sums to 1,000
// places: 19 us alone, 49 on two threads that slept; 65,536 to 16 places 42 us alone, 35 on two
// that waited).
inline constexpr double kTeamNs = 20000;
inline constexpr double kTaskNs = 60;
inline constexpr double kNeverNs = 1e12;  // too small a problem for this strategy
// Sums in one float64 a place (small), and any update of which neither places nor values are one
// run.
inline constexpr double kPlainSumNs = 1.3;
inline constexpr double kPlainPlaceNs = 0.2;
inline constexpr double kFlattenNs = 1.9;
// Single elements straight to their places: 4,096 float32 moved to 512 places 2.2 us, int64
// added 2.5, float32 maxima 5.7.
inline constexpr double kMoveNs = 0.6;
inline constexpr double kDirectNs = 0.75;
inline constexpr double kDirectExtremeNs = 1.5;
// Rows: 1,024 of 4 float32 maxima 5.5 us, of 64 50 us; moved 5.3 and 5.7, 4,096 of 1,024 1.1 ms.
inline constexpr double kRowNs = 2.5;
inline constexpr double kRowColumnNs = 0.75;
inline constexpr double kMoveRowNs = 4.5;
inline constexpr double kMoveShortRowNs = 2.2;  // 64 bytes at most
inline constexpr double kMoveByteNs = 0.02;
inline constexpr double kMoveFarByteNs = 0.035;
inline constexpr double kFarKeyNs = 9;
inline constexpr double kDecodeNs = 3;
inline constexpr double kOwnedNs = 8;
// Cells (tile): the first position, updates of places that are met once, places behind a hash
// table, and rows, by their columns: an item, and opening and writing a cell.
inline constexpr double kTileNs = 450;
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
inline constexpr CellColumnNs kSumColumn = {0.8, 1.5};
inline constexpr CellColumnNs kWideSumColumn = {1.6, 2};
inline constexpr double kLastUpdateNs = 0.4;
inline constexpr double kLastPlaceNs = 12;
inline constexpr double kMergeNs = 6;
// Dealing a pair, and a wider update; applying a pair to its block; a bucket; a line of the
// destination that is fetched. 10^6 float32 maxima of 500,000 places 1.2 ms, 30,000 of 4,000,000
// places 0.26 ms.
inline constexpr double kDealPairNs = 1.4;
inline constexpr double kDealNs = 4.5;
inline constexpr double kPairNs = 0.9;
inline constexpr double kBucketNs = 400;
inline constexpr double kLineNs = 5;
inline constexpr double kOrderNs = 300;

// Ordered rows: sorting an item, a destination row, an item of it, and a byte of that, out of the
// cache and out of memory. float32 maxima of 64 columns: 1,024 items to 128 rows 15 us, 16,384 to
// 163 0.11 ms, 500,000 to 50,000 6.9 ms; of 4 columns 16,384 to 2,048 rows 75 us (2 cores of a Zen
// 4 class EPYC, 2026-11-15).
struct RowNs {
  double row, item, byte, far_byte;
};
inline constexpr double kSortNs = 5;
inline constexpr RowNs kTiledRows = {6, 3, 0.03, 0.06};
inline constexpr RowNs kPlainRows = {20, 5, 0.06, 0.1};
inline constexpr double kOrderRegionNs = 1500;
inline constexpr double kCachedBytes = 16e6;

// Short rows: one in so many terms may go aside; items that take up more than so many bytes are
// sent for. A call (64 rows of 4 int64 take 0.9 us, direct 0.7), a window of sums beside it
// (float32 1.4 us), a key that is read, an item of a row that is one's own, a column of it with
// vectors and without, a byte of it out of memory, a cell that is emptied and written by vectors
// and without. 2^23 float32 sums to 2^20 places in rows of 2, 4, 8, 12 and 16
// columns: 5.5, 3.1, 2.2, 2.3 and 2.1 ms, ordered 2.5 for 16; means in rows of 4 and 16 5.3
// and 3.2, ordered 2.5 for 16; maxima in rows of 4 and 16 2.9 and 1.6, ordered 2.3 for 16; of
// float64 in rows of 2, 4, 8 and 16 12.4, 11.2, 8.4 and 6.9, ordered 18.6, 6.4 and 3.8 for the last
// three (2 cores of a Zen 4 class EPYC, 2026-11-16).
inline constexpr int64_t kShortRests = 1024;
inline constexpr int64_t kShortNearBytes = int64_t{1} << 20;
inline constexpr double kShortNs = 300;
inline constexpr double kShortWindowNs = 400;
inline constexpr double kShortKeyNs = 0.4;
inline constexpr double kShortRowNs = 0.8;
inline constexpr double kShortColumnNs = 0.15;
inline constexpr double kShortPlainNs = 1.2;
inline constexpr double kShortFarByteNs = 0.03;
inline constexpr double kShortCellNs = 0.5;
inline constexpr double kShortPlainCellNs = 5;

// A block of cells: an update, and what opening, emptying and writing a cell cost. Windows are
// 64-bit integers, accumulators may refuse, the rest are single numbers. float32, float64 sums and
// float32 maxima of 10,000 updates to 5,000 places: 9, 44 and 19 us (2 cores of a Zen 4 class
// EPYC, 2026-11-15).
struct BlockNs {
  double update, cell;
};
inline constexpr BlockNs kWindowBlock = {0.5, 0.4};
inline constexpr BlockNs kWideWindowBlock = {0.8, 1.0};
inline constexpr BlockNs kAccumulatorBlock = {3.4, 2.0};
inline constexpr BlockNs kNumberBlock = {0.85, 2.5};
// On one thread 10,000 float32 maxima of 1,000, 5,000 and 10,000 places take 7.1, 8.8 and 9.7 us,
// 300,000 of 60,000 and 300,000 places 270 and 385 us (2026-11-16).
inline constexpr BlockNs kFloatExtremeBlock = {0.65, 0.3};
// Those of integers are counted.
inline constexpr BlockNs kExtremeBlock = {1.9, 2.0};
inline constexpr BlockNs kOftenBlock = {0.7, 2.0};

// Emptying, merging and writing a cell that each of two workers has: 10^6 float32 sums to 500,000
// places 0.72 ms, 2^22 to 524,288, 2^20 and 2^21 places 2.5, 3.4 and 5.5 (2026-11-16). That is 0.4
// for few cells, but cores that are far from each other take twice as long or more for all of it:
// 100,000 to 50,000 places 68 us in one minute and 150 in another, on one thread 86. What all
// workers have may leave the third-level cache.
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

// The same where cells are sent for, `all` of all workers: 2^22 float32 sums on two threads to
// 16,384, 131,072 and 524,288 places 1.6, 2.1 and 2.5 ms, on one to 2^20 5.1 (2026-11-16).
inline double sent_miss_ns(double bytes, double all) {
  if (bytes <= 64e3) return 0;
  if (bytes <= 640e3) return 0.2;
  if (all > kFarBytes) return 2;
  return bytes <= 1.5e6 ? 0.45 : 0.65;
}

}  // namespace sow::detail::tuning
