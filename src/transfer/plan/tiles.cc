// SPDX-License-Identifier: Apache-2.0
// Parts of Transfers: by position where destinations differ, by place along the axis of a scatter.
#include "transfer/plan/tiles.h"

#include <algorithm>
#include <vector>

#include "core/text.h"
#include "sow/limits.h"

namespace sow::detail {

namespace {

// Whether positions along d are of different destinations, whatever the keys are.
bool cuts_by_position(const Transfer& t, size_t d) {
  return t.mask_side == MaskSide::none && t.dst.strides[d] != 0 && t.shape[d] > 1;
}

// The dimension that stands for the axis that keys address; -1: it cannot be cut by place.
int axis_of(const Transfer& t) {
  if (t.mask_side != MaskSide::none || t.dst_index.size() != 1) return -1;
  if (!t.src_index.empty() && t.bounds == Bounds::clip) return -1;
  const int axis = t.dst_index[0].axis;
  return axis >= 0 && axis < t.shape.rank() ? axis : -1;
}

int64_t extent_of(const Transfer& t, size_t d) {
  return static_cast<int>(d) == axis_of(t) && t.dst.strides[d] == 0 ? t.dst_index[0].extent
                                                                    : t.shape[d];
}

// Every key of an axis without places is bad, or dropped.
bool has_empty_axis(const Transfer& t) {
  for (const IndexOperands* side : {&t.dst_index, &t.src_index}) {
    for (const IndexOperand& index : *side) {
      if (index.extent == 0) return true;
    }
  }
  return false;
}

Transfer part_of(const Transfer& whole, const Dims& first, const Dims& shape) {
  Transfer part = whole;
  part.shape = shape;
  part.order = nullptr;
  if (part.bounds == Bounds::error) part.bounds = Bounds::promise;  // they were checked as a whole
  const auto width = static_cast<int64_t>(size_of(whole.dtype));
  for (size_t d = 0; d < shape.size(); ++d) {
    part.dst.data += first[d] * whole.dst.strides[d] * width;
    if (part.src.data != nullptr) part.src.data += first[d] * whole.src.strides[d] * width;
    for (IndexOperands* indices : {&part.dst_index, &part.src_index}) {
      for (IndexOperand& index : *indices)
        index.data += first[d] * index.strides[d] * (index.dtype == DType::int32 ? 4 : 8);
    }
  }
  return part;
}

}  // namespace

bool is_bounded() { return scratch_limit() != 0 || has_tile_shape(); }

int64_t describe_own_keys(const Dims& shape, IndexOperand& index) {
  int64_t count = 1;
  index.own_shape = {};
  index.own_strides = {};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (index.strides[d] == 0) continue;
    index.own_shape.push_back(shape[d]);
    index.own_strides.push_back(index.strides[d]);
    count *= shape[d];
  }
  return count;
}

void replace_keys(IndexOperand& index, const void* keys, int64_t extent) {
  index.data = static_cast<const char*>(keys);
  index.dtype = DType::int64;
  index.extent = extent;
  int64_t step = 1;
  size_t own = index.own_shape.size();
  for (size_t d = index.strides.size(); d-- > 0;) {
    if (index.strides[d] == 0) continue;
    index.strides[d] = index.own_strides[--own] = step;
    step *= index.own_shape[own];
  }
}

Transfer from_first_place(const TransferPart& tile) {
  Transfer own = tile.part;
  own.bounds = Bounds::drop;
  if (tile.by_place)
    own.dst.data += tile.first * own.dst_index[0].scale * static_cast<int64_t>(size_of(own.dtype));
  return own;
}

