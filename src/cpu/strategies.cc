// SPDX-License-Identifier: Apache-2.0
// The list of CPU strategies as an array. The planner takes the cheapest that supports a Transfer.
#include "cpu/strategies.h"

#include "cpu/mask/mask_scan.h"
#include "transfer/plan/tuning_file.h"

namespace sow::detail {

namespace {

#define SOW_LIST_STRATEGY(name) &k_##name,
const Strategy* const kStrategies[] = {SOW_CPU_STRATEGIES(SOW_LIST_STRATEGY)};

// The reference checks nothing, but values that run out are found by whoever reads the mask.
void expect_enough_values(const Transfer& transfer) {
  if (transfer.mask_side != MaskSide::source) return;
  Nest<1> nest;
  int64_t count = 1;
  for (size_t d = 0; d < transfer.shape.size(); ++d) {
    nest.push(transfer.shape[d], {transfer.mask.strides[d]});
    count *= transfer.shape[d];
  }
  const auto* mask = reinterpret_cast<const uint8_t*>(transfer.mask.data);
  expect_enough(transfer, count_range(mask, nest, 0, count));
}

}  // namespace

std::span<const Strategy* const> cpu_strategies() {
  // Before anything is planned. A file that is refused is refused again by the next call.
  static const bool loaded = (load_tuning(), true);
  static_cast<void>(loaded);
  return kStrategies;
}

// The last resort, which makes every Transfer possible: plain loops that need nothing.
const Strategy k_reference = {
    .name = "reference",
    .summary = "serial loops that define the result",
    .supports = [](const Transfer&, const Canonical&) { return true; },
    .cost = [](const Transfer&, const Canonical&, int) { return 1e18; },
    .workspace = [](const Transfer&, const Canonical&, int) { return size_t{0}; },
    .run =
        [](const Transfer& transfer, const Canonical&, const Plan&, char*) {
          expect_enough_values(transfer);
          run_reference(transfer);
        },
};

}  // namespace sow::detail
