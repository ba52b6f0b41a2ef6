// SPDX-License-Identifier: Apache-2.0
// The only parallel regions of the library, and the number of threads it asks for.
#include "core/threads/parallel.h"

#if defined(_OPENMP)
#include <omp.h>
#endif
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/control_groups.h"
#include "core/threads/crew.h"
#include "core/threads/float_state.h"
#include "sow/error.h"

namespace sow {
namespace detail {
namespace {

constexpr int kMaxThreads = 1024;

// 0 until someone asks or sets.
std::atomic<int> num_threads{0};

thread_local bool inside_region = false;

// Of the ThreadLimits that live on this thread, the smallest.
constinit thread_local int thread_limit = kMaxThreads;

// The threads of OpenMP do not survive a fork, but its bookkeeping does: a region would wait for
// them for ever. We watch from the moment we are loaded, for others may start those threads.
std::atomic<bool> is_forked_child{false};
[[maybe_unused]] const int fork_watch =
    pthread_atfork(nullptr, nullptr, [] { is_forked_child.store(true); });

// Those that the process may run on, and has the time of.
int available_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
#endif
  return std::min(count, processor_quota());
}

int default_num_threads() {
  // A list gives one number for each level of nesting; ours is the first.
  const char* text = std::getenv("OMP_NUM_THREADS");
  long count = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
  if (count < 1) count = available_processors();
  return static_cast<int>(std::clamp<long>(count, 1, kMaxThreads));
}

// Looks at a shared number some microseconds long before it lets others run.
constexpr int kSpins = 2000;

void pause_spinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

#if defined(__linux__)
// How many nanoseconds the calling thread's regions took lately, the last one counting most. An
// integer: the caller's floating-point state is not ours here.
thread_local int64_t recent_ns = 0;

// A system may wake a thread on the processor of the one that woke it, and leave both there for
// milliseconds while another processor is idle. So the caller lets it start, and it moves away:
// work of 5 ms on two threads after a pause took 5.2 ms instead of 8.4, of 0.5 ms 0.63 instead
// of 1.03 (2 processors of a virtual machine, 2026-11-15). Of 0.05 ms it took 0.19 instead of
// 0.14, so short regions are left alone: calls tend to be like the ones before.
class Spread {
 public:
  Spread() : home_(sched_getcpu()), worthwhile_(recent_ns >= kWorthwhileNs), began_(Clock::now()) {}
  ~Spread() {
    const std::chrono::nanoseconds took = Clock::now() - began_;
    recent_ns = std::max<int64_t>(took.count(), recent_ns / 2);
  }
  Spread(const Spread&) = delete;
  Spread& operator=(const Spread&) = delete;

