// SPDX-License-Identifier: Apache-2.0
// Tests of the limits that allocations and the number of threads go by, on folders that stand for
// /proc and control groups.
#include "core/memory/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <new>
#include <string>

#include "core/control_groups.h"
#include "core/memory/memory.h"
#include "core/memory/system_memory.h"
#include "sow/sow.h"

namespace sow::detail {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// A machine of 64 GiB, half of it free, that says what it is told.
class FakeSystem {
 public:
  FakeSystem() : root_(testing::TempDir() + "sow_system_" + std::to_string(next_++)) {
    std::filesystem::remove_all(root_);
    write(
        "/proc/meminfo",
        "MemTotal:       67108864 kB\nMemFree:        33554432 kB\nMemAvailable:   1 kB\n"
        "Buffers:               0 kB\nCached:          2097152 kB\nShmem:           1048576 kB\n"
        "SReclaimable:          0 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n");
  }
  ~FakeSystem() { std::filesystem::remove_all(root_); }
  FakeSystem(const FakeSystem&) = delete;
  FakeSystem& operator=(const FakeSystem&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void unified(const std::string& group, const std::string& top = "/") const {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "24 1 0:22 / /proc rw - proc proc rw\n"
          "30 24 0:26 " +
              top + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void group(const std::string& path, const std::string& limit, int64_t used,
             const std::string& stat = "anon 1\nfile 0\nshmem 0\n") const {
    write("/sys/fs/cgroup" + path + "/memory.max", limit + "\n");
    write("/sys/fs/cgroup" + path + "/memory.current", std::to_string(used) + "\n");
    write("/sys/fs/cgroup" + path + "/memory.stat", stat);
  }
  const std::string& root() const { return root_; }
  MemoryLimit read() const { return read_memory_limit(root_); }

 private:
  static inline int next_ = 0;
  std::string root_;
};

TEST(MemoryLimit, IsTheMachinesWhereThereAreNoGroups) {
  const FakeSystem system;
  EXPECT_EQ(system.read().bytes, 64 * kGiB);
  EXPECT_EQ(system.read().room, 33 * kGiB);  // free, and cached but not shared
}

TEST(MemoryLimit, WhatCannotBeReadDoesNotCount) {
  const MemoryLimit limit = read_memory_limit("/nowhere/at/all");
  EXPECT_EQ(limit.bytes, INT64_MAX);
  EXPECT_EQ(limit.room, INT64_MAX);
}

TEST(MemoryLimit, IsThatOfTheProcesssOwnGroup) {
  const FakeSystem system;
  system.unified("/user.slice/job");
  system.group("", "max", 0);
  system.group("/user.slice", "max", 0);
  system.group("/user.slice/job", std::to_string(kGiB), 300 * kMiB);
  system.group("/user.slice/other", std::to_string(kMiB), 0);
  EXPECT_EQ(system.read().bytes, kGiB);
  EXPECT_EQ(system.read().room, kGiB - 300 * kMiB);
}

TEST(MemoryLimit, IsTheSmallestOfTheGroupsAround) {
  const FakeSystem system;
  system.unified("/a/b/c");
  system.group("/a", std::to_string(2 * kGiB), 2 * kGiB - 100 * kMiB);
  system.group("/a/b", std::to_string(kGiB), 10 * kMiB);
  system.group("/a/b/c", "max", 10 * kMiB);
  EXPECT_EQ(system.read().bytes, kGiB);
  EXPECT_EQ(system.read().room, 100 * kMiB);  // the outer group is nearer to its end
}

TEST(MemoryLimit, FilesInTheCacheAreRoomAndSharedMemoryIsNot) {
  const FakeSystem system;
  system.unified("/a");
  system.group("/a", std::to_string(kGiB), kGiB,
               "anon 1\nfile " + std::to_string(700 * kMiB) + "\nshmem " +
                   std::to_string(200 * kMiB) + "\nslab_reclaimable " + std::to_string(8 * kMiB) +
                   "\n");
  EXPECT_EQ(system.read().room, 508 * kMiB);
}

TEST(MemoryLimit, SwapIsRoomAsFarAsTheGroupMayUseIt) {
  const FakeSystem system;
  system.write("/proc/meminfo",
               "MemTotal: 67108864 kB\nMemFree: 33554432 kB\nSwapFree: 4194304 kB\n");
  system.unified("/a");
  system.group("/a", std::to_string(kGiB), kGiB);
  EXPECT_EQ(system.read().room, 4 * kGiB);
  system.write("/sys/fs/cgroup/a/memory.swap.max", std::to_string(kGiB));
  system.write("/sys/fs/cgroup/a/memory.swap.current", std::to_string(kMiB));
  EXPECT_EQ(system.read().room, kGiB - kMiB);
}

TEST(MemoryLimit, OfAContainerThatSeesAPartOfTheHierarchy) {
  const FakeSystem system;
  system.unified("/docker/abc/inner", "/docker/abc");
  system.group("", std::to_string(3 * kGiB), 0);
  system.group("/inner", std::to_string(2 * kGiB), 0);
  EXPECT_EQ(system.read().bytes, 2 * kGiB);
  system.unified("/../elsewhere");
  EXPECT_EQ(system.read().bytes, 3 * kGiB);
}

TEST(MemoryLimit, OfVersionOneAndOfBothAtOnce) {
  const FakeSystem system;
  system.write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/jobs/one\n0::/unified\n");
  system.write("/proc/self/mountinfo",
               "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpu,memory\n"
               "36 31 0:33 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
               "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
  const std::string one = "/sys/fs/cgroup/memory/jobs/one";
  system.write(one + "/memory.limit_in_bytes", std::to_string(2 * kGiB));
  system.write(one + "/memory.usage_in_bytes", std::to_string(kGiB));
  system.write(one + "/memory.stat", "cache 5\ntotal_cache " + std::to_string(600 * kMiB) +
                                         "\ntotal_shmem " + std::to_string(100 * kMiB) + "\n");
  system.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  system.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1");
  EXPECT_EQ(system.read().bytes, 2 * kGiB);
  EXPECT_EQ(system.read().room, kGiB + 500 * kMiB);
}

TEST(ProcessorQuota, IsTheSmallestOfTheGroupsAroundRoundedUp) {
  const FakeSystem system;
  EXPECT_EQ(processor_quota(system.root()), INT_MAX);
  EXPECT_EQ(processor_quota("/nowhere/at/all"), INT_MAX);
  system.unified("/a/b");
  system.write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(processor_quota(system.root()), INT_MAX);
  system.write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(processor_quota(system.root()), 2);
  system.write("/sys/fs/cgroup/a/b/cpu.max", "20000 100000\n");
  EXPECT_EQ(processor_quota(system.root()), 1);
  system.write("/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(processor_quota(system.root()), 2);
  system.write("/sys/fs/cgroup/a/cpu.max", "nonsense\n");
  EXPECT_EQ(processor_quota(system.root()), 4);
}

TEST(ProcessorQuota, OfVersionOne) {
  const FakeSystem system;
  system.write("/proc/self/cgroup", "4:cpu,cpuacct:/jobs/one\n3:memory:/other\n0::/unified\n");
  system.write("/proc/self/mountinfo",
               "35 31 0:32 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
               "36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n");
  const std::string one = "/sys/fs/cgroup/cpu/jobs/one";
  system.write(one + "/cpu.cfs_quota_us", "-1\n");
  system.write(one + "/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processor_quota(system.root()), INT_MAX);
  system.write(one + "/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(processor_quota(system.root()), 3);
}

TEST(MemoryLimit, TheRealOneCanBeRead) {
  const MemoryLimit limit = read_memory_limit();
  EXPECT_GT(limit.bytes, 64 * kMiB);
  EXPECT_LT(limit.bytes, int64_t{1} << 46);
  EXPECT_GT(limit.room, 0);
}

TEST(MemoryLimit, AResultBeyondItIsAnErrorAndNotTheEnd) {
  const FakeSystem system;
  system.unified("/job");
  system.group("/job", std::to_string(kGiB), 100 * kMiB);
  const LimitMemoryBy limit(system.root());
  // 6 GiB of one float: out of place they would all be there.
  const Tensor x = broadcast_to(Tensor::ones({1}, DType::float32), {6 * kGiB / 4});
  const Tensor index = Tensor::of<int64_t>({0});
  const Tensor src = Tensor::ones({1}, DType::float32);
  const int64_t before = memory_stats().bytes_in_use;
  try {
    index_add(x, 0, index, src);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::memory);
  }
  EXPECT_EQ(memory_stats().bytes_in_use, before);
  EXPECT_EQ(
      index_add(broadcast_to(Tensor::ones({1}, DType::float32), {1000}), 0, index, src).numel(),
      1000);
}

TEST(MemoryLimit, NearItNothingIsKept) {
  if (!kMemoryIsPooled) return;
  const FakeSystem system;
  system.unified("/job");
  system.group("/job", std::to_string(kGiB), 200 * kMiB);
  release_memory();
  const LimitMemoryBy limit(system.root());
  const size_t size = 128 * kMiB;
  deallocate(allocate(size), size);
  EXPECT_GE(memory_stats().bytes_kept, 128 * kMiB);
  // Little is left: what is kept goes back before more is taken.
  system.group("/job", std::to_string(kGiB), kGiB - 260 * kMiB);
  void* other = allocate(256 * kMiB);
  EXPECT_EQ(memory_stats().bytes_kept, 0);
  EXPECT_THROW(allocate(512 * kMiB), std::bad_alloc);
  deallocate(other, 256 * kMiB);
  release_memory();
}

}  // namespace
}  // namespace sow::detail
