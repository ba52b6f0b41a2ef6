// SPDX-License-Identifier: Apache-2.0
// The strategies that strategies.cc lists; each is defined in the file of its name.
#pragma once

#include "cuda/plan/strategy.h"

namespace sow::detail::cuda {

extern const Strategy k_copy;
extern const Strategy k_transpose;
extern const Strategy k_mask_elements;
extern const Strategy k_mask_rows;
extern const Strategy k_last_writer;
extern const Strategy k_last_value;
extern const Strategy k_cells;
extern const Strategy k_bins;
extern const Strategy k_sums;
extern const Strategy k_lists;
extern const Strategy k_partition;
extern const Strategy k_ordered;
extern const Strategy k_block;
extern const Strategy k_small;
extern const Strategy k_direct;

}  // namespace sow::detail::cuda
