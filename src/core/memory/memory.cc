// SPDX-License-Identifier: Apache-2.0
// The pool: free lists by size class, in shards for small blocks and in one place for large ones.
#include "core/memory/memory.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "core/memory/memory_limit.h"
#include "core/memory/system_memory.h"
#include "core/threads/fork_gate.h"
#include "sow/error.h"

namespace sow {

namespace detail {

namespace {

constexpr size_t kMaxBytes = size_t{1} << 47;  // all that a process can address
constexpr size_t kSmallBytes = size_t{64} << 10;
constexpr int64_t kSmallLimit = int64_t{64} << 20;  // malloc serves small blocks nearly as well
constexpr int kShards = 8;

// The limits of the process are looked at each time so much was asked for, or a block as large is
// freed, though then not more often than this: it takes 0.1 ms, and to fill the block 5.
constexpr int64_t kLookBytes = int64_t{64} << 20;
constexpr int64_t kLookNs = 100'000'000;
constexpr int64_t kNearLimit = 16;  // memory is short when less than this part of it is left

int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Sizes step by 64 bytes up to 256, then in quarters of the power of two below, and beyond one huge
// page in whole ones: the rest of a block in small pages would cost more than the huge page.
constexpr int size_class(size_t bytes) {
  if (bytes > kHugePage) bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  const int exponent = std::bit_width(bytes - 1) - 1;
  const int quarter = static_cast<int>((bytes - 1) >> (exponent - 2)) & 3;
  return 4 + (exponent - 8) * 4 + quarter;
}

constexpr size_t class_bytes(int size_class) {
  if (size_class < 4) return static_cast<size_t>(size_class + 1) * 64;
  const int exponent = 8 + (size_class - 4) / 4;
  const size_t quarters = static_cast<size_t>((size_class - 4) % 4) + 5;
  return quarters << (exponent - 2);
}

constexpr int kClasses = size_class(kMaxBytes) + 1;
static_assert(class_bytes(kClasses - 1) == kMaxBytes);

// Written into the freed block itself.
struct FreeBlock {
  FreeBlock* next;
  size_t bytes;
};

void free_chain(FreeBlock* block) noexcept {
  while (block != nullptr) {
    FreeBlock* const next = block->next;
    system_free(block, block->bytes);
    block = next;
  }
}

// Free lists under one lock. What it drops is freed by the caller, after the lock.
class alignas(64) Shard {
 public:
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  void* pop(int size_class) {
    FreeList& list = lists_[size_class];
    list.last_use = ++clock_;
    FreeBlock* const block = list.first;
    if (block == nullptr) return nullptr;
    list.first = block->next;
    kept_ -= static_cast<int64_t>(block->bytes);
    return block;
  }

  void push(void* memory, int size_class) {
    FreeList& list = lists_[size_class];
    list.last_use = ++clock_;
    list.first = new (memory) FreeBlock{list.first, class_bytes(size_class)};
    kept_ += static_cast<int64_t>(list.first->bytes);
  }

  // Takes out blocks, of the sizes unused for longest first, until at most limit bytes are kept.
  FreeBlock* trim(int64_t limit) {
    FreeBlock* dropped = nullptr;
    while (kept_ > limit) {
      FreeList* oldest = nullptr;
      for (FreeList& list : lists_) {
        if (list.first == nullptr) continue;
        if (oldest == nullptr || list.last_use < oldest->last_use) oldest = &list;
      }
      while (oldest->first != nullptr && kept_ > limit) {
        FreeBlock* const block = oldest->first;
        oldest->first = block->next;
        kept_ -= static_cast<int64_t>(block->bytes);
        block->next = dropped;
        dropped = block;
      }
    }
    return dropped;
  }

  int64_t kept() const { return kept_; }

 private:
  struct FreeList {
    FreeBlock* first = nullptr;
    uint64_t last_use = 0;
  };

