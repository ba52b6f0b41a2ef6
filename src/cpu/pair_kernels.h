// The loops of updates whose values have 2 or 4 bytes: each is one word, a cell below its value.
#pragma once

#include <cstdint>

#include "cpu/fold_kernels.h"
#include "cpu/touch.h"
#include "cpu/window_sum.h"
#include "sow/dtype.h"
#include "sow/reduce.h"
#include "transfer/key_runs.h"

namespace sow::detail {

// How a worker that deals takes blocks from its store.
struct DealBlocks {
  struct Entries {
    const char* first = nullptr;
    int size = 0;
  };
  Entries entries[2];         // what lies in them
  uint32_t* links = nullptr;  // the block after each
  uint32_t* full = nullptr;   // [bucket]: blocks before its last
  uint32_t next = 0;
  int size_bits = 0;

  uint32_t last() const { return (uint32_t{1} << size_bits) - 1; }  // the last entry of a block
  // The first entry of a new block, where `entry` was the last of the one before. Whoever takes the
  // next one finds its beginning in the cache: 2^23 pairs 5.3 ms instead of 5.9 (2 cores of a Zen 4
  // class EPYC, 2026-11-16).
  [[gnu::noinline]] uint32_t after(uint32_t bucket, uint32_t entry) {
    links[entry >> size_bits] = next;
    ++full[bucket];
    const uint32_t taken = next++ << size_bits;
    for (const Entries& each : entries) {
      const int64_t soon = (int64_t{next} << size_bits) * each.size;
      send_ahead(each.first, soon);
      send_ahead(each.first, soon + 64);
    }
    return taken;
  }
};

struct PairDeal {
  uint64_t* pairs;
  uint32_t* ends;  // [bucket]: where the next one goes
  int bits;        // a bucket has 2^bits places
  int value_size;  // 2 or 4
};

// `soon` is what will be read next, or anything: it is sent for.
struct PairDealers {
  void (*deal)(const PairDeal&, DealBlocks&, const uint32_t* codes, const char* values, int count,
               const char* soon);
  // The same from keys of 4 or 8 bytes. False: one is bad, and what was dealt is of no use. Null:
  // there is no such way.
  bool (*deal_keys)(const PairDeal&, DealBlocks&, const char* keys, bool wide, const KeyRun&,
                    const char* values, int count);
};

struct PairKernels {
  void (*unpack)(const uint64_t* pairs, int64_t count, uint32_t* cells, void* values,
                 int value_size, const void* soon);
  // Adds floats to cells of a window, those that are within it and whole numbers of its units, and
  // stops at others; returns how many were added. Null: there is no such way.
  using AddUnits = int64_t (*)(int64_t* cells, const uint64_t* pairs, int64_t count, Window&,
                               const void* soon);
  AddUnits add_float32, add_float16, add_bfloat16;

  // By the digits of the type, of which they tell the narrow floats.
  AddUnits add_units(int digits) const {
    return digits == 24   ? add_float32
           : digits == 11 ? add_float16
           : digits == 8  ? add_bfloat16
                          : nullptr;
  }
};

// What places that lie one after the other do with pairs, one after the other.
struct PairFold {
  // Whether the places can be folded so; null: always.
  bool (*can_begin)(const Block&, int64_t places);
  // False: these pairs cannot, and nothing was done.
  bool (*apply)(const Block&, const uint64_t* pairs, int64_t count, const void* soon);
};

// Of the current instruction set.
const PairDealers& pair_dealers();
const PairKernels& pair_kernels();
// Null where there is none.
const PairFold* pair_fold(DType dtype, Reduce reduce);

}  // namespace sow::detail
