// SPDX-License-Identifier: Apache-2.0
// The inner loops of every fold, one table a (type, reduction), so that strategies are written
// once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sow/dtype.h"
#include "sow/reduce.h"

namespace sow::detail {

// A batch of updates in source order: update i takes `width` values, one after the other, to the
// row that begins `offsets[i]` elements into the destination.
struct Updates {
  int count = 0;
  const int64_t* offsets = nullptr;
  const uint32_t* cells = nullptr;
  const char* values = nullptr;
};

struct Destination {
  char* data = nullptr;
  int64_t row_stride = 1;  // elements between the columns of a row
  bool include_self = true;
};

// Accumulators for the places of a range of the destination. A cell whose count is zero is empty:
// its states are memory of any content.
struct Cells {
  // Updates so far, below kCellTag; null in blocks that need no counts (BlockKernels::uncounted).
  uint32_t* counts = nullptr;
  char* states = nullptr;  // [cell][width]
  int width = 1;
  char* totals = nullptr;  // of blocks of products (product_block.h): the second half of the states
};
inline constexpr uint32_t kCellTag = uint32_t{1} << 31;
// The results of a cell wait on the stack until all of them are certain.
inline constexpr int kMaxCellWidth = 64;

// The places whose cells are numbered from 0 without gaps: cell i is `step` elements after i - 1.
struct PlaceRange {
  char* first = nullptr;
  int64_t step = 1;
  bool include_self = true;
  // What is met after this block: prefetched while it is worked on, if the kernel has the time.
  const char* to_prefetch = nullptr;
  int64_t to_prefetch_bytes = 0;
  // The keys and values of its updates.
  const char* prefetch_keys = nullptr;
  int64_t prefetch_keys_bytes = 0;
  const char* prefetch_values = nullptr;
  int64_t prefetch_values_bytes = 0;
  bool far = false;  // its own places are not near: they are worth prefetching, one by one
};

// Updates of a block that are applied as if each were the only one of its place.
struct UniqueUpdates {
  PlaceRange block;
  const uint32_t* cells = nullptr;
  const char* values = nullptr;
  int64_t count = 0;
  // A number per place, of 16 bits if short_marks, else of 32: that of the first update that met
  // it, where they are numbered from `begin` on, or less.
  char* epoch_marks = nullptr;
  bool short_marks = false;
  uint32_t begin = 1;
  char* olds = nullptr;          // what each update finds
  uint32_t* repeated = nullptr;  // the updates that are not the first of their place
};

// Keys that are the cells of updates as they are, and the updates' values.
struct KeyedValues {
  const char* data = nullptr;  // null: there are none
  const char* values = nullptr;
  uint32_t extent = 0;
  bool int64_keys = false;  // int64, else int32
};

// Room for a batch of updates.
struct Leftovers {
  uint32_t* cells = nullptr;
  char* values = nullptr;
};

// The cells that were met, in the order of their first update.
struct Touched {
  int64_t* offsets = nullptr;
  uint32_t* cells = nullptr;
  int64_t count = 0;

