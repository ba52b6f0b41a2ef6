// SPDX-License-Identifier: Apache-2.0
// The one way to use several threads: parallel_for over a range, parallel_run over workers,
// parallel_team over workers that take several steps together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "sow/runtime.h"

namespace sow::detail {

using WorkerFunction = void (*)(void* context, int index, int count);

// Calls function(context, index, count) once for every index below count, on up to count threads.
// Every index runs whatever OpenMP gives us, so count may shape the work but no index may wait for
// another. Serial inside another of our regions and in a forked child. Each call runs in the
// default floating-point state. If calls throw, the exception of the lowest index comes out.
void run_workers(int count, WorkerFunction function, void* context);

// False where run_workers would take turns on the calling thread.
bool can_run_parallel();

// Calls f(index, threads) once for every index in [0, threads).
template <class F>
void parallel_run(int threads, F&& f) {
  using Function = std::remove_reference_t<F>;
  auto call = [](void* context, int index, int count) {
    (*static_cast<Function*>(context))(index, count);
  };
  run_workers(threads, call, const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

// Calls f(first, last) on contiguous ranges that make up [begin, end): at most get_num_threads()
// of them and, unless there is only one, each with at least grain elements.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (begin >= end) return;
  const int64_t length = end - begin;
  const int64_t pieces = length / std::max<int64_t>(grain, 1);
  const int64_t limit = can_run_parallel() ? get_num_threads() : 1;
  const int threads = static_cast<int>(std::clamp<int64_t>(pieces, 1, limit));
  parallel_run(threads, [&](int index, int count) {
    const int64_t share = length / count;
    const int64_t longer = length % count;  // the first ranges take one element more
    const int64_t first = begin + share * index + std::min<int64_t>(index, longer);
    f(first, first + share + (index < longer ? 1 : 0));
  });
}

// The threads of one region, which wait for each other between steps: waking them for every step
// costs more, and where waiting threads sleep the system may wake two on one processor.
class Team {
 public:
  struct Shared {
    std::atomic<int> arrived{0}, step{0};
  };
  Team(Shared& shared, int index, int size) : shared_(shared), index_(index), size_(size) {}

  // Calls f(index, count) once for every index in [0, count), and returns when all have.
  template <class F>
  void each(int count, F&& f) {
    for (int i = index_; i < count; i += size_) f(i, count);
    wait();
  }
  // Calls f once, for all to see.
  template <class F>
  void one(F&& f) {
    if (index_ == 0) f();
    wait();
  }

 private:
  void wait();

  Shared& shared_;
  int index_, size_;
};

using TeamFunction = void (*)(void* context, Team& team) noexcept;
void run_team(int threads, TeamFunction function, void* context);

// Calls f(team) on every one of up to `threads` threads, which must take the same steps. f must not
// throw: nobody would come to the steps that are left.
template <class F>
void parallel_team(int threads, F&& f) {
  using Function = std::remove_reference_t<F>;
  auto call = [](void* context, Team& team) noexcept { (*static_cast<Function*>(context))(team); };
  run_team(threads, call, const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

}  // namespace sow::detail
