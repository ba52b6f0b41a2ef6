// SPDX-License-Identifier: Apache-2.0
// Exact sums and means of the floating types.
#include "cuda/common/dtypes.h"
#include "cuda/fold/folds.h"

namespace sow::detail::cuda {

void fold_sums(const Launch& launch, const Segments& segments, const FoldMemory& memory,
               const BlockArgs* block) {
  with_type<float16, bfloat16, float, double>(launch.problem.dtype, [&](auto zero) {
    fold_sums_of<decltype(zero)>(launch, segments, memory, block);
  });
}

}  // namespace sow::detail::cuda
