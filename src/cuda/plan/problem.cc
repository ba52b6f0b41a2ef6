// SPDX-License-Identifier: Apache-2.0
// Makes Problems of Transfers: dimensions collapsed to walks, and the alignment of rows.
#include "cuda/plan/problem.h"
#include "transfer/kernel_type.h"

#include <algorithm>
#include <cstring>

namespace sow::detail::cuda {

void Walk::push(int64_t size, const int64_t* strides, int slots) {
  WalkAxis& at = axis[rank++];
  at.size = size;
  for (int k = 0; k < slots; ++k) at.stride[k] = strides[k];
}

void Walk::finish() {
  count = 1;
  for (int i = 0; i < rank; ++i) count *= axis[i].size;
  fits_31_bits = count <= INT32_MAX;
  if (!fits_31_bits) return;
  for (int i = 0; i < rank; ++i) axis[i].divider.set(static_cast<uint32_t>(axis[i].size));
}

namespace {

bool is_free(const Axis& axis) {
  return std::all_of(axis.index.begin(), axis.index.end(),
                     [](int64_t stride) { return stride == 0; });
}

}  // namespace

bool fits_problem(const Transfer& t, const Canonical& canonical) {
  const auto free =
      static_cast<size_t>(std::count_if(canonical.outer.begin(), canonical.outer.end(), is_free));
  return t.dst_index.size() + t.src_index.size() <= static_cast<size_t>(kMaxKeys) &&
         free <= static_cast<size_t>(kWalkAxes) &&
         canonical.outer.size() - free + canonical.items.size() <= static_cast<size_t>(kWalkAxes);
}

namespace {

void push_axis(Walk& walk, const Axis& axis) {
  int64_t strides[kSlots] = {axis.dst, axis.src};
  for (size_t k = 0; k < axis.index.size(); ++k) strides[2 + k] = axis.index[k];
  walk.push(axis.size, strides, 2 + static_cast<int>(axis.index.size()));
}

int64_t lowest_bit(int64_t value) { return value & -value; }

int alignment_of(const Problem& p, bool with_source) {
  if (p.row_dst != 1 || (with_source && p.row_src != 1)) return 0;
  const int64_t width = p.width;
  int64_t all = 16 | (p.row * width) | static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.dst));
  if (with_source) all |= static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.src));
  if (p.materialised) return static_cast<int>(std::min(lowest_bit(all), width));
  for (const Walk* walk : {&p.walk, &p.free}) {
    for (int i = 0; i < walk->rank; ++i) {
      all |= walk->axis[i].stride[0] * width;
      if (with_source) all |= walk->axis[i].stride[1] * width;
    }
  }
  for (int k = 0; k < p.dst_keys; ++k) all |= p.keys[k].scale * width;
  for (int k = p.dst_keys; with_source && k < p.dst_keys + p.src_keys; ++k)
    all |= p.keys[k].scale * width;
  return static_cast<int>(lowest_bit(all));
}

}  // namespace

int width_of(DType dtype) {
  static constexpr uint8_t kWidths[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8};
  return kWidths[static_cast<int>(dtype)];
}

KeyOperand key_operand(const IndexOperand& index) {
  KeyOperand key;
  key.data = index.data;
  key.extent = index.extent;
  key.scale = index.scale;
  key.is_int32 = index.dtype == DType::int32;
  return key;
}

Problem bound(const Problem& problem, const Transfer& t) {
  Problem p = problem;
  p.dst = t.dst.data;
  p.src = t.src.data;
  std::memcpy(p.scalar, t.scalar, sizeof(p.scalar));
  if (p.materialised) return p;
  int k = 0;
  for (const IndexOperand& index : t.dst_index) p.keys[k++].data = index.data;
  for (const IndexOperand& index : t.src_index) p.keys[k++].data = index.data;
  return p;
}

MaskProblem bound(const MaskProblem& problem, const Transfer& t) {
  MaskProblem p = problem;
  p.mask = t.mask.data;
  p.dst = t.dst.data;
  p.src = t.src.data;
  p.base = t.base.data;
  std::memcpy(p.scalar, t.scalar, sizeof(p.scalar));
  return p;
}

Problem without_addresses(const Problem& problem) {
  Problem p = problem;
  p.dst = nullptr;
  p.src = nullptr;
  for (KeyOperand& key : p.keys) key.data = nullptr;
  return p;
}

MaskProblem without_addresses(const MaskProblem& problem) {
  MaskProblem p = problem;
  p.mask = p.src = p.base = nullptr;
  p.dst = nullptr;
  return p;
}

Problem make_problem(const Transfer& t, const Canonical& canonical) {
  Problem p;
  p.outer_count = canonical.outer_count;
  p.item_count = canonical.item_count;
  p.row = canonical.row.size;
  p.row_dst = canonical.row.dst;
  p.row_src = canonical.row.src;
  p.dtype = kernel_type(t.dtype, t.reduce);
  p.width = width_of(t.dtype);
  p.bounds = t.bounds;
  p.reduce = t.reduce;
  p.include_self = t.include_self;
  p.negate = t.negate;
  p.dst_keys = static_cast<int>(t.dst_index.size());
  p.src_keys = static_cast<int>(t.src_index.size());
  p.zero_dropped = t.dst_index.empty() && t.reduce == Reduce::assign;
  const bool fits = fits_problem(t, canonical);
  p.materialised = !fits;
  if (fits) {
    p.outer_count = 1;
    for (const Axis& axis : canonical.outer) {
      push_axis(is_free(axis) ? p.free : p.walk, axis);
      if (!is_free(axis)) p.outer_count *= axis.size;
    }
    for (const Axis& axis : canonical.items) push_axis(p.walk, axis);
    p.walk.finish();
    p.free.finish();
  }
  p.places = p.outer_count;
  for (const IndexOperand& index : t.dst_index) p.places *= index.extent;
  if (p.columns() <= INT32_MAX && p.columns() > 0)
    p.column_divider.set(static_cast<uint32_t>(p.columns()));
  if (p.item_count <= INT32_MAX) p.item_divider.set(static_cast<uint32_t>(p.item_count));
  if (!fits) return bound(p, t);
  int k = 0;
  for (const IndexOperand& index : t.dst_index) p.keys[k++] = key_operand(index);
  for (const IndexOperand& index : t.src_index) p.keys[k++] = key_operand(index);
  return bound(p, t);
}

int row_access(Problem& p) {
  const int width = std::max(p.src == nullptr ? row_alignment_dst(p) : row_alignment(p), p.width);
  for (int at = p.width; at < 16; at += p.width)
    std::memcpy(p.scalar + at, p.scalar, static_cast<size_t>(p.width));
  return width;
}

int row_alignment(const Problem& p) { return alignment_of(p, true); }
int row_alignment_dst(const Problem& p) { return alignment_of(p, false); }

}  // namespace sow::detail::cuda
