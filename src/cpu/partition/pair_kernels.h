// SPDX-License-Identifier: Apache-2.0
// The loops of updates whose values have 2 or 4 bytes: each is one word, a cell below its value.
#pragma once

#include <cstdint>

#include "cpu/common/bucket_blocks.h"
#include "cpu/fold/fold_kernels.h"
#include "cpu/sum/fixed_point.h"
#include "sow/dtype.h"
#include "sow/reduce.h"
#include "transfer/index/key_runs.h"

namespace sow::detail {

struct PairTarget {
  uint64_t* pairs;
  uint32_t* ends;  // [bucket]: where the next one goes
  int bits;        // a bucket has 2^bits places
  int value_size;  // 2 or 4
};

// `to_prefetch` is what will be read next, or anything: it is prefetched.
struct PairPartitioners {
  void (*partition)(const PairTarget&, BucketBlocks&, const uint32_t* ids, const char* values,
                    int count, const char* to_prefetch);
  // The same from keys of 4 or 8 bytes. False: one is bad, and what was partitioned is of no use.
  bool (*partition_keys)(const PairTarget&, BucketBlocks&, const char* keys, bool int64_keys,
                         const KeyRun&, const char* values, int count);
};

struct PairKernels {
  void (*unpack)(const uint64_t* pairs, int64_t count, uint32_t* cells, void* values,
                 int value_size, const void* to_prefetch);
  // Adds floats to cells of a fixed-point scale, those that are within it and whole numbers of its
  // units, and stops at others; returns how many were added.
  using AddFixed = int64_t (*)(int64_t* cells, const uint64_t* pairs, int64_t count,
                               FixedPointScale&, const void* to_prefetch);
  AddFixed add_float32, add_float16, add_bfloat16;

  // By the digits of the type, of which they tell the narrow floats.
  AddFixed add_fixed(int digits) const {
    return digits == 24   ? add_float32
           : digits == 11 ? add_float16
           : digits == 8  ? add_bfloat16
                          : nullptr;
  }
};

// What places that lie one after the other do with pairs, one after the other.
struct PairFold {
  // Whether the places can be folded so; null: always.
  bool (*can_begin)(const PlaceRange&, int64_t places);
  // False: these pairs cannot, and nothing was done.
  bool (*apply)(const PlaceRange&, const uint64_t* pairs, int64_t count, const void* to_prefetch);
};

// Of the current instruction set.
const PairPartitioners& pair_partitioners();
const PairKernels& pair_kernels();
// Null where there is none.
const PairFold* pair_fold(DType dtype, Reduce reduce);

}  // namespace sow::detail
