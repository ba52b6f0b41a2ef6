// SPDX-License-Identifier: Apache-2.0
// Collapses a Transfer's dimensions to outer x items x row, and decodes index tiles.
#include "transfer/canonical.h"

#include <cstdlib>

namespace sow::detail {

namespace {

Axes axes_of(const Transfer& t) {
  Axes axes;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (t.shape[d] == 1) continue;
    Axis axis;
    axis.size = t.shape[d];
    axis.dst = t.dst.strides[d];
    axis.src = t.src.data ? t.src.strides[d] : 0;
    for (const IndexOperand& index : t.dst_index) axis.index.push_back(index.strides[d]);
    for (const IndexOperand& index : t.src_index) axis.index.push_back(index.strides[d]);
    axes.push_back(std::move(axis));
  }
  return axes;
}

// Whether walking `outer` and then `inner` is one walk with inner's strides, in every operand.
bool is_one_run(const Axis& outer, const Axis& inner) {
  if (outer.dst != inner.dst * inner.size || outer.src != inner.src * inner.size) return false;
  for (size_t k = 0; k < outer.index.size(); ++k) {
    if (outer.index[k] != inner.index[k] * inner.size) return false;
  }
  return true;
}

void merge_neighbours(Axes& axes) {
  size_t kept = 0;
  for (size_t i = 1; i < axes.size(); ++i) {
    if (is_one_run(axes[kept], axes[i])) {
      axes[i].size *= axes[kept].size;
    } else {
      ++kept;
    }
    if (kept != i) axes[kept] = std::move(axes[i]);
  }
  if (!axes.empty()) axes.shrink(kept + 1);
}

// Largest stride first; equal ones stay in order. By insertion, because std::stable_sort allocates.
void sort_by_destination(Axes& axes) {
  for (size_t i = 1; i < axes.size(); ++i) {
    for (size_t k = i; k > 0 && std::abs(axes[k].dst) > std::abs(axes[k - 1].dst); --k) {
      std::swap(axes[k], axes[k - 1]);
    }
  }
}

bool moves_an_index(const Axis& axis) {
  return std::any_of(axis.index.begin(), axis.index.end(), [](int64_t s) { return s != 0; });
}

int64_t count_of(const Axes& axes) {
  int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  return count;
}

void take_row(Canonical& canonical) {
  int best = -1;
  for (size_t i = 0; i < canonical.outer.size(); ++i) {
    const Axis& axis = canonical.outer[i];
    if (moves_an_index(axis)) continue;
    if (best < 0) {
      best = static_cast<int>(i);
      continue;
    }
    const Axis& other = canonical.outer[best];
    const auto key = [](const Axis& a) { return std::pair(std::abs(a.dst), std::abs(a.src)); };
    if (key(axis) <= key(other)) best = static_cast<int>(i);
  }
  if (best < 0) return;
  canonical.row = std::move(canonical.outer[best]);
  canonical.outer.erase(canonical.outer.begin() + best);
}

}  // namespace

bool has_no_work(const Transfer& transfer) {
  bool empty = false;
  for (const int64_t extent : transfer.shape) empty = empty || extent == 0;
  // Without a place to go to every update was dropped: any other policy has raised its error.
  for (const IndexOperand& index : transfer.dst_index) empty = empty || index.extent == 0;
  return empty;
}

Canonical canonicalize(const Transfer& transfer) {
  Canonical canonical;
  canonical.empty = has_no_work(transfer);
  if (canonical.empty) return canonical;
  for (Axis& axis : axes_of(transfer)) {
    (axis.dst == 0 ? canonical.items : canonical.outer).push_back(std::move(axis));
  }
  // Outer positions may run in any order: the destination's own order merges most and walks best.
  sort_by_destination(canonical.outer);
  merge_neighbours(canonical.outer);
  merge_neighbours(canonical.items);
  canonical.row.index = Dims(transfer.dst_index.size() + transfer.src_index.size(), 0);
  take_row(canonical);
  canonical.outer_count = count_of(canonical.outer);
  canonical.item_count = count_of(canonical.items);
  return canonical;
}

