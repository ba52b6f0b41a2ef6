// Tasks that workers take one by one: first those of their own share, then what others have left.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace sow::detail {

// Steps that share the same things in the same proportions find them in their own caches.
class TaskShares {
 public:
  TaskShares(int64_t tasks, int workers)
      : tasks_(tasks),
        workers_(workers),
        next_(std::make_unique<Next[]>(static_cast<size_t>(workers))) {
    for (int w = 0; w < workers; ++w) next_[w].task = tasks * w / workers;
  }

  // Calls f(task) until there are none left.
  template <class F>
  void run(int worker, F&& f) {
    for (int i = 0; i < workers_; ++i) {
      const int share = (worker + i) % workers_;
      const int64_t end = tasks_ * (share + 1) / workers_;
      for (int64_t task; (task = next_[share].task.fetch_add(1, std::memory_order_relaxed)) < end;)
        f(task);
    }
  }

 private:
  struct alignas(64) Next {
    std::atomic<int64_t> task{0};
  };
  int64_t tasks_;
  int workers_;
  std::unique_ptr<Next[]> next_;
};

}  // namespace sow::detail
