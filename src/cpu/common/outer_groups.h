// SPDX-License-Identifier: Apache-2.0
// Several neighbouring outer positions as one, where each has few updates: their places are one
// range, so that one block of cells, or one run of updates, does for all of them.
#pragma once

#include <algorithm>

#include "cpu/read/id_reader.h"
#include "cpu/tuning.h"

namespace sow::detail {

class OuterGroups {
 public:
  OuterGroups() = default;
  // Columns that lie between the places of one position, as those of the first and of a middle axis
  // and the parts of complex numbers do, become items of it. Then positions are grouped whose
  // places lie one after the other. A group has at most about so many updates and places, and
  // there is one for every thread; on none, columns stay what they are.
  OuterGroups(const Transfer& t, const Canonical& c, const OffsetIds& places, int threads = 0) {
    if (!t.src_index.empty() || t.dst_index.size() != 1 || places.lowest() != 0) return;
    if (threads > 0) take_columns(t, c, places, threads);
    const int64_t count = places.count() * columns_.size;
    const Canonical wide = with_columns(c);
    if (wide.row.size != 1 || wide.outer.empty()) return;
    const Axis& outer = wide.outer.back();
    if (outer.dst != count * (columns_.size > 1 ? 1 : places.step())) return;
    const int64_t most = std::min(
        {outer.size, tuning::kGroupUpdates / wide.item_count, tuning::kGroupPlaces / count});
    if (most < 2) return;
    each_ = most;
    inner_ = (outer.size + most - 1) / most;
    last_ = outer.size - (inner_ - 1) * most;
  }

  bool any() const { return each_ > 1 || columns_.size > 1; }
  int64_t each() const { return each_; }
  // Positions of a group of grouped(): the last one of a line may have fewer.
  int64_t size_of(int64_t group) const { return group % inner_ == inner_ - 1 ? last_ : each_; }

  // The places of a whole group.
  OffsetIds places(const Transfer& t, const Canonical& c) const {
    OffsetIds all;
    for (const IndexOperand& index : t.dst_index) all.add(index.extent, index.scale);
    all.add(columns_.size, columns_.dst);
    if (each_ > 1) all.add(each_, with_columns(c).outer.back().dst);
    all.close();
    return all;
  }

  // The same Transfer with groups for outer positions: those of a group are its first items.
  Canonical grouped(const Canonical& c) const {
    Canonical groups = with_columns(c);
    if (each_ == 1) return groups;
    Axis& outer = groups.outer.back();
    const Axes items = groups.items;
    groups.items = Axes();
    groups.items.push_back(outer);
    groups.items.back().size = each_;
    for (const Axis& axis : items) groups.items.push_back(axis);
    groups.item_count *= each_;
    groups.outer_count = groups.outer_count / outer.size * inner_;
    outer.size = inner_;
    outer.dst *= each_;
    outer.src *= each_;
    for (int64_t& stride : outer.index) stride *= each_;
    return groups;
  }

 private:
  void take_columns(const Transfer& t, const Canonical& c, const OffsetIds& places, int threads) {
    const auto fits = [&](const Axis& axis, int64_t index) {
      return axis.size > 1 && axis.dst == 1 && axis.src == 1 && axis.index[0] == index &&
             places.count() > 1 && places.step() == axis.size;
    };
    if (fits(c.row, 0) && c.row.size == IdReader::kColumns) {
      columns_ = c.row;
      of_row_ = true;
    } else {
      for (size_t i = 0; i < c.outer.size() && c.row.size == 1; ++i) {
        if (!fits(c.outer[i], 1)) continue;
        columns_ = c.outer[i];
        outer_ = i;
      }
    }
    if (columns_.size == 1) return;
    const Canonical wide = with_columns(c);
    const int64_t all = wide.outer_count * wide.item_count;
    if (places.count() * columns_.size > tuning::kColumnPlaces ||
        (wide.outer_count < threads && all >= tuning::kSerialUpdates) ||
        !IdReader::is_plain(t, wide, places_of_columns(places))) {
      columns_ = Axis();
    }
  }
  OffsetIds places_of_columns(const OffsetIds& places) const {
    OffsetIds all;
    all.add(places.count(), places.step());
    all.add(columns_.size, columns_.dst);
    all.close();
    return all;
  }
  Canonical with_columns(const Canonical& c) const {
    Canonical wide = c;
    if (columns_.size == 1) return wide;
    if (of_row_) {
      wide.row = Axis();
      wide.row.index = c.row.index;
    } else {
      wide.outer.erase(wide.outer.begin() + outer_);
      wide.outer_count /= columns_.size;
    }
    wide.items.push_back(columns_);
    wide.item_count *= columns_.size;
    return wide;
  }

  Axis columns_;         // of one position, if there is more than one
  bool of_row_ = false;  // they were the row, else this outer axis
  size_t outer_ = 0;
  int64_t each_ = 1, inner_ = 1, last_ = 1;
};

}  // namespace sow::detail
