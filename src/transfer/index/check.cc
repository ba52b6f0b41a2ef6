// SPDX-License-Identifier: Apache-2.0
// Finds the first index out of range before anything is written.
#include <atomic>

#include "core/fail.h"
#include "core/tensor/layout.h"
#include "core/threads/parallel.h"
#include "transfer/index/check.h"
#include "transfer/index/key_runs.h"

namespace sow::detail {

namespace {

template <class K>
bool run_in_range(const K* keys, int64_t stride, int64_t count, int64_t extent) {
  if (stride == 1 && extent <= INT64_MAX / 2) return keys_in_range(keys, count, extent);
  int64_t low = 0, high = -1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t key = keys[i * stride];
    low = std::min(low, key);
    high = std::max(high, key);
  }
  return low >= -extent && high < extent;
}

bool run_in_range(const IndexOperand& index, int64_t offset, int64_t stride, int64_t count) {
  if (index.dtype == DType::int32) {
    return run_in_range(reinterpret_cast<const int32_t*>(index.data) + offset, stride, count,
                        index.extent);
  }
  return run_in_range(reinterpret_cast<const int64_t*>(index.data) + offset, stride, count,
                      index.extent);
}

// Calls f(offset, position) for the first key of every innermost run until it returns false.
template <class F>
void for_each_run(const IndexOperand& index, int64_t first, int64_t last, F&& f) {
  const int rank = index.own_shape.rank();
  for (int64_t run = first; run < last; ++run) {
    int64_t rest = run, offset = 0;
    for (int d = rank - 2; d >= 0; --d) {
      offset += rest % index.own_shape[d] * index.own_strides[d];
      rest /= index.own_shape[d];
    }
    if (!f(offset, run)) return;
  }
}

constexpr int64_t kCheckGrain = 1 << 16;  // keys per thread; a thread costs about this many

bool all_in_range(const IndexOperand& index) {
  const int rank = index.own_shape.rank();
  const int64_t count = checked_numel(index.own_shape, 1, "index");
  if (count == 0) return true;
  if (index.extent == 0) return false;
  const bool dense = is_row_major(index.own_shape, index.own_strides);
  if (dense && count <= kCheckGrain) return run_in_range(index, 0, 1, count);
  std::atomic<bool> good{true};
  if (dense) {
    parallel_for(0, count, kCheckGrain, [&](int64_t first, int64_t last) {
      if (!run_in_range(index, first, 1, last - first)) good = false;
    });
    return good;
  }
  const int64_t inner = rank == 0 ? 1 : index.own_shape[rank - 1];
  const int64_t stride = rank == 0 ? 0 : index.own_strides[rank - 1];
  parallel_for(0, count / inner, std::max<int64_t>(1, kCheckGrain / inner),
               [&](int64_t first, int64_t last) {
                 for_each_run(index, first, last, [&](int64_t offset, int64_t) {
                   if (!run_in_range(index, offset, stride, inner)) good = false;
                   return good.load(std::memory_order_relaxed);
                 });
               });
  return good;
}

// The row-major position of the first bad key; there is one.
int64_t first_bad(const IndexOperand& index, int64_t& key) {
  const int rank = index.own_shape.rank();
  const int64_t inner = rank == 0 ? 1 : index.own_shape[rank - 1];
  const int64_t stride = rank == 0 ? 0 : index.own_strides[rank - 1];
  const int64_t count = checked_numel(index.own_shape, 1, "index");
  int64_t position = -1;
  for_each_run(index, 0, count / inner, [&](int64_t offset, int64_t run) {
    for (int64_t i = 0; i < inner; ++i) {
      key = load_key(index, offset + i * stride);
      if (key >= -index.extent && key < index.extent) continue;
      position = run * inner + i;
      return false;
    }
    return true;
  });
  return position;
}

void check_side(const Transfer& t, const IndexOperands& side) {
  const IndexOperand* worst = nullptr;
  int64_t worst_position = 0, worst_key = 0;
  for (const IndexOperand& index : side) {
    if (all_in_range(index)) continue;
    int64_t key = 0;
    const int64_t position = first_bad(index, key);
    // Components of one coordinate tensor compete for the first place; separate tensors don't.
    if (worst != nullptr && (index.separate || position >= worst_position)) continue;
    worst = &index;
    worst_position = position;
    worst_key = key;
  }
  if (worst != nullptr) report_bad_index(t.op, *worst, worst_position, worst_key);
}

}  // namespace

void report_bad_index(const char* op, const IndexOperand& index, int64_t position, int64_t key) {
  Dims at(index.own_shape.size(), 0);
  for (int d = index.own_shape.rank() - 1; d >= 0; --d) {
    at[d] = position % index.own_shape[d];
    position /= index.own_shape[d];
  }
  if (index.component >= 0 && !index.separate) at.push_back(index.component);
  const std::string where =
      index.separate ? text("{} of indices[{}]", at, index.component) : to_string(at);
  const std::string valid =
      index.extent == 0 ? "none" : text("{} to {}", -index.extent, index.extent - 1);
  fail(ErrorKind::index,
       "{}: index {} at position {} is out of range for axis {} of size {} (valid: {})", op, key,
       where, index.axis, index.extent, valid);
}

void report_too_few(const char* op, int64_t trues, int64_t limit, bool source_side) {
  fail(ErrorKind::shape, "{}: mask has {} true values but {} has only {} elements", op, trues,
       source_side ? "value" : "the result", limit);
}

void check_indices(const Transfer& t) {
  if (t.bounds == Bounds::error) {
    check_side(t, t.dst_index);
    check_side(t, t.src_index);
  } else if (t.bounds == Bounds::clip) {
    for (const auto* side : {&t.dst_index, &t.src_index}) {
      for (const IndexOperand& index : *side) {
        if (index.extent == 0 && !all_in_range(index)) check_side(t, {index});
      }
    }
  }
}

}  // namespace sow::detail
