// SPDX-License-Identifier: Apache-2.0
// The keys of a part of a call, for tiles that are cut by place.
#pragma once

#include "cuda/runtime/failure.h"

namespace sow::detail::cuda {

// out[i] is the place of key i, counted from `first`; where that lies outside of [first, last),
// where the key is bad or dropped, or where the flag says that a key of the call is bad, last -
// first.
void copy_keys(const CudaContext& context, const IndexOperand& index, Bounds bounds, int64_t first,
               int64_t last, const Flag* flag, int64_t* out);

}  // namespace sow::detail::cuda
