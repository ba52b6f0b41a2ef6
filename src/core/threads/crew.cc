// SPDX-License-Identifier: Apache-2.0
// Starts and ends threads to see whether OpenMP could.
#include "core/threads/crew.h"

#if defined(_OPENMP)
#include <omp.h>
#endif
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

namespace sow::detail {

namespace {

constexpr int64_t kLookAgainNs = 1'000'000'000;
// Left free beside the stacks: for what OpenMP and the C library allocate with a thread, which end
// the process as well where they get nothing.
constexpr size_t kMargin = size_t{2} << 20;
// glibc maps this much for the heap of a thread that allocates: those that started first would take
// the room of the stacks that come after.
constexpr size_t kThreadHeap = size_t{128} << 20;

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// As OpenMP reads it, in KiB unless a letter says otherwise; 0 for what the system gives a thread.
size_t omp_stack_bytes() {
  const char* text = std::getenv("OMP_STACKSIZE");
  if (text == nullptr) text = std::getenv("GOMP_STACKSIZE");
  if (text == nullptr) return 0;
  char* end = nullptr;
  const unsigned long long size = std::strtoull(text, &end, 10);
  while (*end == ' ') ++end;
  const char unit = *end;
  const int shift = unit == 'B' || unit == 'b'   ? 0
                    : unit == 'M' || unit == 'm' ? 20
                    : unit == 'G' || unit == 'g' ? 30
                                                 : 10;
  return size >> (63 - shift) != 0 ? 0 : static_cast<size_t>(size << shift);
}

struct Trial {
  pthread_t thread;
  std::mutex* gate;
  std::atomic<long> id{0};
};

void* wait_at_gate(void* argument) {
  auto* trial = static_cast<Trial*>(argument);
#if defined(__linux__)
  trial->id = syscall(SYS_gettid);
#endif
  const std::lock_guard wait(*trial->gate);
  return nullptr;
}

// A thread that was joined counts against limits until the system has let go of it.
void wait_until_gone([[maybe_unused]] long id) {
#if defined(__linux__)
  for (int tries = 0; tries < 10'000; ++tries) {
    if (syscall(SYS_tgkill, getpid(), id, 0) != 0) return;
    sched_yield();
  }
#endif
}

// How many threads of up to `wanted` can be had at once.
int startable_threads(int wanted) noexcept {
  const std::unique_ptr<Trial[]> trials(new (std::nothrow) Trial[static_cast<size_t>(wanted)]);
  if (trials == nullptr) return 0;
  size_t margin_bytes = 0;
  void* margin = MAP_FAILED;
  for (; wanted > 0; wanted /= 2) {
    margin_bytes = kMargin + static_cast<size_t>(wanted) * kThreadHeap;
    margin =
        mmap(nullptr, margin_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (margin != MAP_FAILED) break;
  }
  if (margin == MAP_FAILED) return 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  static const size_t stack = omp_stack_bytes();
  if (stack != 0) pthread_attr_setstacksize(&attributes, stack);
  std::mutex gate;
  int started = 0;
  {
    const std::lock_guard closed(gate);
    for (; started < wanted; ++started) {
      trials[started].gate = &gate;
      if (pthread_create(&trials[started].thread, &attributes, wait_at_gate, &trials[started]) != 0)
        break;
    }
  }
  for (int i = 0; i < started; ++i) pthread_join(trials[i].thread, nullptr);
  for (int i = 0; i < started; ++i) wait_until_gone(trials[i].id);
  pthread_attr_destroy(&attributes);
  munmap(margin, margin_bytes);
  return started;
}

// What a thread belongs to; a pointer that needs no construction is quicker to reach.
constinit thread_local Crew* own = nullptr;
constinit thread_local Crew* joined = nullptr;

}  // namespace

// Lets go when the thread ends.
struct CrewHold {
  ~CrewHold() {
    if (own != nullptr) own->release();
    if (joined != nullptr) joined->leave();
    own = joined = nullptr;
  }
  void touch() {}
};

namespace {
thread_local CrewHold hold;
}

void Crew::release() noexcept {
  if (holders_.fetch_sub(1) == 1) delete this;
}

Crew* Crew::mine() noexcept { return own != nullptr ? own : make(); }

Crew* Crew::make() noexcept {
  hold.touch();
  return own = new (std::nothrow) Crew;
}

void Crew::join() noexcept {
  if (joined == this) return;
  hold.touch();
  if (joined != nullptr) joined->leave();
  joined = this;
  holders_.fetch_add(1);
  others_.fetch_add(1);
}

void Crew::leave() noexcept {
  others_.fetch_sub(1);
  sure_.store(1);
  release();
}

int Crew::look_for_room(int wanted) noexcept {
#if defined(_OPENMP)
  // Within somebody else's region OpenMP starts none.
  if (omp_get_active_level() >= omp_get_max_active_levels()) return wanted;
#else
  return wanted;  // a region that starts its own threads does with those it gets
#endif
  const int64_t now = look_again_ns_ == 0 ? 0 : now_ns();
  if (now < look_again_ns_) return std::min<int>(wanted, sure_);
  const int team = 1 + others_;
  const int missing = wanted - team;
  const int found = missing > 0 ? team + startable_threads(missing) : wanted;
  look_again_ns_ = found < wanted ? now_ns() + kLookAgainNs : 0;
  sure_.store(found);
  return found;
}

}  // namespace sow::detail
