// SPDX-License-Identifier: Apache-2.0
// Questions that several strategies ask about a Transfer.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "cpu/fold/fold_kernels.h"
#include "cpu/read/id_reader.h"
#include "cpu/tuning.h"
#include "transfer/plan/plan.h"

namespace sow::detail {

// Updates that may meet: indexed destinations, or several terms a place. The rest are moves from
// place to place, which other strategies do.
inline bool is_fold(const Transfer& t) {
  if (t.mask_side != MaskSide::none) return false;
  if (t.dst_index.empty() && t.reduce == Reduce::assign) return false;
  return fold_kernels(t.dtype, t.reduce) != nullptr;
}

// Whether there are plain kernels for it: products without the old values need counts.
inline bool folds_plainly(const Transfer& t, const FoldKernels& kernels) {
  return kernels.plain.fold != nullptr && (t.include_self || t.reduce != Reduce::mul);
}

// What an update costs more when the keys of neighbouring items lie in different lines.
inline double far_keys_ns(const Canonical& c) {
  const bool far = c.row.size == 1 && c.items.size() == 1 && !c.items[0].index.empty() &&
                   std::abs(c.items[0].index[0]) >= 8;
  return far ? tuning::kFarKeyNs : 0;
}

// What an update costs more when its place has to be made up of several positions or keys.
inline double decode_ns(const Transfer& t, const Canonical& c) {
  const bool checked = t.bounds == Bounds::error || t.bounds == Bounds::promise;
  const bool plain = checked && t.dst_index.size() == 1 && t.src_index.empty() &&
                     c.items.size() == 1 && c.outer_count == 1 && c.row.size == 1;
  if (plain) return 0;
  // Positions that are flattened come in runs of the last axis.
  const Canonical flat = flatten(t);
  const double run = flat.items.empty() ? 1 : static_cast<double>(flat.items.back().size);
  if (IdReader::can_check(t, flat, all_places(t, c)))
    return tuning::kDecodePlainNs + tuning::kDecodePlainRunNs / run;
  return tuning::kDecodeNs + tuning::kDecodeRunNs / run;
}

// The bytes of the operands, of the destination only the part that the Transfer can reach. A
// float64, because plans are also made for shapes that no memory holds.
inline double operand_bytes(const Transfer& t, const Canonical& c) {
  const double size = static_cast<double>(size_of(t.dtype));
  double source = size,
         places = size * static_cast<double>(c.row.size) * static_cast<double>(c.outer_count);
  double keys = 0;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (t.src.data != nullptr && t.src.strides[d] != 0) source *= static_cast<double>(t.shape[d]);
  }
  for (const IndexOperand& index : t.dst_index)
    places *= static_cast<double>(std::max<int64_t>(index.extent, 1));
  const auto add_keys = [&](const IndexOperand& index) {
    double bytes = index.dtype == DType::int32 ? 4 : 8;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      if (index.strides[d] != 0) bytes *= static_cast<double>(t.shape[d]);
    }
    keys += bytes;
  };
  for (const IndexOperand& index : t.dst_index) add_keys(index);
  for (const IndexOperand& index : t.src_index) add_keys(index);
  return source + places + keys;
}

// Scratch stays below the operands together; small problems may take a little more.
inline size_t workspace_allowed(const Transfer& t, const Canonical& c) {
  return static_cast<size_t>(std::min(operand_bytes(t, c), 0x1p62)) + 256 * 1024;
}

// Added to the cost of a plan that would take more: it is made only when nothing else can be.
inline double over_budget(const Transfer& t, const Canonical& c, size_t bytes) {
  return bytes <= workspace_allowed(t, c) ? 0 : kLastResortNs;
}

}  // namespace sow::detail
