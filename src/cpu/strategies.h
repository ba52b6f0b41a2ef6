// SPDX-License-Identifier: Apache-2.0
// Every CPU strategy, in one list; each is defined as k_NAME in the file of its name.
#pragma once

#include "transfer/plan/plan.h"

namespace sow::detail {

// clang-format off
#define SOW_CPU_STRATEGIES(X) \
  X(direct) \
  X(small) \
  X(owned) \
  X(ordered) \
  X(short_rows) \
  X(block) \
  X(private) \
  X(partition) \
  X(reference) \
  X(strided_copy) \
  X(gather) \
  X(mask_elements) \
  X(mask_rows) \
  X(parts)
// clang-format on

#define SOW_DECLARE_STRATEGY(name) extern const Strategy k_##name;
SOW_CPU_STRATEGIES(SOW_DECLARE_STRATEGY)
#undef SOW_DECLARE_STRATEGY

}  // namespace sow::detail
