// SPDX-License-Identifier: Apache-2.0
// A Transfer as kernels take it: plain data of fixed size that travels as a kernel parameter.
#pragma once

#include <cstdint>

#include "sow/portable.h"
#include "transfer/canonical.h"

namespace sow::detail::cuda {

// Division by a number known before the launch, for numerators below 2^31.
struct FastDivider {
  uint32_t divisor = 1, multiplier = 0, shift = 0;

  void set(uint32_t by) {
    divisor = by;
    shift = 0;
    while ((uint64_t{1} << shift) < by) ++shift;
    multiplier =
        static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - by)) / by + 1);
  }
#if defined(__CUDACC__)
  __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, multiplier) + n) >> shift; }
#endif
};

// The most dimensions and operands a Walk holds. What has more is materialised in memory first
// (materialise.cu), so there is no limit on either.
inline constexpr int kWalkAxes = 8;
inline constexpr int kMaxKeys = 4;
inline constexpr int kSlots = 2 + kMaxKeys;  // dst, src, keys

struct WalkAxis {
  FastDivider divider;
  int64_t size = 1;
  int64_t stride[kSlots] = {};
};

// Row-major positions to element offsets of several operands.
struct Walk {
  int rank = 0;
  bool fits_31_bits = true;  // every position does
  int64_t count = 1;
  WalkAxis axis[kWalkAxes];

  void push(int64_t size, const int64_t* strides, int slots);
  void finish();  // once every axis is there
};

struct KeyOperand {
  const char* data = nullptr;
  int64_t extent = 0;
  int64_t scale = 0;
  bool is_int32 = false;
};

// The flag of one call: whether an index was bad, or values were too few. It starts as zeros.
struct Flag {
  uint32_t bad;
  unsigned long long first;  // the first bad key, in the order of the contract, complemented
};

// Positions are outer x items, items running fastest. Each moves columns: free x row, where `free`
// are the outer dimensions that no index depends on, so that an index is ordered once for them all.
struct Problem {
  char* dst = nullptr;
  const char* src = nullptr;  // null: the scalar
  alignas(16) unsigned char scalar[16] = {};
  Walk walk;
  int dst_keys = 0, src_keys = 0;
  KeyOperand keys[kMaxKeys];
  // Where the walk and the keys do not fit they are materialised before anything runs: places (-1:
  // dropped) and offsets by position.
  bool materialised = false;
  const int64_t* place_table = nullptr;
  const int64_t* dst_table = nullptr;
  const int64_t* src_table = nullptr;

  int64_t outer_count = 1, item_count = 1;
  FastDivider item_divider;
  FastDivider column_divider;  // by columns, where they are so few
  Walk free;                   // slots 0 and 1 alone
  int64_t places = 1;          // what positions may meet in: outer x the extents of dst's keys
  int64_t row = 1, row_dst = 0, row_src = 0;

  DType dtype = DType::float32;
  int width = 4;  // bytes of an element
  Bounds bounds = Bounds::error;
  Reduce reduce = Reduce::assign;
  bool include_self = true;
  bool negate = false;
  bool zero_dropped = false;  // a gather gives zero where its key is dropped or bad

  int64_t positions() const { return outer_count * item_count; }
  int64_t columns() const { return free.count * row; }
};

// Positions are mask positions x row: the trailing dimensions the mask does not depend on.
struct MaskProblem {
  static constexpr int kMask = 0, kDst = 1, kSrc = 2, kBase = 3;

  Walk walk;       // of all positions
  Walk mask_walk;  // of the mask's positions alone, slot 0
  // Where the dimensions are too many for a Walk: offsets by position.
  const int64_t* tables[4] = {};
  const int64_t* mask_table = nullptr;  // by mask position
  bool materialised = false;
  int64_t mask_count = 1, row = 1;
  FastDivider row_divider;
  bool mask_dense = false;     // the mask is one run of bytes
  bool all_dense = false;      // so are all the operands that are not addressed by rank
  int64_t row_stride[4] = {};  // of the row, where it is one axis
  bool row_is_axis = false;

  const char* mask = nullptr;
  char* dst = nullptr;
  const char* src = nullptr;
  const char* base = nullptr;
  alignas(16) unsigned char scalar[16] = {};
  MaskSide side = MaskSide::source;
  int64_t rank_limit = 0, rank_stride = 1;
  int width = 4;

  int64_t positions() const { return mask_count * row; }
};

MaskProblem make_mask_problem(const Transfer& transfer);  // mask/mask_problem.cc

int width_of(DType dtype);  // as size_of, which this library does not hold
KeyOperand key_operand(const IndexOperand& index);

// Whether the Transfer fits a Problem without being materialised.
bool fits_problem(const Transfer& transfer, const Canonical& canonical);
Problem make_problem(const Transfer& transfer, const Canonical& canonical);

// The problem of a plan with the addresses and the scalar of a Transfer, and without any.
Problem bound(const Problem& problem, const Transfer& transfer);
MaskProblem bound(const MaskProblem& problem, const Transfer& transfer);
Problem without_addresses(const Problem& problem);
MaskProblem without_addresses(const MaskProblem& problem);

// The largest power of two (at most 16) that divides every row's address, length and stride in
// bytes, on both sides: how wide rows may be read and written. 0 unless rows are dense.
int row_alignment(const Problem& problem);
// The same for the destination alone, for a scalar source.
int row_alignment_dst(const Problem& problem);

// How many bytes of a row can be moved at a time; the scalar is repeated to fill them.
int row_access(Problem& problem);

}  // namespace sow::detail::cuda