void for_each_tile_of(const Transfer& whole, const Dims& tiles,
                      const std::function<void(const TransferPart&)>& run) {
  const size_t rank = whole.shape.size();
  const int axis = axis_of(whole);
  const bool by_place =
      axis >= 0 && whole.dst.strides[axis] == 0 && tiles[axis] < whole.dst_index[0].extent;
  Dims first(rank, 0), shape = whole.shape;
  const auto walk = [&](const auto& next, size_t d) -> void {
    if (d == rank) {
      TransferPart tile{part_of(whole, first, shape), by_place, 0, 0};
      if (!by_place) return run(tile);
      const int64_t extent = whole.dst_index[0].extent;
      for (tile.first = 0; tile.first < extent; tile.first = tile.last) {
        tile.last = std::min(tile.first + tiles[axis], extent);
        run(tile);
      }
      return;
    }
    const int64_t step =
        cuts_by_position(whole, d) ? tiles[d] : std::max<int64_t>(whole.shape[d], 1);
    for (int64_t at = 0; at < whole.shape[d]; at += step) {
      first[d] = at;
      shape[d] = std::min(step, whole.shape[d] - at);
      next(next, d + 1);
    }
    first[d] = 0;
    shape[d] = whole.shape[d];
  };
  walk(walk, 0);
}

Dims tiles_by_shape(const Transfer& t) {
  const Dims wanted = tile_shape();
  if (wanted.size() != t.shape.size() || t.mask_side != MaskSide::none || has_empty_axis(t))
    return {};
  for (size_t d = 0; d < wanted.size(); ++d) {
    if ((cuts_by_position(t, d) || static_cast<int>(d) == axis_of(t)) &&
        wanted[d] < extent_of(t, d))
      return wanted;
  }
  return {};
}

Dims tiles_for(const Transfer& t, const Planned& planned) {
  const Dims wanted = tiles_by_shape(t);
  if (!wanted.empty()) return wanted;
  const int64_t limit = scratch_limit();
  const bool fits =
      limit == 0 || (static_cast<int64_t>(planned.plan.workspace) <= limit &&
                     planned.plan.strategy->cost(t, planned.canonical, 1) < kLastResortNs);
  if (fits || t.mask_side != MaskSide::none) return {};
  // Halves of the longest dimension until the scratch of the first part fits.
  Dims tiles;
  for (size_t d = 0; d < t.shape.size(); ++d)
    tiles.push_back(std::max<int64_t>(extent_of(t, d), 1));
  for (int halving = 0; halving < 64; ++halving) {
    size_t longest = t.shape.size();
    for (size_t d = 0; d < tiles.size(); ++d) {
      const bool cut =
          cuts_by_position(t, d) || (static_cast<int>(d) == axis_of(t) && t.dst.strides[d] == 0);
      if (cut && tiles[d] > 1 && (longest == tiles.size() || tiles[d] > tiles[longest]))
        longest = d;
    }
    if (longest == tiles.size()) return {};
    tiles[longest] = (tiles[longest] + 1) / 2;
    Transfer part = t;
    part.order = nullptr;
    for (size_t d = 0; d < tiles.size(); ++d) {
      if (cuts_by_position(t, d))
        part.shape[d] = std::min(tiles[d], t.shape[d]);
      else if (static_cast<int>(d) == axis_of(t))
        part.dst_index[0].extent = tiles[d];
    }
    const Canonical canonical = canonicalize(part);
    const Plan plan = plan_transfer(part, canonical);
    if (static_cast<int64_t>(plan.workspace) <= limit &&
        plan.strategy->cost(part, canonical, plan.threads) < kLastResortNs)
      return tiles;
  }
  return {};
}

std::string describe_tiles(const Transfer& t, const Dims& tiles) {
  int64_t parts = 1;
  for (size_t d = 0; d < tiles.size(); ++d) {
    const bool cut =
        cuts_by_position(t, d) || (static_cast<int>(d) == axis_of(t) && t.dst.strides[d] == 0);
    if (cut) parts *= (std::max<int64_t>(extent_of(t, d), 1) + tiles[d] - 1) / tiles[d];
  }
  return text("  tiles        {} at a time, {} in all; each is done as follows\n", tiles, parts);
}

}  // namespace sow::detail