  void enter(bool is_caller, int team) {
    if (!worthwhile_) return;
    if (is_caller) {
      sched_yield();
      home_.store(sched_getcpu(), std::memory_order_relaxed);
    } else if (const int home = home_.load(std::memory_order_relaxed); sched_getcpu() == home) {
      leave(home, team);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int64_t kWorthwhileNs = 200'000;

  static void leave(int home, int team) {
    cpu_set_t all;
    if (home < 0 || sched_getaffinity(0, sizeof(all), &all) != 0) return;
    cpu_set_t others = all;
    CPU_CLR(home, &others);
    if (CPU_COUNT(&others) + 1 < team) return;  // some must share
    if (sched_setaffinity(0, sizeof(others), &others) == 0) sched_setaffinity(0, sizeof(all), &all);
  }

  std::atomic<int> home_;
  bool worthwhile_;
  Clock::time_point began_;
};
#else  // the system decides where threads run
struct Spread {
  void enter(bool, int) {}
};
#endif

class RegionMark {
 public:
  RegionMark() : previous_(inside_region) { inside_region = true; }
  ~RegionMark() { inside_region = previous_; }
  RegionMark(const RegionMark&) = delete;
  RegionMark& operator=(const RegionMark&) = delete;

 private:
  bool previous_;
};

// Keeps the exception that a serial run would have met first.
class Failure {
 public:
  void keep(int index, std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    if (exception_ != nullptr && index_ < index) return;
    index_ = index;
    exception_ = std::move(exception);
  }
  void rethrow() {
    if (exception_ != nullptr) std::rethrow_exception(std::move(exception_));
  }

 private:
  std::mutex mutex_;
  int index_ = 0;
  std::exception_ptr exception_;
};

}  // namespace

bool can_run_parallel() { return !inside_region && !is_forked_child.load(); }

namespace {

// Calls f(index, team) on each thread of a team of up to `threads`, the caller's being 0.
#if defined(_OPENMP)
template <class F>
void run_region(int threads, F&& f) {
#pragma omp parallel num_threads(threads)
  f(omp_get_thread_num(), omp_get_num_threads());
}
#else  // each region starts its own; nobody begins before it is known how many there are
template <class F>
void run_region(int threads, F&& f) {
  std::atomic<int> team{0};
  std::vector<std::thread> others;
  try {
    others.reserve(static_cast<size_t>(threads));
    for (int index = 1; index < threads; ++index) {
      others.emplace_back([&team, &f, index] {
        team.wait(0);
        f(index, team.load());
      });
    }
  } catch (const std::exception&) {  // no more threads, or no memory for one
  }
  team.store(1 + static_cast<int>(others.size()));
  team.notify_all();
  f(0, team.load());
  for (std::thread& other : others) other.join();
}
#endif

// Null where the caller works alone.
Crew* crew_for(int threads) { return threads > 1 && can_run_parallel() ? Crew::mine() : nullptr; }

}  // namespace

void run_workers(int count, WorkerFunction function, void* context) {
  Crew* const crew = crew_for(count);
  const int threads = crew == nullptr ? 1 : crew->room_for(count);
  if (threads == 1) {
    const FloatStateGuard guard;
    for (int index = 0; index < count; ++index) function(context, index, count);
    return;
  }
  Failure failure;
  Spread spread;
  run_region(threads, [&](int number, int team) {
    const RegionMark mark;
    const FloatStateGuard guard;
    if (number != 0) crew->join();
    spread.enter(number == 0, team);
    for (int index = number; index < count; index += team) {
      try {
        function(context, index, count);
      } catch (...) {
        failure.keep(index, std::current_exception());
      }
    }
  });
  failure.rethrow();
}

void Team::wait() {
  if (size_ == 1) return;
  const int step = shared_.step.load(std::memory_order_relaxed);
  if (shared_.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    shared_.arrived.store(0, std::memory_order_relaxed);
    shared_.step.store(step + 1, std::memory_order_release);
    return;
  }
  // Steps are short and alike, so that others come soon; but they may have no processor.
  for (int spins = 0; shared_.step.load(std::memory_order_acquire) == step; ++spins) {
    if (spins > kSpins) {
      sched_yield();
    } else {
      pause_spinning();
    }
  }
}

void run_team(int threads, TeamFunction function, void* context) {
  Team::Shared shared;
  Crew* const crew = crew_for(threads);
  threads = crew == nullptr ? 1 : crew->room_for(threads);
  if (threads == 1) {
    const FloatStateGuard guard;
    Team alone(shared, 0, 1);
    function(context, alone);
    return;
  }
  Spread spread;
  run_region(threads, [&](int number, int size) {
    const RegionMark mark;
    const FloatStateGuard guard;
    if (number != 0) crew->join();
    Team team(shared, number, size);
    spread.enter(number == 0, size);
    function(context, team);
  });
}

}  // namespace detail

namespace {

int checked(int count, const char* name) {
  if (count >= 1 && count <= detail::kMaxThreads) return count;
  throw Error(ErrorKind::argument,
              "[" + std::string(name) + "] the number of threads must be from 1 to " +
                  std::to_string(detail::kMaxThreads) + ", not " + std::to_string(count));
}

int process_num_threads() {
  const int count = detail::num_threads.load(std::memory_order_relaxed);
  if (count != 0) return count;
  int unset = 0;
  const int chosen = detail::default_num_threads();
  return detail::num_threads.compare_exchange_strong(unset, chosen) ? chosen : unset;
}

}  // namespace

int get_num_threads() { return std::min(process_num_threads(), detail::thread_limit); }

void set_num_threads(int count) {
  detail::num_threads.store(checked(count, "set_num_threads"), std::memory_order_relaxed);
}

ThreadLimit::ThreadLimit(int count) : previous_(detail::thread_limit) {
  detail::thread_limit = std::min(previous_, checked(count, "thread_limit"));
}

ThreadLimit::~ThreadLimit() { detail::thread_limit = previous_; }

}  // namespace sow
