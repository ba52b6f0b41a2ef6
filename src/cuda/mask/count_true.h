// SPDX-License-Identifier: Apache-2.0
// How many bytes of a mask are not zero, and which: what is found while they are counted can be
// kept, so that whoever writes by their ranks reads no mask again.
#pragma once

#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

// The bytes of what count_true keeps of a mask of so many.
size_t kept_ranks_bytes(int64_t count);

// Waits for the answer. `kept` is memory for what is found on the way, or null.
int64_t count_true(const CudaContext& context, const void* mask, int64_t count, void* kept);

// The coordinates of the trues of a mask of that shape, in row-major order: an int64 for each
// dimension, true after true.
void true_coordinates(const CudaContext& context, void* kept, const int64_t* shape, int rank,
                      int64_t* out);

}  // namespace sow::detail::cuda
