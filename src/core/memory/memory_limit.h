// SPDX-License-Identifier: Apache-2.0
// How much memory this process may take: of its own control groups and of the machine.
#pragma once

#include <cstdint>
#include <string>

namespace sow::detail {

struct MemoryLimit {
  int64_t bytes = INT64_MAX;  // the smallest limit
  int64_t room = INT64_MAX;   // what can be taken still, once caches of files are given up
};

// Reads /proc and the control groups it names, versions 1 and 2, up to the root: the limit of an
// outer group holds inside too. What cannot be read does not count. Tests put a folder before the
// paths.
MemoryLimit read_memory_limit(const std::string& root = "");

// What allocations go by. Tests: for a while, that of a folder.
MemoryLimit memory_limit() noexcept;
class LimitMemoryBy {
 public:
  explicit LimitMemoryBy(const std::string& root);
  ~LimitMemoryBy();
  LimitMemoryBy(const LimitMemoryBy&) = delete;
  LimitMemoryBy& operator=(const LimitMemoryBy&) = delete;
};

}  // namespace sow::detail
