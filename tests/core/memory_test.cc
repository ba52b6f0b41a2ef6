// SPDX-License-Identifier: Apache-2.0
// Tests of the memory pool: alignment, reuse, limits, statistics, threads, forks and the very end.
#include "core/memory/memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/memory/system_memory.h"
#include "sow/error.h"
#include "test_threads.h"

namespace sow::detail {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Each test starts with an empty pool and the usual limit.
class MemoryTest : public testing::Test {
 protected:
  MemoryTest() {
    set_memory_pool_limit(int64_t{1} << 30);
    release_memory();
  }
  ~MemoryTest() override { set_memory_pool_limit(before_); }

 private:
  int64_t before_ = memory_pool_limit();
};

std::vector<size_t> many_sizes() {
  std::vector<size_t> sizes = {0};
  for (size_t power = 1; power <= 16 * kMiB; power *= 2) {
    for (const size_t size : {power - 1, power, power + 1, power + power / 4, power + power / 2}) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

TEST_F(MemoryTest, BlocksAreAlignedAndTheirOwn) {
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  for (const size_t size : many_sizes()) {
    auto* block = static_cast<unsigned char*>(allocate(size));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kMemoryAlignment, 0u) << size;
    std::memset(block, static_cast<int>(blocks.size() % 251), size);
    blocks.emplace_back(block, size);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto [block, size] = blocks[i];
    if (size == 0) continue;
    EXPECT_EQ(block[0], i % 251);
    EXPECT_EQ(block[size - 1], i % 251);
  }
  for (const auto& [block, size] : blocks) deallocate(block, size);
}

TEST_F(MemoryTest, NothingIsUniqueAndNullIsIgnored) {
  void* first = allocate(0);
  void* second = allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  const MemoryStats before = memory_stats();
  deallocate(nullptr, 0);
  deallocate(nullptr, 100);
  EXPECT_EQ(memory_stats().bytes_in_use, before.bytes_in_use);
  deallocate(first, 0);
  deallocate(second, 0);
}

TEST_F(MemoryTest, FreedBlocksAreReused) {
  for (const size_t size : many_sizes()) {
    void* first = allocate(size);
    deallocate(first, size);
    const int64_t from_system = memory_stats().system_allocations;
    void* second = allocate(size);
    if (kMemoryIsPooled) {
      EXPECT_EQ(second, first) << size;
      EXPECT_EQ(memory_stats().system_allocations, from_system) << size;
    } else {
      EXPECT_EQ(memory_stats().system_allocations, from_system + 1) << size;
    }
    deallocate(second, size);
  }
}

TEST_F(MemoryTest, NearbySizesShareBlocks) {
  if (!kMemoryIsPooled) return;
  const size_t size = 100 * kMiB;
  void* first = allocate(size);
  deallocate(first, size);
  void* second = allocate(size + size / 16);
  EXPECT_EQ(first, second);
  deallocate(second, size + size / 16);
  EXPECT_LE(memory_stats().bytes_kept, static_cast<int64_t>(size + size / 4));
}

TEST_F(MemoryTest, StatisticsCount) {
  const MemoryStats before = memory_stats();
  EXPECT_EQ(before.bytes_kept, 0);
  void* large = allocate(3 * kMiB);
  void* small = allocate(100);
  const MemoryStats during = memory_stats();
  EXPECT_EQ(during.bytes_in_use - before.bytes_in_use, static_cast<int64_t>(3 * kMiB + 100));
  EXPECT_GE(during.peak_bytes_in_use, during.bytes_in_use);
  EXPECT_EQ(during.allocations - before.allocations, 2);
  EXPECT_EQ(during.system_allocations - before.system_allocations, 2);
  deallocate(large, 3 * kMiB);
  deallocate(small, 100);
  const MemoryStats after = memory_stats();
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(after.peak_bytes_in_use, during.peak_bytes_in_use);
  EXPECT_EQ(after.bytes_kept, kMemoryIsPooled ? static_cast<int64_t>(4 * kMiB + 128) : 0);
  release_memory();
  EXPECT_EQ(memory_stats().bytes_kept, 0);
}

TEST_F(MemoryTest, TheLimitHolds) {
  const int64_t limit = 40 * kMiB;
  set_memory_pool_limit(limit);
  for (const size_t size : {size_t{100}, size_t{60000}, kMiB, 8 * kMiB, 64 * kMiB}) {
    std::vector<void*> blocks;
    for (size_t total = 0; total < 128 * kMiB; total += std::max(size, size_t{4096})) {
      blocks.push_back(allocate(size));
    }
    for (void* block : blocks) {
      deallocate(block, size);
      ASSERT_LE(memory_stats().bytes_kept, limit);
    }
  }
  if (kMemoryIsPooled) {
    EXPECT_GT(memory_stats().bytes_kept, limit / 2);
  }
  set_memory_pool_limit(0);
  EXPECT_EQ(memory_stats().bytes_kept, 0);
  for (const size_t size : {size_t{100}, kMiB, 8 * kMiB}) deallocate(allocate(size), size);
  EXPECT_EQ(memory_stats().bytes_kept, 0);
  EXPECT_THROW(set_memory_pool_limit(-1), Error);
}

TEST_F(MemoryTest, SizesNoLongerAskedForMakeRoom) {
  if (!kMemoryIsPooled) return;
  set_memory_pool_limit(40 * kMiB);
  std::vector<void*> old;
  for (int i = 0; i < 3; ++i) old.push_back(allocate(8 * kMiB));
  for (void* block : old) deallocate(block, 8 * kMiB);
  deallocate(allocate(16 * kMiB), 16 * kMiB);
  const int64_t from_system = memory_stats().system_allocations;
  deallocate(allocate(16 * kMiB), 16 * kMiB);
  EXPECT_EQ(memory_stats().system_allocations, from_system);
}

TEST_F(MemoryTest, TooMuchIsBadAlloc) {
  EXPECT_THROW(allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(allocate(SIZE_MAX / 2), std::bad_alloc);
  const MemoryStats before = memory_stats();
  EXPECT_THROW(allocate((size_t{1} << 47) + 1), std::bad_alloc);
  EXPECT_EQ(memory_stats().bytes_in_use, before.bytes_in_use);
}

// Allocates, writes, checks and frees until told to stop, with blocks that live for a while.
void churn(unsigned seed, int rounds) {
  struct Held {
    unsigned char* block = nullptr;
    size_t size = 0;
    unsigned char mark = 0;
  };
  Held held[16];
  unsigned state = seed;
  for (int i = 0; i < rounds; ++i) {
    state = state * 1664525u + 1013904223u;
    Held& slot = held[state >> 28];
    if (slot.size != 0) {
      ASSERT_EQ(slot.block[0], slot.mark);
      ASSERT_EQ(slot.block[slot.size - 1], slot.mark);
    }
    deallocate(slot.block, slot.size);
    slot.size = 1 + (state >> 8) % (i % 64 == 0 ? 3000000 : 5000);
    slot.mark = static_cast<unsigned char>(seed + static_cast<unsigned>(i));
    slot.block = static_cast<unsigned char*>(allocate(slot.size));
    slot.block[0] = slot.block[slot.size - 1] = slot.mark;
  }
  for (const Held& slot : held) deallocate(slot.block, slot.size);
}

TEST_F(MemoryTest, ManyThreads) {
  const int64_t before = memory_stats().bytes_in_use;
  set_memory_pool_limit(8 * kMiB);
  test::run_in_threads(12, [](int seed) { churn(static_cast<unsigned>(seed), 4000); });
  EXPECT_EQ(memory_stats().bytes_in_use, before);
  EXPECT_LE(memory_stats().bytes_kept, static_cast<int64_t>(8 * kMiB));
}

TEST_F(MemoryTest, BlocksOutliveTheThreadThatMadeThem) {
  std::vector<void*> blocks;
  test::run_in_threads(1, [&](int) {
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(allocate(1000));
      std::memset(blocks.back(), i, 1000);
    }
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(static_cast<unsigned char*>(blocks[static_cast<size_t>(i)])[999], i);
    deallocate(blocks[static_cast<size_t>(i)], 1000);
  }
  // And what one thread freed serves another.
  const int64_t from_system = memory_stats().system_allocations;
  test::run_in_threads(1, [&](int) {
    for (void*& block : blocks) block = allocate(1000);
    for (void* block : blocks) deallocate(block, 1000);
  });
  EXPECT_EQ(memory_stats().system_allocations - from_system, kMemoryIsPooled ? 0 : 100);
}

TEST_F(MemoryTest, AForkedChildAllocates) {
  std::atomic<bool> stop{false};
  test::TestThreads threads;
  for (int i = 0; i < 2; ++i) {
    threads.start([&stop] {
      while (!stop) memory_stats();  // takes every lock, so that most forks find one taken
    });
  }
  int status = 0;
  for (int i = 0; i < 30 && status == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a lock that stayed taken would wait for ever
      churn(7, 200);
      release_memory();
      _exit(memory_stats().bytes_kept == 0 ? 0 : 1);
    }
    EXPECT_EQ(waitpid(child, &status, 0), child);
  }
  stop = true;
  threads.join();
  EXPECT_EQ(status, 0);
}

// Frees when it is destroyed, which for the static and thread-local ones is very late.
struct Holder {
  void* block = nullptr;
  size_t size = 0;
  void fill(size_t bytes) {
    size = bytes;
    block = allocate(bytes);
  }
  ~Holder() {
    deallocate(block, size);
    void* again = allocate(size);
    if (again == nullptr) _exit(3);
    deallocate(again, size);
  }
};

[[noreturn]] void exit_with_blocks_alive() {
  static Holder small, large;  // constructed before the pool, so destroyed after any static of it
  thread_local Holder local;
  small.fill(100);
  large.fill(8 * kMiB);
  local.fill(5000);
  test::run_in_threads(1, [](int) {
    thread_local Holder inner;
    inner.fill(3000);
  });
  std::exit(0);
}

[[noreturn]] void exit_with_limit(const char* setting) {
  setenv("SOW_POOL_LIMIT", setting, 1);
  try {
    deallocate(allocate(1), 1);
    std::exit(memory_pool_limit() == std::strtoll(setting, nullptr, 10) ? 0 : 1);
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
    std::exit(error.kind() == ErrorKind::argument ? 10 : 11);
  }
}

TEST(MemoryDeathTest, BlocksMayBeFreedAfterMain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_blocks_alive(), testing::ExitedWithCode(0), "");
}

TEST(MemoryDeathTest, TheEnvironmentSetsTheLimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_limit("123456789"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with_limit("0"), testing::ExitedWithCode(0), "");
  for (const char* wrong : {"-1", "4G", "lots"}) {
    EXPECT_EXIT(exit_with_limit(wrong), testing::ExitedWithCode(10), "expected a number of bytes");
  }
}

}  // namespace
}  // namespace sow::detail