  void note(int64_t cell, int64_t offset) {
    cells[count] = static_cast<uint32_t>(cell);
    offsets[count++] = offset;
  }
};

// Sums that are added up again because their accumulators were inconclusive.
struct Repairs {
  char* longs = nullptr;       // [slot][width]
  int64_t* updates = nullptr;  // that were offered again, a slot
};

// Destination rows and the source rows that meet in them. Segment s holds the items
// [begins[s], begins[s + 1]); item k is the source row ids[k], and its destination row is
// places[begins[s]], or s itself where places is null. Offsets and strides count elements.
struct RowJob {
  const char* src = nullptr;
  int64_t src_base = 0, src_step = 1, src_column = 1;
  const uint32_t* ids = nullptr;
  const uint32_t* begins = nullptr;
  const uint32_t* places = nullptr;
  int64_t items = 0;       // in all segments
  bool far_lists = false;  // ids, begins and places are in memory, not in a cache
  char* dst = nullptr;
  int64_t dst_base = 0, dst_step = 1, dst_column = 1;
  int64_t first_column = 0, last_column = 1;
  bool include_self = true;
  bool negate = false;
};

// Some items of one segment, and a block of columns.
struct RowRange {
  int64_t begin, end, column;
  int columns;
};

struct FixedPointKernels;  // src/cpu/sum/fixed_point.h

// Updates straight onto the destination, one after the other, without cells: what is there is the
// running result, good after every update. Null where a reduction cannot (see FoldKernels::direct).
struct ApplyKernels {
  void (*rows)(const Destination&, const Updates&, int width);
  void (*block)(const PlaceRange&, const uint32_t* cells, const char* values, int64_t count);
};

// Extremes of floats by way of `state_size` bytes per place that compare as integers; null for
// others. Opening reads all places and may decline, before anything was done; between opening and
// closing the destination is not looked at, and closing writes all of it.
struct ExtremeKernels {
  bool (*open)(const PlaceRange&, int64_t places, char* cells);
  void (*add)(char* cells, const uint32_t* ids, const char* values, int64_t count);
  void (*close)(const PlaceRange&, int64_t places, const char* cells);
};

// Cells that are opened together, before any update is known, and written together: for blocks of
// which most places are met. Rows have one column. Counts are the caller's to clear before opening;
// a count of zero at the end leaves the place as it is.
struct BlockKernels {
  // Where the old values take part they do so at the end, and what adds up to zero is left alone:
  // then nobody counts.
  bool uncounted;
  void (*open)(const Cells&, const PlaceRange&, int64_t cells);
  void (*add)(const Cells&, const uint32_t* cells, const char* values, int64_t count);
  // The same where cells meet very many updates; null where that makes no difference. `to_prefetch`
  // is what will be read next, and is prefetched.
  void (*add_often)(const Cells&, const uint32_t* cells, const char* values, int64_t count,
                    const char* to_prefetch);
  // Either for the updates [first, first + count) of keys, until one is not a cell; returns how
  // many. A cell meets about `each` updates in all. Null where ids are as quick.
  int64_t (*add_keys)(const Cells&, const KeyedValues&, int64_t first, int64_t count, int64_t each);
  // Adds cells that saw the later updates, and no old values, to those of another block.
  void (*merge)(const Cells& to, const Cells& from, int64_t begin, int64_t end);
  // Writes the cells [begin, end) that were met. Those that are inconclusive are listed, unwritten,
  // up to `room` of them; returns the first cell that it did not come to.
  int64_t (*finish)(const Cells&, const PlaceRange&, int64_t begin, int64_t end,
                    Touched& inconclusive, int64_t room);
};

// Cells that are opened one by one, at their first update, which is also listed.
struct CellKernels {
  void (*add)(const Cells&, const Destination&, const Updates&, Touched* touched);
  // Writes the results of the listed cells and empties them. Cells that are inconclusive are left
  // as they are and moved to the front of the list; returns how many.
  int64_t (*finish)(const Cells&, const Destination&, Touched list);
};

// Every update as if it were the only one of its place, and then the few places that met several.
struct UniqueKernels {
  // One after the other; returns how many found that their place was met before.
  int64_t (*apply)(const UniqueUpdates&);
  // The places of these, from what was there before and all of their updates. `slots`, one an
  // update and 0 at first, are numbers from 1 on: one per place, at its first update. True: they
  // are written. Else they have what was there before, and as many cells are opened, which are to
  // be finished.
  bool (*fold_repeated)(const UniqueUpdates&, int64_t listed, const Cells&, uint32_t* slots,
                        Touched&);
};

// Sums that were inconclusive, in long accumulators: the listed cells are tagged with their slots,
// every update is offered once more, then the results are written and the cells emptied. Workers
// that share the updates clear Repairs of their own and merge them. Null where long_size is 0.
struct RepairKernels {
  void (*begin)(const Cells&, Touched list, const Repairs&);
  void (*add)(const Cells&, const Updates&, const Repairs&);
  void (*clear)(const Cells&, int64_t slots, const Repairs&);
  void (*merge)(const Cells&, int64_t slots, const Repairs& to, const Repairs& from);
  void (*end)(const Cells&, const Destination&, Touched list, const Repairs&);
};

// Rows in the order of their destinations: each destination row is written once, when all of it is
// known.
struct RowKernels {
  // Folds the segments [first, last) into their destination rows.
  void (*fold)(const RowJob&, int64_t first, int64_t last);
  // One segment in chunks: a partial result for some of its items (256 but for the last, for
  // products), then all of them together.
  void (*fold_chunk)(const RowJob&, int64_t begin, int64_t end, char* partials);
  void (*join_chunks)(const RowJob&, int64_t segment, char* partials, int64_t chunks);
};

// Sums and products in plain float64s, so many per place of a block (sum/float64_fold.h); null
// where there is no such way. No place meets more than `most` updates. False, with nothing written:
// it has to be done otherwise, as products without the old values always have.
struct PlainKernels {
  int words;
  bool (*fold)(const PlaceRange&, int64_t places, int64_t most, double* memory,
               const uint32_t* cells, const char* values, int64_t count);
};

// All loops of one type and reduction, by who calls them.
struct FoldKernels {
  int value_size;
  int state_size;
  int long_size;     // 0: a finish is never inconclusive
  int partial_size;  // of a chunk of rows, a column
  bool direct;       // `apply` may be used when the old value takes part
  bool merges;

  // Negates `count` values in place.
  void (*negate)(char* values, int64_t count);
  PlainKernels plain;
  ApplyKernels apply;
  ExtremeKernels extremes;
  BlockKernels block;
  CellKernels cell;
  UniqueKernels unique;
  RepairKernels repair;
  RowKernels rows;
};

// Null where the contract has no such reduction (extremes of complex numbers, the mean of bools),
// and for complex sums, which are done by their parts.
const FoldKernels* fold_kernels(DType dtype, Reduce reduce);

}  // namespace sow::detail
