// SPDX-License-Identifier: Apache-2.0
// The dimensions of a Transfer under a mask, merged where every operand allows it.
#include "cpu/mask/mask_layout.h"

namespace sow::detail {
namespace {

struct Stride {
  const Transfer& transfer;

  int64_t dst(int d) const {
    return transfer.mask_side == MaskSide::destination ? 0 : transfer.dst.strides[d];
  }
  int64_t src(int d) const {
    const bool affine = transfer.mask_side != MaskSide::source && transfer.src.data != nullptr;
    return affine ? transfer.src.strides[d] : 0;
  }
  int64_t base(int d) const { return transfer.base.data == nullptr ? 0 : transfer.base.strides[d]; }
};

// The first of the trailing dimensions along which the mask is broadcast.
int first_row_dimension(const Transfer& transfer) {
  int d = transfer.shape.rank();
  while (d > 0 && (transfer.mask.strides[d - 1] == 0 || transfer.shape[d - 1] == 1)) --d;
  return d;
}

}  // namespace

bool is_masked_move(const Transfer& transfer) {
  const Transfer& t = transfer;
  if (t.mask_side == MaskSide::none || t.reduce != Reduce::assign || t.negate) return false;
  if (!t.dst_index.empty() || !t.src_index.empty()) return false;
  if (t.mask_side == MaskSide::source) {
    if (t.src.data == nullptr) return false;
  } else if (t.mask_side == MaskSide::destination) {
    return t.base.data == nullptr && t.rank_stride != 0;
  }
  for (int d = 0; d < t.shape.rank(); ++d) {
    if (t.dst.strides[d] == 0 && t.shape[d] > 1) return false;
  }
  return true;
}

int64_t mask_positions(const Transfer& transfer) {
  int64_t count = 1;
  for (const int64_t extent : transfer.shape) count *= extent;
  return count;
}

int64_t mask_row(const Transfer& transfer) {
  int64_t row = 1;
  for (int d = first_row_dimension(transfer); d < transfer.shape.rank(); ++d) {
    row *= transfer.shape[d];
  }
  return row;
}

ElementLayout element_layout(const Transfer& transfer) {
  const Stride stride{transfer};
  ElementLayout layout;
  for (int d = 0; d < transfer.shape.rank(); ++d) {
    const int64_t extent = transfer.shape[d];
    const int64_t mask = transfer.mask.strides[d];
    layout.count *= extent;
    layout.all.push(extent, {stride.dst(d), mask, stride.src(d), stride.base(d)});
    layout.mask.push(extent, {mask});
  }
  return layout;
}

RowLayout row_layout(const Transfer& transfer) {
  const Stride stride{transfer};
  const int first = first_row_dimension(transfer);
  RowLayout layout;
  for (int d = 0; d < first; ++d) {
    const int64_t extent = transfer.shape[d];
    const int64_t mask = transfer.mask.strides[d];
    layout.rows *= extent;
    layout.outer.push(extent, {stride.dst(d), mask, stride.src(d), stride.base(d)});
    layout.mask.push(extent, {mask});
  }
  int64_t rest = mask_row(transfer);
  layout.row = rest;
  for (int d = first; d < transfer.shape.rank(); ++d) {
    const int64_t extent = transfer.shape[d];
    if (extent == 0) continue;
    rest /= extent;
    const int64_t by_rank = rest * transfer.rank_stride;
    const int64_t dst = transfer.mask_side == MaskSide::destination ? by_rank : stride.dst(d);
    const int64_t src = transfer.mask_side == MaskSide::source ? by_rank : stride.src(d);
    layout.move.push(extent, {dst, src});
    layout.keep.push(extent, {stride.dst(d), stride.base(d)});
  }
  return layout;
}

}  // namespace sow::detail
