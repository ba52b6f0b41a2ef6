// Several neighbouring outer positions as one, where each has few updates: their places are one
// range, so that one block of cells, or one run of updates, does for all of them.
#pragma once

#include <algorithm>

#include "cpu/read/offset_ids.h"
#include "cpu/tuning.h"

namespace sow::detail {

class OuterGroups {
 public:
  OuterGroups() = default;
  // Positions are grouped where their places lie one after the other, rows have one column, and
  // a group has at most about so many updates and places.
  OuterGroups(const Transfer& t, const Canonical& c, const OffsetIds& places) {
    if (c.row.size != 1 || c.outer.empty() || !t.src_index.empty() || t.dst_index.size() != 1)
      return;
    const Axis& outer = c.outer.back();
    if (outer.dst != places.count() * places.step() || places.lowest() != 0) return;
    const int64_t most = std::min(
        {outer.size, tuning::kGroupUpdates / c.item_count, tuning::kGroupPlaces / places.count()});
    if (most < 2) return;
    each_ = most;
    inner_ = (outer.size + most - 1) / most;
    last_ = outer.size - (inner_ - 1) * most;
  }

  bool any() const { return each_ > 1; }
  int64_t each() const { return each_; }
  // Positions of a group of grouped(): the last one of a line may have fewer.
  int64_t size_of(int64_t group) const {
    return any() && group % inner_ == inner_ - 1 ? last_ : each_;
  }

  // The places of a whole group.
  OffsetIds places(const Transfer& t, const Canonical& c) const {
    OffsetIds all;
    for (const IndexOperand& index : t.dst_index) all.add(index.extent, index.scale);
    if (any()) all.add(each_, c.outer.back().dst);
    all.close();
    return all;
  }

  // The same Transfer with groups for outer positions: those of a group are its first items.
  Canonical grouped(const Canonical& c) const {
    Canonical groups = c;
    if (!any()) return groups;
    Axis& outer = groups.outer.back();
    groups.items = Axes();
    groups.items.push_back(outer);
    groups.items.back().size = each_;
    for (const Axis& axis : c.items) groups.items.push_back(axis);
    groups.item_count = each_ * c.item_count;
    groups.outer_count = c.outer_count / outer.size * inner_;
    outer.size = inner_;
    outer.dst *= each_;
    outer.src *= each_;
    for (int64_t& stride : outer.index) stride *= each_;
    return groups;
  }

 private:
  int64_t each_ = 1, inner_ = 1, last_ = 1;
};

}  // namespace sow::detail
