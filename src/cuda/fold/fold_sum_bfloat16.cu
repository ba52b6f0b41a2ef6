// SPDX-License-Identifier: Apache-2.0
// Exact sums and means of bfloat16.
#include "cuda/fold/fold_sums.cuh"

namespace sow::detail::cuda {

template void fold_sums_of<bfloat16>(const Launch&, const Segments&, const FoldMemory&,
                                     const BlockArgs*);

}  // namespace sow::detail::cuda
