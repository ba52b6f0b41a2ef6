// Launches the kernels that fold a group of items in one block, for a Fold (fold.cuh).
#pragma once

#include "cuda/block_elements.cuh"
#include "cuda/block_rows.cuh"
#include "cuda/runtime.h"

namespace sow::detail::cuda {

template <class Fold, class Kernel>
void launch_elements(const Launch& launch, const BlockArgs& a, const Fold& fold, Kernel kernel,
                     int most_threads) {
  const auto padded = [&](int64_t to) { return static_cast<size_t>((a.items + to - 1) / to * to); };
  const size_t bytes = padded(2) * 8 + padded(16) * sizeof(typename Fold::Stored) +
                       static_cast<size_t>(a.slots) * sizeof(uint32_t) +
                       static_cast<size_t>(a.bits) / 4;
  if (bytes > (46u << 10)) {  // 48 KB with what is not asked for here
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          "block");
  }
  const int threads = std::min((a.items + 31) / 32 * 32, most_threads);
  kernel<<<static_cast<unsigned>(a.groups), threads, bytes, launch.stream>>>(a, fold);
  check_launch("block");
}

template <class Fold>
void run_block(const Launch& launch, const BlockArgs& a, const Fold& fold) {
  if (a.p.columns() == 1) {
    if (!a.plain) return launch_elements(launch, a, fold, fold_elements<Fold, false, 512, 4>, 512);
    if (a.small) return launch_elements(launch, a, fold, fold_elements<Fold, true, 1024, 2>, 1024);
    // Several share a processor, and hide each other's waits.
    return launch_elements(launch, a, fold, fold_groups<Fold, 512, 4, 3>, 512);
  }
  int size = 2;
  while (size < a.items) size *= 2;
  const int64_t blocks = a.groups * a.parts * a.tiles;
  const int threads = std::min(std::max((a.items + 31) / 32 * 32, 256), kRowsThreads);
  fold_block_rows<Fold>
      <<<static_cast<unsigned>(blocks), threads, static_cast<size_t>(size) * 8, launch.stream>>>(
          a, fold);
  check_launch("block");
}

}  // namespace sow::detail::cuda
