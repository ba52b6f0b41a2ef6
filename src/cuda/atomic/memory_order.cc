// SPDX-License-Identifier: Apache-2.0
// Sorts the axes of a Problem's walk by how their keys lie.
#include "cuda/atomic/memory_order.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace sow::detail::cuda {

namespace {

// How many elements the destination's offsets span; 0 where cells cannot be numbered by them.
int64_t offset_span(const Problem& p) {
  int64_t last = 0;
  for (int i = 0; i < p.walk.rank; ++i) {
    const int64_t stride = p.walk.axis[i].stride[0];
    if (stride < 0) return 0;
    last += (p.walk.axis[i].size - 1) * stride;
  }
  for (int k = 0; k < p.dst_keys; ++k) {
    if (p.keys[k].scale <= 0 || p.keys[k].extent <= 0) return 0;
    last += (p.keys[k].extent - 1) * p.keys[k].scale;
  }
  return last + 1;
}

bool lies_before(const WalkAxis& a, const WalkAxis& b) {
  const auto steps = [](const WalkAxis& axis) {
    return std::pair(std::abs(axis.stride[2]), std::abs(axis.stride[1]));
  };
  return steps(a) > steps(b);
}

// Axes along which places differ go where their keys lie; the others keep their order, and with it
// that of the updates of a place.
Walk sorted_by_keys(const Walk& walk) {
  Walk out;
  WalkAxis axes[kWalkAxes];
  int count = 0;
  for (int i = 0; i < walk.rank; ++i) {
    if (walk.axis[i].stride[0] == 0) axes[count++] = walk.axis[i];
  }
  for (int i = 0; i < walk.rank; ++i) {
    if (walk.axis[i].stride[0] == 0) continue;
    int at = count++;
    for (; at > 0 && lies_before(walk.axis[i], axes[at - 1]); --at) axes[at] = axes[at - 1];
    axes[at] = walk.axis[i];
  }
  for (int i = 0; i < count; ++i) out.push(axes[i].size, axes[i].stride, kSlots);
  out.finish();
  return out;
}

constexpr int64_t kManyPlaces = 2'500'000;  // their cells of 8 bytes leave the cache

// Of columns that lie side by side a few at a time, so that the cells of their places stay in the
// cache: a sector of keys is still read at once.
void take_few_columns(Walk& walk, int64_t places) {
  if (walk.rank < 2 || walk.rank == kWalkAxes || places <= kManyPlaces) return;
  WalkAxis& last = walk.axis[walk.rank - 1];
  if (last.stride[0] == 0 || walk.axis[walk.rank - 2].stride[0] != 0) return;
  int64_t few = 8;
  while (few < 16 && last.size % few != 0) ++few;
  if (last.size % few != 0 || last.size == few) return;
  Walk out;
  WalkAxis groups = last;
  groups.size = last.size / few;
  for (int k = 0; k < kSlots; ++k) groups.stride[k] *= few;
  last.size = few;
  bool pushed = false;
  for (int i = 0; i < walk.rank; ++i) {
    // In front of the axes along which updates meet.
    if (!pushed && walk.axis[i].stride[0] == 0) {
      out.push(groups.size, groups.stride, kSlots);
      pushed = true;
    }
    out.push(walk.axis[i].size, walk.axis[i].stride, kSlots);
  }
  out.finish();
  walk = out;
}

}  // namespace

OrderedProblem in_memory_order(const Problem& problem) {
  OrderedProblem out = {problem, false, problem.item_count, problem.places};
  if (problem.materialised || problem.outer_count == 1 || problem.columns() != 1 ||
      problem.dst_keys == 0)
    return out;
  const int64_t span = offset_span(problem);
  if (span == 0 || span > 2 * problem.places) return out;
  out.by_offset = true;
  Problem& p = out.p;
  p.walk = sorted_by_keys(problem.walk);
  take_few_columns(p.walk, span);
  out.places_at_once = span;
  for (int i = 0; i < p.walk.rank && p.walk.axis[i].stride[0] != 0; ++i)
    out.places_at_once /= p.walk.axis[i].size;
  p.outer_count = 1;
  p.item_count = p.walk.count;
  p.places = span;
  return out;
}

}  // namespace sow::detail::cuda
