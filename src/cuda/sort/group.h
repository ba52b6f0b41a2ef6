// SPDX-License-Identifier: Apache-2.0
// Groups the items of rows by place without sorting them: what meets in a place comes in no
// particular order.
#pragma once

#include "cuda/sort/segments.h"

namespace sow::detail::cuda {

// Whether that is quicker than a sort, and allowed: the order of items is free.
bool can_group(const Problem& problem);
size_t group_workspace(const Problem& problem);

// The items by place, and their segments in the lists, which begin empty. Bad keys set the flag.
const uint32_t* group_items(const Launch& launch, char* workspace, Head* heads, LongSegment* longs,
                            SegmentCounts* counts);

}  // namespace sow::detail::cuda
