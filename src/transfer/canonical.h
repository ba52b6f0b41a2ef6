// SPDX-License-Identifier: Apache-2.0
// A Transfer's dimensions in the order kernels want: outer x items x row.
#pragma once

#include <array>

#include "core/inline_vector.h"
#include "transfer/transfer.h"

namespace sow::detail {

// One dimension with the stride of every operand. `index` holds dst_index's strides, then
// src_index's.
struct Axis {
  int64_t size = 1;
  int64_t dst = 0;
  int64_t src = 0;
  Dims index;
};

// Merged dimensions are few: three are enough for nearly every call.
using Axes = InlineVector<Axis, 3>;

// What `canonicalize` makes of an unmasked Transfer. Size-1 dimensions are gone and neighbours
// that are one run in every operand are merged.
//
//   outer: dst stride != 0. Different outer positions are different destinations, whatever the
//          index says, so they may run in any order and in parallel.
//   items: dst stride == 0. The updates that may meet in one place; their row-major order is the
//          order of the contract (the last assign wins, products are cut in this order).
//   row:   one more outer dimension on which no index depends; each key moves a whole row of it.
//          The smallest dst stride (then src stride) is chosen. size 1 if there is none.
struct Canonical {
  Axes outer;
  Axes items;
  Axis row;
  int64_t outer_count = 1;
  int64_t item_count = 1;
  bool empty = false;  // nothing to do at all
};

// Whether axes walk an operand one element after the other, in order; stride_of(axis) is its
// stride.
template <class StrideOf>
bool is_dense(const Axes& axes, StrideOf&& stride_of) {
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    if (stride_of(axes[i]) != step) return false;
    step *= axes[i].size;
  }
  return true;
}
inline bool is_dense_source(const Axes& axes) {
  return is_dense(axes, [](const Axis& axis) { return axis.src; });
}
inline bool is_dense_index(const Axes& axes) {  // the first one
  return is_dense(axes, [](const Axis& axis) { return axis.index[0]; });
}

Canonical canonicalize(const Transfer& transfer);

// Whether no position, or no place to go to, is left; only the indices may have to be checked.
bool has_no_work(const Transfer& transfer);

// The same positions without outer dimensions and rows: all of them are items, in row-major order,
// and their dst strides count.
Canonical flatten(const Transfer& transfer);

// Element offsets of one outer position: where dst, src and each index begin there.
struct OuterBase {
  int64_t dst = 0;
  int64_t src = 0;
  Dims index;
};
OuterBase outer_base(const Canonical& canonical, int64_t position);

// Decodes items [first, first + count) of one outer position, the only place where index types,
// wrapping and bounds are handled: dst_offsets and src_offsets are element offsets from the
// operands' data pointers (of the row's first element), or kDropped.
void decode_items(const Transfer& transfer, const Canonical& canonical, const OuterBase& base,
                  int64_t first, int64_t count, int64_t* dst_offsets, int64_t* src_offsets);

// How many items kernels decode at a time: two such arrays stay in the first-level cache.
inline constexpr int kTileItems = 512;
struct Tile {
  int count = 0;
  std::array<int64_t, kTileItems> dst;
  std::array<int64_t, kTileItems> src;
};

// Calls f(const Tile&) for the items [first, last) of one outer position, in order.
template <class F>
void for_each_tile(const Transfer& transfer, const Canonical& canonical, const OuterBase& base,
                   int64_t first, int64_t last, F&& f) {
  Tile tile;
  for (int64_t at = first; at < last; at += kTileItems) {
    tile.count = static_cast<int>(std::min<int64_t>(kTileItems, last - at));
    decode_items(transfer, canonical, base, at, tile.count, tile.dst.data(), tile.src.data());
    f(static_cast<const Tile&>(tile));
  }
}

}  // namespace sow::detail
