// SPDX-License-Identifier: Apache-2.0
// Memory for one call: small blocks inside of the object, because the pool costs more than a small
// call, larger ones from the pool.
#pragma once

#include "core/memory/memory.h"

namespace sow::detail {

template <size_t InlineBytes = 0>
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes) {
    if (bytes > InlineBytes) block_ = static_cast<char*>(allocate(bytes));
  }
  ~Scratch() {
    if (block_ != nullptr) deallocate(block_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() { return block_ != nullptr ? block_ : local_; }

 private:
  size_t bytes_;
  char* block_ = nullptr;
  alignas(kMemoryAlignment) char local_[InlineBytes == 0 ? 1 : InlineBytes];
};

}  // namespace sow::detail
