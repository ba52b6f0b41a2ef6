// SPDX-License-Identifier: Apache-2.0
// The check of all keys as the first step of a strategy's only region: every worker takes a share.
#pragma once

#include <atomic>

#include "core/tensor/layout.h"
#include "core/threads/parallel.h"
#include "transfer/index/key_runs.h"
#include "transfer/transfer.h"

namespace sow::detail {

class KeyCheck {
 public:
  // Keys that do not lie one after the other are checked here and now.
  explicit KeyCheck(const Transfer& t) {
    const bool one = t.bounds == Bounds::error && t.dst_index.size() == 1 && t.src_index.empty();
    if (!one || !is_row_major(t.dst_index[0].own_shape, t.dst_index[0].own_strides) ||
        t.dst_index[0].extent <= 0 || t.dst_index[0].extent > INT64_MAX / 2) {
      check_indices(t);
      return;
    }
    index_ = &t.dst_index[0];
    for (const int64_t extent : index_->own_shape) count_ *= extent;
  }

  // Whether the keys of one of `workers` shares are good. When all have said so, writing may begin.
  bool share(int worker, int workers) const {
    if (index_ == nullptr) return true;
    const int64_t first = count_ * worker / workers, last = count_ * (worker + 1) / workers;
    if (index_->dtype == DType::int32) {
      return keys_in_range(reinterpret_cast<const int32_t*>(index_->data) + first, last - first,
                           index_->extent);
    }
    return keys_in_range(reinterpret_cast<const int64_t*>(index_->data) + first, last - first,
                         index_->extent);
  }

 private:
  const IndexOperand* index_ = nullptr;
  int64_t count_ = 1;
};

// Checks all keys, then calls f(worker, workers) for every worker, in one region. If a key is bad,
// f is never called, and the error says which.
template <class F>
void run_checked(const Transfer& t, int workers, F&& f) {
  const KeyCheck keys(t);
  std::atomic<bool> bad{false};
  parallel_team(workers, [&](Team& team) {
    team.each(workers, [&](int worker, int count) {
      if (!keys.share(worker, count)) bad = true;
    });
    if (!bad) team.each(workers, f);
  });
  if (bad) check_indices(t);
}

}  // namespace sow::detail
