// SPDX-License-Identifier: Apache-2.0
// Every strategy of the backend, and the choice among them.
#include <cstring>

#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

std::span<const Strategy* const> strategies() {
  static const Strategy* const all[] = {
      &k_copy,       &k_transpose, &k_mask_rows, &k_mask_elements, &k_last_writer,
      &k_last_value, &k_cells,     &k_bins,      &k_sums,          &k_lists,
      &k_partition,  &k_small,     &k_block,     &k_direct,        &k_ordered,
  };
  return all;
}

const Strategy& choose(const Case& c, const char* forced) {
  // Nothing is quicker than one launch, and of a small call the costs of all others are a part.
  if (forced == nullptr && k_small.supports(c) && k_small.cost(c) < kSmallCallNs) return k_small;
  const Strategy* best = nullptr;
  double best_cost = 0;
  for (const Strategy* strategy : strategies()) {
    if (!strategy->supports(c)) continue;
    if (forced != nullptr && std::strcmp(strategy->name, forced) == 0) return *strategy;
    const double cost = strategy->cost(c);
    if (best != nullptr && cost >= best_cost) continue;
    best = strategy;
    best_cost = cost;
  }
  if (best == nullptr)
    throw BackendError{CudaStatus::device_error, "cuda: no strategy supports this Transfer"};
  return *best;
}

}  // namespace sow::detail::cuda
