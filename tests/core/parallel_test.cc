// SPDX-License-Identifier: Apache-2.0
// Tests of the thread helper: every piece of work runs once, whatever threads there are.
#include "core/threads/parallel.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sow/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SOW_ANY_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SOW_ANY_SANITIZER
#endif
#endif

namespace sow::detail {
namespace {

class ParallelTest : public testing::Test {
 protected:
  ~ParallelTest() override { set_num_threads(before_); }

 private:
  int before_ = get_num_threads();
};

std::vector<std::pair<int64_t, int64_t>> ranges_of(int64_t begin, int64_t end, int64_t grain) {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  parallel_for(begin, end, grain, [&](int64_t first, int64_t last) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(first, last);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST_F(ParallelTest, RangesCoverEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    for (const int64_t begin : {int64_t{-5}, int64_t{0}, int64_t{1} << 40}) {
      for (const int64_t length : {0, 1, 2, 3, 6, 7, 8, 20, 1001}) {
        for (const int64_t grain : {0, 1, 3, 500}) {
          const auto ranges = ranges_of(begin, begin + length, grain);
          int64_t next = begin;
          for (const auto& range : ranges) {
            EXPECT_EQ(range.first, next);
            EXPECT_LT(range.first, range.second);
            next = range.second;
          }
          EXPECT_EQ(next, begin + length);
        }
      }
    }
  }
}

TEST_F(ParallelTest, NumberOfRangesFollowsThreadsAndGrain) {
  set_num_threads(4);
  EXPECT_EQ(ranges_of(0, 0, 1).size(), 0u);
  EXPECT_EQ(ranges_of(5, 3, 1).size(), 0u);
  EXPECT_EQ(ranges_of(0, 3, 1).size(), 3u);
  EXPECT_EQ(ranges_of(0, 1000, 1).size(), 4u);
  EXPECT_EQ(ranges_of(0, 1000, 400).size(), 2u);
  EXPECT_EQ(ranges_of(0, 1000, 5000).size(), 1u);
  set_num_threads(1);
  EXPECT_EQ(ranges_of(0, 1000, 1).size(), 1u);
}

std::vector<int> calls_of(int threads) {
  std::vector<std::atomic<int>> calls(static_cast<size_t>(threads));
  parallel_run(threads, [&](int index, int count) {
    EXPECT_EQ(count, threads);
    ++calls[static_cast<size_t>(index)];
  });
  return {calls.begin(), calls.end()};
}

TEST_F(ParallelTest, EveryWorkerRunsOnce) {
  for (const int threads : {0, 1, 2, 3, 7}) {
    EXPECT_EQ(calls_of(threads), std::vector<int>(static_cast<size_t>(threads), 1));
  }
}

TEST_F(ParallelTest, EveryWorkerRunsWhenOpenMpGivesFewerThreads) {
  // With one level of parallelism in use, a region within another gets one thread.
  const int levels = omp_get_max_active_levels();
  omp_set_max_active_levels(1);
  std::vector<int> calls[2];
#pragma omp parallel num_threads(2)
  calls[omp_get_thread_num()] = calls_of(5);
  omp_set_max_active_levels(levels);
  EXPECT_EQ(calls[0], std::vector<int>(5, 1));
}

TEST_F(ParallelTest, TwoThreadsReallyRunAtOnce) {
  std::atomic<int> arrived{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  parallel_run(2, [&](int, int) {
    ++arrived;
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(arrived, 2);
  });
}

TEST_F(ParallelTest, ATeamTakesItsStepsTogether) {
  for (const int threads : {1, 2, 5}) {
    std::vector<int> first(7, 0), second(7, 0);
    int sum = 0;
    parallel_team(threads, [&](Team& team) {
      for (int round = 1; round <= 100; ++round) {
        team.each(7, [&](int index, int count) { first[index] += count; });
        team.one([&] {
          sum = 0;
          for (const int each : first) sum += each;
        });
        team.each(7, [&](int index, int) { second[index] = sum; });
      }
    });
    EXPECT_EQ(first, std::vector<int>(7, 700));
    EXPECT_EQ(second, std::vector<int>(7, 4900));
  }
}

TEST_F(ParallelTest, InnerRegionsAreSerialAndComplete) {
  set_num_threads(2);
  EXPECT_TRUE(can_run_parallel());
  std::atomic<int> ranges{0}, workers{0};
  parallel_run(2, [&](int, int) {
    EXPECT_FALSE(can_run_parallel());
    const auto self = std::this_thread::get_id();
    parallel_for(0, 100, 1, [&](int64_t first, int64_t last) {
      EXPECT_EQ(last - first, 100);
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++ranges;
    });
    parallel_run(3, [&](int, int count) {
      EXPECT_EQ(count, 3);
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++workers;
    });
  });
  EXPECT_EQ(ranges, 2);
  EXPECT_EQ(workers, 6);
  EXPECT_TRUE(can_run_parallel());
}

TEST_F(ParallelTest, TheExceptionOfTheLowestWorkerComesOut) {
  for (int round = 0; round < 20; ++round) {
    for (const int first_bad : {0, 1, 3}) {
      try {
        parallel_run(4, [&](int index, int) {
          if (index >= first_bad) throw std::runtime_error(std::to_string(index));
        });
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), std::to_string(first_bad));
      }
      EXPECT_TRUE(can_run_parallel());
    }
  }
  EXPECT_EQ(calls_of(3), std::vector<int>(3, 1));
}

TEST_F(ParallelTest, SettingTheNumberOfThreads) {
  set_num_threads(3);
  EXPECT_EQ(get_num_threads(), 3);
  for (const int wrong : {0, -1, 1025}) {
    try {
      set_num_threads(wrong);
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::argument);
      EXPECT_NE(std::string(error.what()).find("not " + std::to_string(wrong)), std::string::npos);
    }
  }
  EXPECT_EQ(get_num_threads(), 3);
}

TEST_F(ParallelTest, ALimitHoldsForItsThreadAndItsScope) {
  set_num_threads(4);
  {
    const ThreadLimit two(2);
    EXPECT_EQ(get_num_threads(), 2);
    {
      const ThreadLimit three(3);  // the outer one holds
      EXPECT_EQ(get_num_threads(), 2);
      const ThreadLimit one(1);
      EXPECT_EQ(get_num_threads(), 1);
      int ranges = 0;
      parallel_for(0, 1000, 1, [&](int64_t, int64_t) { ++ranges; });
      EXPECT_EQ(ranges, 1);
    }
    set_num_threads(8);
    EXPECT_EQ(get_num_threads(), 2);
    int elsewhere = 0;
    std::thread([&] { elsewhere = get_num_threads(); }).join();
    EXPECT_EQ(elsewhere, 8);
    EXPECT_THROW(ThreadLimit(0), Error);
    EXPECT_THROW(ThreadLimit(1025), Error);
  }
  EXPECT_EQ(get_num_threads(), 8);
}

TEST_F(ParallelTest, OpenMpsOwnSettingIsLeftAlone) {
  const int before = omp_get_max_threads();
  set_num_threads(before + 1);
  EXPECT_EQ(calls_of(before + 2), std::vector<int>(static_cast<size_t>(before) + 2, 1));
  EXPECT_EQ(omp_get_max_threads(), before);
}

// Exits with the number of threads that a fresh process starts with under this setting.
[[noreturn]] void exit_with_threads(const char* setting) {
  setenv("OMP_NUM_THREADS", setting, 1);
  std::exit(get_num_threads());
}

TEST(ParallelDeathTest, TheEnvironmentGivesTheFirstNumber) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_threads("5"), testing::ExitedWithCode(5), "");
  EXPECT_EXIT(exit_with_threads("6,2"), testing::ExitedWithCode(6), "");
}

