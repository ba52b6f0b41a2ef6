// How many bytes of a mask are not zero.
#pragma once

#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

int64_t count_true(const CudaContext& context, const void* mask, int64_t count);

}  // namespace sow::detail::cuda