Canonical flatten(const Transfer& transfer) {
  Canonical canonical;
  for (int64_t extent : transfer.shape) canonical.empty = canonical.empty || extent == 0;
  if (canonical.empty) return canonical;
  canonical.items = axes_of(transfer);
  merge_neighbours(canonical.items);
  canonical.row.index = Dims(transfer.dst_index.size() + transfer.src_index.size(), 0);
  canonical.item_count = count_of(canonical.items);
  return canonical;
}

OuterBase outer_base(const Canonical& canonical, int64_t position) {
  OuterBase base;
  base.index = Dims(canonical.row.index.size(), 0);
  for (size_t i = canonical.outer.size(); i-- > 0;) {
    const Axis& axis = canonical.outer[i];
    const int64_t at = i == 0 ? position : position % axis.size;
    if (i > 0) position /= axis.size;
    base.dst += at * axis.dst;
    base.src += at * axis.src;
    for (size_t k = 0; k < axis.index.size(); ++k) base.index[k] += at * axis.index[k];
  }
  return base;
}

namespace {

// out[i] += scale * key(i) for a run of keys, or kDropped. Only drop needs a branch a key.
template <class K>
void add_keys(const IndexOperand& index, Bounds bounds, int64_t offset, int64_t stride,
              int64_t count, int64_t* out) {
  const K* keys = reinterpret_cast<const K*>(index.data) + offset;
  const int64_t extent = index.extent, scale = index.scale;
  if (bounds == Bounds::drop) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t key = resolve_key(keys[i * stride], extent, Bounds::drop);
      out[i] = key == kDropped || out[i] == kDropped ? kDropped : out[i] + scale * key;
    }
  } else if (bounds == Bounds::clip) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] += scale * resolve_key(keys[i * stride], extent, Bounds::clip);
    }
  } else if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t key = keys[i];
      out[i] += scale * (key + (key < 0 ? extent : 0));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t key = keys[i * stride];
      out[i] += scale * (key + (key < 0 ? extent : 0));
    }
  }
}

void add_run(const IndexOperand& index, Bounds bounds, int64_t offset, int64_t stride,
             int64_t count, int64_t* out) {
  if (index.dtype == DType::int32) {
    add_keys<int32_t>(index, bounds, offset, stride, count, out);
  } else {
    add_keys<int64_t>(index, bounds, offset, stride, count, out);
  }
}

}  // namespace

void decode_items(const Transfer& t, const Canonical& canonical, const OuterBase& base,
                  int64_t first, int64_t count, int64_t* dst_offsets, int64_t* src_offsets) {
  static const Axis kSingle;
  const size_t rank = canonical.items.size();
  const Axis& inner = rank == 0 ? kSingle : canonical.items[rank - 1];
  while (count > 0) {
    // Where the run of the innermost axis that holds `first` begins.
    const bool early = first < inner.size;  // divisions are dear, and often not needed
    int64_t rest = early ? 0 : first / inner.size;
    const int64_t at = early ? first : first % inner.size;
    const int64_t run = std::min(count, inner.size - at);
    int64_t src = base.src + at * inner.src;
    int64_t dst = base.dst + at * inner.dst;
    Dims index = base.index;
    for (size_t k = 0; k < index.size() && rank > 0; ++k) index[k] += at * inner.index[k];
    for (size_t i = rank; i-- > 1;) {
      const Axis& axis = canonical.items[i - 1];
      const int64_t coordinate = i == 1 ? rest : rest % axis.size;
      if (i > 1) rest /= axis.size;
      src += coordinate * axis.src;
      dst += coordinate * axis.dst;
      for (size_t k = 0; k < index.size(); ++k) index[k] += coordinate * axis.index[k];
    }
    for (int64_t i = 0; i < run; ++i) dst_offsets[i] = dst + i * inner.dst;
    for (int64_t i = 0; i < run; ++i) src_offsets[i] = src + i * inner.src;
    size_t k = 0;
    for (const IndexOperand& op : t.dst_index) {
      add_run(op, t.bounds, index[k], rank ? inner.index[k] : 0, run, dst_offsets);
      ++k;
    }
    for (const IndexOperand& op : t.src_index) {
      add_run(op, t.bounds, index[k], rank ? inner.index[k] : 0, run, src_offsets);
      ++k;
    }
    dst_offsets += run;
    src_offsets += run;
    first += run;
    count -= run;
  }
}

}  // namespace sow::detail
