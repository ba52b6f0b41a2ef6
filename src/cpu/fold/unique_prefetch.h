// SPDX-License-Identifier: Apache-2.0
// Prefetches what the updates of a block meet soon, a batch of them at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/common/prefetch.h"
#include "cpu/fold/fold_kernels.h"

namespace sow::detail {

class UniquePrefetch {
 public:
  static constexpr int64_t kBatch = 16;

  // Updates of `value_size` bytes each.
  UniquePrefetch(const UniqueUpdates& unique, int64_t value_size)
      : runs_{Run(unique.block.to_prefetch, unique.block.to_prefetch_bytes, unique.count),
              Run(unique.block.prefetch_keys, unique.block.prefetch_keys_bytes, unique.count),
              Run(unique.block.prefetch_values, unique.block.prefetch_values_bytes, unique.count)},
        first_(unique.block.first),
        step_(unique.block.step * value_size),
        cells_(unique.cells),
        far_(unique.block.far ? unique.count : 0) {}

  // Before the updates from number `at` on, kBatch of them: a share of what the block says of the
  // next one, and places that come later. Not part of the loop around it, which needs the
  // registers.
  [[gnu::noinline]] void issue(int64_t at) {
    for (Run& run : runs_) {
      const char* const until = run.at + std::min<int64_t>(run.share, run.end - run.at);
      for (; run.at < until; run.at += kLine) prefetch_l2(run.at, 0);
    }
    const int64_t end = std::min(at + kLater + kBatch, far_);
    for (int64_t i = at + kLater; i < end; ++i) prefetch_l2(first_, cells_[i] * step_);
  }

 private:
  static constexpr int64_t kLine = 64, kLater = 128;
  // A run of memory, in as many shares as there are batches.
  struct Run {
    Run(const char* data, int64_t bytes, int64_t updates) : at(data), end(data + bytes), share(0) {
      const int64_t batches = std::max<int64_t>(updates / kBatch, 1);
      if (bytes > 0) share = (bytes / batches + kLine - 1) / kLine * kLine;
    }
    const char *at, *end;
    int64_t share;
  };
  Run runs_[3];
  const char* first_;
  int64_t step_;
  const uint32_t* cells_;
  int64_t far_;
};

}  // namespace sow::detail
