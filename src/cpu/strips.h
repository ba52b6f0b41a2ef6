// Sends for memory that updates of a block meet soon, a few of them at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/fold_kernels.h"
#include "cpu/touch.h"

namespace sow::detail {

class SentAhead {
 public:
  static constexpr int64_t kStrip = 16;

  // Updates of `value_size` bytes each.
  SentAhead(const Singles& singles, int64_t value_size)
      : runs_{Run(singles.block.soon, singles.block.soon_bytes, singles.count),
              Run(singles.block.soon_keys, singles.block.soon_keys_bytes, singles.count),
              Run(singles.block.soon_values, singles.block.soon_values_bytes, singles.count)},
        first_(singles.block.first),
        step_(singles.block.step * value_size),
        cells_(singles.cells),
        far_(singles.block.far ? singles.count : 0) {}

  // Before the updates from number `at` on, kStrip of them: a share of what the block says of the
  // next one, and places that come later. Not part of the loop around it, which needs the
  // registers.
  [[gnu::noinline]] void send(int64_t at) {
    for (Run& run : runs_) {
      const char* const until = run.at + std::min<int64_t>(run.share, run.end - run.at);
      for (; run.at < until; run.at += kLine) send_ahead(run.at, 0);
    }
    const int64_t end = std::min(at + kLater + kStrip, far_);
    for (int64_t i = at + kLater; i < end; ++i) send_ahead(first_, cells_[i] * step_);
  }

 private:
  static constexpr int64_t kLine = 64, kLater = 128;
  // A run of memory, in as many shares as there are strips.
  struct Run {
    Run(const char* data, int64_t bytes, int64_t updates) : at(data), end(data + bytes), share(0) {
      const int64_t strips = std::max<int64_t>(updates / kStrip, 1);
      if (bytes > 0) share = (bytes / strips + kLine - 1) / kLine * kLine;
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
