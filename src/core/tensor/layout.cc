// SPDX-License-Identifier: Apache-2.0
// Shapes and strides as arithmetic.
#include "core/tensor/layout.h"

#include <cstdlib>
#include <numeric>

#include "core/fail.h"
#include "core/tensor/tensor_impl.h"

namespace sow {

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i != 0) text += ", ";
    text += dims[i] < 0 ? "?" : std::to_string(dims[i]);
  }
  return text + "]";
}

}  // namespace sow

namespace sow::detail {

int64_t checked_numel(const Dims& shape, size_t item_size, const char* op) {
  // A zero anywhere makes the product zero, but the other extents must still be sane.
  int64_t count = 1, nonzero = static_cast<int64_t>(item_size);
  for (int64_t extent : shape) {
    if (extent < 0) fail(ErrorKind::shape, "{}: shape {} has a negative extent", op, shape);
    count *= extent == 0 ? 0 : 1;
    if (extent != 0 && __builtin_mul_overflow(nonzero, extent, &nonzero)) {
      fail(ErrorKind::memory, "{}: shape {} needs more than 2^63 - 1 bytes", op, shape);
    }
  }
  return count == 0 ? 0 : nonzero / static_cast<int64_t>(item_size);
}

namespace {

// The step to the next outer dimension. A shape beyond 63 bits wraps here and is refused by
// checked_numel.
int64_t outer_step(int64_t step, int64_t extent) {
  return static_cast<int64_t>(static_cast<uint64_t>(step) *
                              static_cast<uint64_t>(std::max<int64_t>(extent, 1)));
}

}  // namespace

Dims row_major_strides(const Dims& shape) {
  Dims strides(shape.size(), 1);
  int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = step;
    step = outer_step(step, shape[d]);
  }
  return strides;
}

Dims dense_strides_like(const Dims& shape, const Dims& like) {
  Dims order(shape.size(), 0);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return std::abs(like[a]) > std::abs(like[b]); });
  Dims strides(shape.size(), 1);
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[order[i]] = step;
    step = outer_step(step, shape[order[i]]);
  }
  return strides;
}

bool is_row_major(const Dims& shape, const Dims& strides) {
  int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] == 0) return true;
    if (shape[d] != 1 && strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

int64_t wrap_axis(const char* op, int64_t axis, int rank) {
  const int64_t n = std::max(rank, 1);
  if (axis < -n || axis >= n) {
    fail(ErrorKind::argument, "{}: axis {} is out of range for {} dimension{} (valid: {} to {})",
         op, axis, rank, rank == 1 ? "" : "s", -n, n - 1);
  }
  return axis < 0 ? axis + n : axis;
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  const size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t a = from[d], b = to[lead + d];
    if (a != b && a != 1 && a != -1 && b != -1) return false;
  }
  return true;
}

Dims broadcast_strides(const Dims& from, const Dims& strides, const Dims& to) {
  Dims out(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    out[lead + d] = from[d] == 1 && to[lead + d] != 1 ? 0 : strides[d];
  }
  return out;
}

bool broadcast_shapes(const Dims& a, const Dims& b, Dims& out) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims shape = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    const int64_t m = shorter[d];
    int64_t& n = shape[lead + d];
    if (n == m || m == 1) continue;
    if (n == 1) {
      n = m;
    } else if (n == -1) {
      n = m;  // the known one decides; checked again with real shapes
    } else if (m != -1) {
      return false;
    }
  }
  out = std::move(shape);
  return true;
}

ByteRange byte_range(const Dims& shape, const Dims& strides, size_t item_size) {
  ByteRange range{0, static_cast<int64_t>(item_size)};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return {0, 0};
    const int64_t reach = (shape[d] - 1) * strides[d] * static_cast<int64_t>(item_size);
    (reach < 0 ? range.first : range.last) += reach;
  }
  return range;
}

namespace {

struct Step {
  int64_t stride, extent;  // extent: number of steps that can be taken, size - 1
};

// Whether some nonzero combination of steps, each coefficient in [-extent, extent], sums to
// `target`. The steps are sorted, largest first; `reach[i]` is the furthest steps i.. can go.
// Gives up (undecided) once `budget` is spent.
SelfOverlap search(const std::vector<Step>& steps, const std::vector<int64_t>& reach, size_t i,
                   int64_t target, bool moved, int& budget) {
  if (--budget < 0) return SelfOverlap::undecided;
  if (i == steps.size()) return target == 0 && moved ? SelfOverlap::yes : SelfOverlap::no;
  const auto [stride, extent] = steps[i];
  // target - k * stride must be reachable by the rest.
  const int64_t rest = reach[i + 1];
  const int64_t low = std::max(-extent, (target - rest) / stride - 1);
  const int64_t high = std::min(extent, (target + rest) / stride + 1);
  bool unsure = false;
  for (int64_t k = low; k <= high; ++k) {
    const int64_t left = target - k * stride;
    if (left > rest || left < -rest) continue;
    // Before anything moved only one direction matters: the other is its mirror image.
    if (!moved && k < 0) continue;
    const SelfOverlap found = search(steps, reach, i + 1, left, moved || k != 0, budget);
    if (found == SelfOverlap::yes) return found;
    if (found == SelfOverlap::undecided) unsure = true;
  }
  return unsure ? SelfOverlap::undecided : SelfOverlap::no;
}

}  // namespace

SelfOverlap self_overlap(const Dims& shape, const Dims& strides) {
  if (is_row_major(shape, strides)) return SelfOverlap::no;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return SelfOverlap::no;
  std::vector<Step> steps;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (strides[d] == 0) return SelfOverlap::yes;
    steps.push_back({std::abs(strides[d]), shape[d] - 1});
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.stride > b.stride; });
  std::vector<int64_t> reach(steps.size() + 1, 0);
  bool nested = true;
  for (size_t i = steps.size(); i-- > 0;) {
    nested = nested && steps[i].stride > reach[i + 1];
    reach[i] = reach[i + 1] + steps[i].stride * steps[i].extent;
  }
  if (nested) return SelfOverlap::no;
  int budget = 100000;
  return search(steps, reach, 0, 0, false, budget);
}

bool may_share_bytes(const Tensor& a, const Tensor& b) {
  const TensorImpl& left = *a.impl();
  const TensorImpl& right = *b.impl();
  if (left.numel == 0 || right.numel == 0 || !(left.device == right.device)) return false;
  const ByteRange ra = byte_range(left.shape, left.strides, size_of(left.dtype));
  const ByteRange rb = byte_range(right.shape, right.strides, size_of(right.dtype));
  const auto pa = reinterpret_cast<intptr_t>(left.data);
  const auto pb = reinterpret_cast<intptr_t>(right.data);
  return pa + ra.first < pb + rb.last && pb + rb.first < pa + ra.last;
}

}  // namespace sow::detail
