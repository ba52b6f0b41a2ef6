// The folds of every type and reduction, chosen at run time.
#pragma once

#include "cuda/segments.h"

namespace sow::detail::cuda {

inline constexpr size_t kLargestPartial = 24;  // bytes of any fold's accumulator

// What folds of segments work in.
struct FoldMemory {
  char* scalar = nullptr;  // the scalar source, on the device
  void* partials = nullptr;
  uint32_t* unsettled = nullptr;
  uint32_t* any_unsettled = nullptr;
};

struct BlockArgs;  // block_fold.cuh

// With `block` a block folds each outer position, otherwise segments are folded.
void fold_sums(const Launch& launch, const Segments& segments, const FoldMemory& memory, const BlockArgs* block = nullptr);
void fold_products(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block = nullptr);
void fold_integers(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block = nullptr);

}  // namespace sow::detail::cuda
