// SPDX-License-Identifier: Apache-2.0
// Reads the limits of control groups, and what is in use under each.
#include "core/memory/memory_limit.h"

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <new>
#include <string_view>

#include "core/control_groups.h"

namespace sow::detail {

namespace {

constexpr int64_t kNone = kNoNumber;

// Of lines "name value" or "name: value kB", the sum of those named.
int64_t sum_of(const std::string& path, std::initializer_list<std::string_view> names) {
  const std::string text = read_file(path);
  int64_t sum = 0;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = next_part(rest, '\n');
    std::string_view name = next_word(line);
    if (!name.empty() && name.back() == ':') name.remove_suffix(1);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    int64_t value = 0;
    if (parse_number(next_word(line), value)) sum += next_word(line) == "kB" ? value * 1024 : value;
  }
  return sum;
}

int64_t plus(int64_t a, int64_t b) { return a > kNone - b ? kNone : a + b; }

// One group: its limit, and what is in use of it but for the caches of files, which are given up
// where memory is short. Those of /dev/shm are memory like any other.
MemoryLimit limit_of_group(const std::string& folder, bool unified, int64_t swap_free) {
  const int64_t limit = read_number(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"));
  if (limit == kNone) return {};
  const int64_t used =
      read_number(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"));
  if (used == kNone) return {limit, kNone};
  const std::string stat = folder + "/memory.stat";
  const int64_t cached = unified
                             ? sum_of(stat, {"file", "slab_reclaimable"}) - sum_of(stat, {"shmem"})
                             : sum_of(stat, {"total_cache"}) - sum_of(stat, {"total_shmem"});
  int64_t swap = swap_free;
  if (unified) {
    const int64_t most = read_number(folder + "/memory.swap.max");
    const int64_t taken = read_number(folder + "/memory.swap.current");
    if (most != kNone && taken != kNone) swap = std::min(swap, std::max<int64_t>(most - taken, 0));
  } else {
    const int64_t both = read_number(folder + "/memory.memsw.limit_in_bytes");
    if (both != kNone) swap = std::min(swap, std::max<int64_t>(both - limit, 0));
  }
  const int64_t held = std::max<int64_t>(used - std::max<int64_t>(cached, 0), 0);
  return {limit, plus(std::max<int64_t>(limit - held, 0), swap)};
}

MemoryLimit limit_of_machine(const std::string& root, int64_t swap_free) {
  const std::string info = root + "/proc/meminfo";
  const int64_t total = sum_of(info, {"MemTotal"});
  if (total == 0) return {};
  const int64_t room =
      sum_of(info, {"MemFree", "Buffers", "Cached", "SReclaimable"}) - sum_of(info, {"Shmem"});
  return {total, plus(std::max<int64_t>(room, 0), swap_free)};
}

void tighten(MemoryLimit& limit, const MemoryLimit& other) {
  limit.bytes = std::min(limit.bytes, other.bytes);
  limit.room = std::min(limit.room, other.room);
}

std::atomic<const std::string*> folder{nullptr};  // of a test

}  // namespace

MemoryLimit read_memory_limit(const std::string& root) {
  const int64_t swap_free = sum_of(root + "/proc/meminfo", {"SwapFree"});
  MemoryLimit limit = limit_of_machine(root, swap_free);
  for_each_control_group(root, "memory", [&](const std::string& group, bool unified) {
    tighten(limit, limit_of_group(group, unified, swap_free));
  });
  return limit;
}

MemoryLimit memory_limit() noexcept {
  try {
    const std::string* root = folder.load();
    return read_memory_limit(root == nullptr ? "" : *root);
  } catch (const std::bad_alloc&) {
    return {kNone, 0};
  }
}

LimitMemoryBy::LimitMemoryBy(const std::string& root) { folder = new std::string(root); }

LimitMemoryBy::~LimitMemoryBy() { delete folder.exchange(nullptr); }

}  // namespace sow::detail
