// The one list of CPU strategies. The planner takes the cheapest that supports a Transfer.
#include "cpu/strategies.h"

namespace sow::detail {

namespace {

const Strategy* const kStrategies[] = {
    &k_tile,
    &k_reference,
    &k_strided_copy,
    &k_gather,
    &k_mask_elements,
    &k_mask_rows,
};

}  // namespace

std::span<const Strategy* const> cpu_strategies() { return kStrategies; }

// The last resort, which makes every Transfer possible: plain loops that need nothing.
const Strategy k_reference = {
    .name = "reference",
    .says = "serial loops that define the result",
    .supports = [](const Transfer&, const Canonical&) { return true; },
    .cost = [](const Transfer&, const Canonical&, int) { return 1e18; },
    .workspace = [](const Transfer&, const Canonical&, int) { return size_t{0}; },
    .run = [](const Transfer& transfer, const Canonical&, const Plan&, char*) { run_reference(transfer); },
};

}  // namespace sow::detail
