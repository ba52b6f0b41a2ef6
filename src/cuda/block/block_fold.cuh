// SPDX-License-Identifier: Apache-2.0
// Launches the kernels that fold a group of items in one block, for a Fold (fold/fold.cuh).
#pragma once

#include "cuda/block/block_elements.cuh"
#include "cuda/block/block_rows.cuh"
#include "cuda/common/shared_memory.cuh"

namespace sow::detail::cuda {

template <auto kernel, class Fold>
void launch_elements(const Launch& launch, const BlockArgs& a, const Fold& fold, int most_threads) {
  const auto padded = [&](int64_t to) { return static_cast<size_t>((a.items + to - 1) / to * to); };
  const size_t bytes = padded(2) * 8 + padded(16) * sizeof(typename Fold::Stored) +
                       static_cast<size_t>(a.slots) * sizeof(uint32_t) +
                       static_cast<size_t>(a.bits) / 4;
  const int threads = std::min((a.items + 31) / 32 * 32, most_threads);
  launch_with_shared<kernel>(launch, a.groups, threads, bytes, a, fold);
  check_launch("block");
}

template <class Fold>
void run_block(const Launch& launch, const BlockArgs& a, const Fold& fold) {
  if (a.p.columns() == 1) {
    if (!a.plain) return launch_elements<fold_elements<Fold, false, 512, 4>>(launch, a, fold, 512);
    if (a.small) return launch_elements<fold_elements<Fold, true, 1024, 2>>(launch, a, fold, 1024);
    // Several share a processor, and hide each other's waits.
    return launch_elements<fold_groups<Fold, 512, 4, 3>>(launch, a, fold, 512);
  }
  int size = 2;
  while (size < a.items) size *= 2;
  const int64_t blocks = a.groups * a.parts * a.tiles;
  const int threads = std::min(std::max((a.items + 31) / 32 * 32, 256), kRowsThreads);
  launch_with_shared<fold_block_rows<Fold>>(launch, blocks, threads, static_cast<size_t>(size) * 8,
                                            a, fold);
  check_launch("block");
}

}  // namespace sow::detail::cuda
