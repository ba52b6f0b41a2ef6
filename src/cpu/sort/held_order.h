// SPDX-License-Identifier: Apache-2.0
// The order that somebody holds, where a Transfer can use it instead of sorting.
#pragma once

#include "cpu/fold/cell_fold.h"
#include "cpu/read/offset_ids.h"
#include "cpu/read/update_reader.h"
#include "transfer/index/index_order.h"

namespace sow::detail {

// Where each held item is read: its position itself if the items are one run, else decoded.
class HeldRows {
 public:
  HeldRows(const Transfer& t, const Canonical& c, const IndexOrder& order, Carver& carver)
      : transfer_(t), canonical_(c), order_(order), ids_(order.positions.data()) {
    const bool affine = t.src_index.empty() &&
                        (t.src.data == nullptr || (c.items.size() == 1 && c.items[0].src > 0));
    if (affine) return;
    found_ = carver.take<uint32_t>(order.count);
    sorted_ = carver.take<uint32_t>(order.count);
    ids_ = sorted_;
  }

  void build(const OuterBase& base, const OffsetIds& sources) {
    if (found_ == nullptr) return;
    static const FoldKernels kNoKernels{};
    // Without the destination's keys nothing is left out, so that every position is found.
    Canonical reading = canonical_;
    Transfer sources_only = transfer_;
    sources_only.dst_index.clear();
    for (Axis& axis : reading.items) axis.index.erase(0);
    OuterBase from = base;
    from.index.erase(0);
    UpdateReader reader(sources_only, reading, kNoKernels);
    uint32_t* to = found_;
    reader.read_places(from, 0, order_.count, kTileItems,
                       [&](const int64_t*, const int64_t* at, int count, bool) {
                         for (int i = 0; i < count; ++i)
                           *to++ = static_cast<uint32_t>(sources.id_of(at[i] - base.src));
                       });
    for (size_t i = 0; i < order_.positions.size(); ++i) sorted_[i] = found_[order_.positions[i]];
  }

  const uint32_t* ids() const { return ids_; }

 private:
  const Transfer& transfer_;
  const Canonical& canonical_;
  const IndexOrder& order_;
  const uint32_t* ids_;
  uint32_t* found_ = nullptr;
  uint32_t* sorted_ = nullptr;
};

}  // namespace sow::detail
