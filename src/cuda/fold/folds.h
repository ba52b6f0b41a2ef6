// SPDX-License-Identifier: Apache-2.0
// The folds of every type and reduction, chosen at run time.
#pragma once

#include "cuda/sort/segments.h"
#include "sow/half.h"
#include "transfer/kernel_type.h"

namespace sow::detail::cuda {

inline constexpr size_t kLargestPartial = 24;  // bytes of any fold's accumulator

// A segment whose sum was inconclusive in some lanes of a tile of columns.
struct Inconclusive {
  Head head;
  uint32_t lanes;
  int64_t tile;
};

// What folds of segments work in.
struct FoldMemory {
  char* scalar = nullptr;  // the scalar source, on the device
  void* partials = nullptr;
  uint32_t* inconclusive = nullptr;
  uint32_t* any_inconclusive = nullptr;
  Inconclusive* repairs = nullptr;
};

struct BlockArgs;  // block_args.cuh

// With `block` a thread block folds each outer position, otherwise segments are folded.
void fold_sums(const Launch& launch, const Segments& segments, const FoldMemory& memory,
               const BlockArgs* block = nullptr);
template <class T>
void fold_sums_of(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                  const BlockArgs* block);
void fold_products(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block = nullptr);
void fold_extremes(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block = nullptr);
void fold_integers(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block = nullptr);

inline void fold_all(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                     const BlockArgs* block = nullptr) {
  const DType dtype = launch.problem.dtype;
  const Reduce reduce = launch.problem.reduce;
  if (is_whole(dtype)) return fold_integers(launch, segments, memory, block);
  if (reduce == Reduce::add || reduce == Reduce::mean)
    return fold_sums(launch, segments, memory, block);
  if (reduce == Reduce::mul) return fold_products(launch, segments, memory, block);
  if (dtype == DType::float64) return fold_integers(launch, segments, memory, block);
  return fold_extremes(launch, segments, memory, block);
}

}  // namespace sow::detail::cuda
