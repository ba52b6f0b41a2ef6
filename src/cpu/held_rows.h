// The order that somebody holds, where a Transfer can use it instead of sorting.
#pragma once

#include "cpu/cell_fold.h"
#include "cpu/place_code.h"
#include "cpu/update_reader.h"
#include "transfer/index_order.h"

namespace sow::detail {

// The held order if the items are exactly the held keys, row-major, at every outer position.
inline const IndexOrder* usable_order(const Transfer& t, const Canonical& c) {
  const IndexOrder* order = t.order;
  if (order == nullptr || !order->kept() || t.dst_index.size() != 1) return nullptr;
  const IndexOperand& index = t.dst_index[0];
  if (index.extent != order->size || index.scale <= 0 || !order->serves(t.bounds)) return nullptr;
  if (c.item_count != order->count || (!t.src_index.empty() && t.bounds == Bounds::drop))
    return nullptr;
  for (const Axis& axis : c.outer) {
    if (axis.index[0] != 0) return nullptr;
  }
  int64_t run = 1;
  for (size_t i = c.items.size(); i-- > 0;) {
    if (c.items[i].index[0] != run) return nullptr;
    run *= c.items[i].size;
  }
  return order;
}

// Where each held item is read: its position itself if the items are one run, else decoded.
class HeldRows {
 public:
  HeldRows(const Transfer& t, const Canonical& c, const IndexOrder& order, Carver& carver)
      : transfer_(t), canonical_(c), order_(order), codes_(order.positions.data()) {
    const bool affine = t.src_index.empty() &&
                        (t.src.data == nullptr || (c.items.size() == 1 && c.items[0].src > 0));
    if (affine) return;
    found_ = carver.take<uint32_t>(order.count);
    sorted_ = carver.take<uint32_t>(order.count);
    codes_ = sorted_;
  }

  void build(const OuterBase& base, const PlaceCode& sources) {
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
                           *to++ = static_cast<uint32_t>(sources.code_of(at[i] - base.src));
                       });
    for (size_t i = 0; i < order_.positions.size(); ++i) sorted_[i] = found_[order_.positions[i]];
  }

  const uint32_t* codes() const { return codes_; }

 private:
  const Transfer& transfer_;
  const Canonical& canonical_;
  const IndexOrder& order_;
  const uint32_t* codes_;
  uint32_t* found_ = nullptr;
  uint32_t* sorted_ = nullptr;
};

}  // namespace sow::detail