// Regions of growing and shrinking teams, alone and from other threads: each index runs once.
bool regions_are_complete() {
  bool good = true;
  for (const int threads : {2, 5, 3, 12, 2, 12}) {
    good = good && calls_of(threads) == std::vector<int>(static_cast<size_t>(threads), 1);
    std::atomic<int> steps{0};
    parallel_team(threads, [&](Team& team) {
      team.each(7, [&](int, int) { ++steps; });
      team.each(7, [&](int, int) { ++steps; });
    });
    good = good && steps == 14;
  }
  return good;
}

[[maybe_unused]] size_t address_space_in_use() {
  size_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%zu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Leaves room for some stacks only (8 MiB each), and works.
[[noreturn, maybe_unused]] void exit_after_regions_in(size_t room) {
  set_num_threads(4);
  const size_t limit = address_space_in_use() + room;
  const rlimit limits{limit, limit};
  if (setrlimit(RLIMIT_AS, &limits) != 0) std::_Exit(2);
  const bool good = regions_are_complete();
  int alone = 0;  // a thread of its own has a team of its own
  try {
    std::thread([&] { alone = regions_are_complete() ? 1 : 2; }).join();
  } catch (const std::system_error&) {
    alone = 1;  // there was no room even for it
  }
  std::_Exit(good && alone == 1 ? 0 : 1);
}

// No thread may be started at all: as another user, for nothing holds root.
[[noreturn]] void exit_after_regions_without_threads() {
  if (getuid() == 0 && setresuid(54321, 54321, 54321) != 0) std::_Exit(2);
  const rlimit limits{1, 1};
  if (setrlimit(RLIMIT_NPROC, &limits) != 0) std::_Exit(3);
  bool refused = false;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {
    refused = true;
  }
  std::_Exit(!refused ? 4 : regions_are_complete() ? 0 : 1);
}

TEST(ParallelDeathTest, WorkGoesOnWithFewerThreadsWhereStacksHaveNoRoom) {
#if defined(SOW_ANY_SANITIZER)
  GTEST_SKIP() << "the sanitizer's shadow memory needs all of the address space";
#else
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (size_t room = 0; room <= (size_t{768} << 20); room += size_t{48} << 20) {
    EXPECT_EXIT(exit_after_regions_in(room), testing::ExitedWithCode(0), "") << room;
  }
#endif
}

TEST(ParallelDeathTest, WorkGoesOnAloneWhereNoThreadMayBeStarted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_after_regions_without_threads(), testing::ExitedWithCode(0), "");
}

// The exit status of a child that runs f, or -1 if it had to be ended after a while.
template <class F>
int status_of_fork(F&& f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(ParallelTest, AForkedChildRunsSerially) {
  set_num_threads(2);
  EXPECT_EQ(calls_of(2), std::vector<int>(2, 1));
  const int status = status_of_fork([] {
    if (can_run_parallel()) return 2;
    int64_t sum = 0;
    parallel_for(0, 1000, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) sum += i;
    });
    parallel_run(3, [&](int, int) { ++sum; });
    return sum == 499503 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(can_run_parallel());
}

}  // namespace
}  // namespace sow::detail
