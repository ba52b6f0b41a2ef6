// Walks updates a few at a time and sends for memory that is met soon in between.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/fold_kernels.h"
#include "cpu/touch.h"

namespace sow::detail {

// What a block says of the next one, in as many shares as there are strips.
class SentAhead {
 public:
  SentAhead(const Block& block, int64_t strips)
      : runs_{Run(block.soon, block.soon_bytes, strips),
              Run(block.soon_keys, block.soon_keys_bytes, strips),
              Run(block.soon_values, block.soon_values_bytes, strips)} {}
  // Not part of the loop around it, which needs the registers.
  [[gnu::noinline]] void send() {
    for (Run& run : runs_) {
      const char* const until = run.at + std::min<int64_t>(run.share, run.end - run.at);
      for (; run.at < until; run.at += kLine) send_ahead(run.at, 0);
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Run {
    Run(const char* data, int64_t bytes, int64_t strips)
        : at(data), end(data + bytes), share((bytes / strips + kLine - 1) / kLine * kLine) {}
    const char *at, *end;
    int64_t share;
  };
  Run runs_[3];
};

// Calls f(first, last) for all updates of a block.
template <class F>
[[gnu::always_inline]] inline void for_each_strip(const Block& block, int64_t count, F&& f) {
  constexpr int64_t kStrip = 16;
  SentAhead ahead(block, std::max<int64_t>(count / kStrip, 1));
  for (int64_t i = 0; i < count; i += kStrip) {
    ahead.send();
    f(i, std::min(i + kStrip, count));
  }
}

}  // namespace sow::detail