  std::mutex mutex_;
  int64_t kept_ = 0;
  uint64_t clock_ = 0;
  FreeList lists_[kClasses];
};

int64_t initial_limit() {
  const char* text = std::getenv("SOW_POOL_LIMIT");
  if (text == nullptr || *text == '\0') {
    return std::min(memory_limit().bytes / 4, int64_t{4} << 30);
  }
  const std::string_view digits(text);
  int64_t bytes = 0;
  const auto parsed = std::from_chars(digits.begin(), digits.end(), bytes);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.end() || bytes < 0) {
    throw Error(ErrorKind::argument,
                "[SOW_POOL_LIMIT] expected a number of bytes, got '" + std::string(text) + "'");
  }
  return bytes;
}

int home_shard() {
  static std::atomic<unsigned> threads{0};
  static thread_local int home = -1;
  if (home < 0) home = static_cast<int>(threads.fetch_add(1) % kShards);
  return home;
}

std::atomic<AllocationTest> allocation_test{nullptr};

class Pool {
 public:
  Pool() : limit_(initial_limit()) {}

  void* allocate(size_t bytes);
  void deallocate(void* block, size_t bytes) noexcept;
  MemoryStats stats();
  void release() { trim_all(0); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(int64_t bytes) {
    limit_.store(bytes);
    trim_all(bytes);
  }

  // A fork copies the locks as they are; taken by another thread, they would stay so in the child.
  void lock_all() {
    for (Shard& shard : shards_) shard.lock();
  }
  void unlock_all() {
    for (Shard& shard : shards_) shard.unlock();
  }

 private:
  static bool is_small(int size_class) { return size_class <= detail::size_class(kSmallBytes); }
  static int64_t small_part(int64_t limit) { return std::min(limit / 4, kSmallLimit); }
  // What one shard may keep: the small ones share their part equally.
  static int64_t shard_limit(int shard, int64_t limit) {
    return shard == kLarge ? limit - small_part(limit) : small_part(limit) / kShards;
  }

  void* reuse(int size_class);
  void* from_system(size_t bytes);
  bool has_room(size_t bytes);
  bool is_short();
  void trim_all(int64_t limit);
  void count_use(int64_t bytes);

  static constexpr int kLarge = kShards;

  Shard shards_[kShards + 1];
  std::atomic<int64_t> limit_;
  std::atomic<int64_t> unlooked_{0};    // bytes from the system since its limits were looked at
  std::atomic<int64_t> look_at_ns_{0};  // when a freed block makes us look again
  std::atomic<bool> short_{false};
  alignas(64) std::atomic<int64_t> in_use_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> system_allocations_{0};
};

void* Pool::allocate(size_t bytes) {
  const AllocationTest test = allocation_test.load(std::memory_order_relaxed);
  if (bytes > kMaxBytes || (test != nullptr && test())) throw std::bad_alloc();
  const int size_class = detail::size_class(bytes);
  void* block = kMemoryIsPooled ? reuse(size_class) : nullptr;
  if (block == nullptr) block = from_system(kMemoryIsPooled ? class_bytes(size_class) : bytes);
  count_use(static_cast<int64_t>(bytes));
  return block;
}

void* Pool::reuse(int size_class) {
  const int home = is_small(size_class) ? home_shard() : kLarge;
  {
    const std::lock_guard lock(shards_[home]);
    if (void* block = shards_[home].pop(size_class)) return block;
  }
  if (home == kLarge) return nullptr;
  // Blocks stay with the thread that freed them: look there before asking the system.
  for (int other = 0; other < kShards; ++other) {
    const std::lock_guard lock(shards_[other]);
    if (void* block = shards_[other].pop(size_class)) return block;
  }
  return nullptr;
}

// A system that promises more memory than it has ends the process that uses it. So before much is
// asked for we look: near the limit nothing is kept, and beyond it there is no memory.
bool Pool::has_room(size_t bytes) {
  const int64_t wanted = static_cast<int64_t>(bytes);
  if (unlooked_.fetch_add(wanted, std::memory_order_relaxed) + wanted < kLookBytes) return true;
  unlooked_.store(0, std::memory_order_relaxed);
  MemoryLimit limit = memory_limit();
  if (limit.room - wanted < limit.bytes / kNearLimit) {
    release();
    limit = memory_limit();
  }
  return wanted <= limit.room;
}

// Whether a freed block goes back to the system.
bool Pool::is_short() {
  const int64_t now = now_ns();
  int64_t at = look_at_ns_.load(std::memory_order_relaxed);
  if (now >= at && look_at_ns_.compare_exchange_strong(at, now + kLookNs)) {
    const MemoryLimit limit = memory_limit();
    short_.store(limit.room < limit.bytes / kNearLimit, std::memory_order_relaxed);
    if (short_.load(std::memory_order_relaxed)) release();
  }
  return short_.load(std::memory_order_relaxed);
}

void* Pool::from_system(size_t bytes) {
  if (!has_room(bytes)) throw std::bad_alloc();
  void* block = system_allocate(bytes);
  if (block == nullptr) {
    release();
    block = system_allocate(bytes);
  }
  if (block == nullptr) throw std::bad_alloc();
  system_allocations_.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void Pool::count_use(int64_t bytes) {
  allocations_.fetch_add(1, std::memory_order_relaxed);
  const int64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Pool::deallocate(void* block, size_t bytes) noexcept {
  in_use_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (!kMemoryIsPooled) return system_free(block, bytes);
  const int size_class = detail::size_class(bytes);
  const int64_t size = static_cast<int64_t>(class_bytes(size_class));
  const int home = is_small(size_class) ? home_shard() : kLarge;
  Shard& shard = shards_[home];
  int64_t limit = shard_limit(home, this->limit());
  if (size >= kLookBytes && is_short()) limit = 0;
  FreeBlock* dropped = nullptr;
  bool kept = false;
  {
    const std::lock_guard lock(shard);
    // Large blocks push out those of sizes that are no longer asked for.
    if (home == kLarge && size <= limit) dropped = shard.trim(limit - size);
    kept = shard.kept() + size <= limit;
    if (kept) shard.push(block, size_class);
  }
  free_chain(dropped);
  if (!kept) system_free(block, static_cast<size_t>(size));
}

void Pool::trim_all(int64_t limit) {
  for (int i = 0; i <= kLarge; ++i) {
    FreeBlock* dropped = nullptr;
    {
      const std::lock_guard lock(shards_[i]);
      dropped = shards_[i].trim(shard_limit(i, limit));
    }
    free_chain(dropped);
  }
}

MemoryStats Pool::stats() {
  MemoryStats stats{};
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard);
    stats.bytes_kept += shard.kept();
  }
  stats.keep_limit = limit();
  stats.bytes_in_use = in_use_.load();
  stats.peak_bytes_in_use = peak_.load();
  stats.allocations = allocations_.load();
  stats.system_allocations = system_allocations_.load();
  return stats;
}

// Never destroyed: deleters may still run after main.
Pool& pool() {
  static Pool* const pool = [] {
    Pool* made = new Pool;
    pthread_atfork([] { detail::pool().lock_all(); }, [] { detail::pool().unlock_all(); },
                   [] { detail::pool().unlock_all(); });
    close_gate_in_forks();  // after the pool's: a fork takes the gate first
    return made;
  }();
  return *pool;
}

}  // namespace

void* allocate(size_t bytes) { return pool().allocate(bytes); }

void deallocate(void* block, size_t bytes) noexcept {
  if (block != nullptr) pool().deallocate(block, bytes);
}

void set_allocation_test(AllocationTest test) { allocation_test.store(test); }

int64_t memory_pool_limit() { return pool().limit(); }

void set_memory_pool_limit(int64_t bytes) {
  if (bytes < 0) {
    throw Error(ErrorKind::argument,
                "[set_memory_pool_limit] expected a number of bytes, got " + std::to_string(bytes));
  }
  pool().set_limit(bytes);
}

}  // namespace detail

MemoryStats memory_stats() { return detail::pool().stats(); }

void release_memory() { detail::pool().release(); }

}  // namespace sow
