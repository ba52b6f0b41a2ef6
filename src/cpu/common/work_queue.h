// SPDX-License-Identifier: Apache-2.0
// Work that threads take one piece after another: chunks of a range from one counter, or tasks from
// a queue per worker, first those of their own, then what others have left.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "core/memory/carver.h"
#include "core/threads/parallel.h"
#include "transfer/canonical.h"

namespace sow::detail {

// Chunk p of [0, count) cut into `chunks` of nearly equal length, at multiples of `unit`.
struct Chunks {
  int64_t count;
  int chunks;
  int64_t unit = 1;

  int64_t begin(int chunk) const {
    if (chunk == chunks) return count;
    const int64_t at = count / chunks * chunk + std::min<int64_t>(chunk, count % chunks);
    return at - at % unit;
  }
  int64_t end(int chunk) const { return begin(chunk + 1); }
};

// How many chunks: one if there is not work for two threads, else a few per thread, so that a
// thread that is held up leaves its share to others.
inline int choose_chunks(int64_t work, int64_t grain, int threads, int a_thread) {
  if (threads <= 1 || work < 2 * grain) return 1;
  return static_cast<int>(std::min<int64_t>(work / grain, int64_t{a_thread} * threads));
}

// Calls f(chunk) for every chunk in [0, chunks), in any order.
template <class F>
void for_each_chunk(int threads, int chunks, F&& f) {
  if (threads <= 1 || chunks <= 1) {
    for (int chunk = 0; chunk < chunks; ++chunk) f(chunk);
    return;
  }
  std::atomic<int> next{0};
  parallel_run(std::min(threads, chunks), [&](int, int) {
    for (int chunk; (chunk = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) f(chunk);
  });
}

// Steps that share the same things in the same proportions find them in their own caches.
class WorkQueue {
 public:
  WorkQueue(int workers, Carver& carver) : workers_(workers), next_(carver.take<Next>(workers)) {}

  // Before any worker comes.
  void open(int64_t tasks) {
    tasks_ = tasks;
    for (int w = 0; w < workers_; ++w) new (next_ + w) Next{tasks * w / workers_};
  }
  // Calls f(task) until there are none left. They are taken `some` at a time: taking costs as much
  // as a few updates.
  template <class F>
  void run(int worker, F&& f, int64_t some = 1) {
    for (int i = 0; i < workers_; ++i) {
      const int share = (worker + i) % workers_;
      const int64_t end = tasks_ * (share + 1) / workers_;
      const auto take = [&] {
        return next_[share].task.fetch_add(some, std::memory_order_relaxed);
      };
      for (int64_t task; (task = take()) < end;) {
        for (const int64_t last = std::min(task + some, end); task < last; ++task) f(task);
      }
    }
  }
  // As many as have this many updates at least.
  static int64_t some_of(int64_t updates) {
    constexpr int64_t kUpdates = 1024;
    return std::max<int64_t>(kUpdates / std::max<int64_t>(updates, 1), 1);
  }

 private:
  struct alignas(64) Next {
    std::atomic<int64_t> task;
  };
  int workers_;
  Next* next_;
  int64_t tasks_ = 0;
};

// Walks the outer positions that tasks(f) calls f with, each when the next one is known, so that it
// can be prefetched meanwhile: begin(first, its base), then apply(position, its base, next), which
// is null at the end.
template <class Tasks, class Begin, class Apply>
void walk_with_next(const Canonical& c, Tasks&& tasks, Begin&& begin, Apply&& apply) {
  OuterBase bases[2];
  int64_t taken = 0, before = 0;
  tasks([&](int64_t position) {
    OuterBase& next = bases[taken % 2];
    next = outer_base(c, position);
    if (taken > 0) {
      apply(before, bases[(taken - 1) % 2], &next);
    } else {
      begin(position, next);
    }
    before = position;
    ++taken;
  });
  if (taken > 0) apply(before, bases[(taken - 1) % 2], nullptr);
}

}  // namespace sow::detail
