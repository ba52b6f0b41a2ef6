// Every CPU strategy; each is defined in the file of its name and listed in strategies.cc.
#pragma once

#include "transfer/plan/plan.h"

namespace sow::detail {

extern const Strategy k_direct;
extern const Strategy k_ordered;
extern const Strategy k_owned;
extern const Strategy k_partition;
extern const Strategy k_parts;
extern const Strategy k_private;
extern const Strategy k_reference;
extern const Strategy k_short_rows;
extern const Strategy k_small;
extern const Strategy k_block;
extern const Strategy k_strided_copy;
extern const Strategy k_gather;
extern const Strategy k_mask_elements;
extern const Strategy k_mask_rows;

}  // namespace sow::detail
