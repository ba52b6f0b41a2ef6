// Tasks that workers take one by one: first those of their own share, then what others have left.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "cpu/cell_fold.h"
#include "transfer/canonical.h"

namespace sow::detail {

// Steps that share the same things in the same proportions find them in their own caches.
class TaskShares {
 public:
  TaskShares(int workers, Carver& carver) : workers_(workers), next_(carver.take<Next>(workers)) {}

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
// can be sent for meanwhile: begin(first), then apply(position, next), which is null at the end.
template <class Tasks, class Begin, class Apply>
void walk_with_next(const Canonical& c, Tasks&& tasks, Begin&& begin, Apply&& apply) {
  OuterBase bases[2];
  int64_t taken = 0;
  tasks([&](int64_t position) {
    OuterBase& next = bases[taken % 2];
    next = outer_base(c, position);
    if (taken > 0) {
      apply(bases[(taken - 1) % 2], &next);
    } else {
      begin(next);
    }
    ++taken;
  });
  if (taken > 0) apply(bases[(taken - 1) % 2], nullptr);
}

}  // namespace sow::detail
