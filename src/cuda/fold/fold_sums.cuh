// SPDX-License-Identifier: Apache-2.0
// Exact sums and means of one floating type, by segments or by blocks; each type is compiled in a
// file of its own to keep builds short.
#pragma once

#include "cuda/block/block_fold.cuh"
#include "cuda/fold/fold.cuh"
#include "cuda/sum/sum_fold.cuh"

namespace sow::detail::cuda {

template <class T>
void fold_sums_of(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                  const BlockArgs* block) {
  const Problem& p = launch.problem;
  const auto fold = SumFold<T>{p.include_self, p.negate, p.reduce == Reduce::mean};
  if (block != nullptr)
    run_block(launch, *block, fold);
  else
    run_fold(launch, segments, memory, fold);
}

}  // namespace sow::detail::cuda
