// Exact sums and means of the floating types.
#include "cuda/folds.h"

namespace sow::detail::cuda {

void fold_sums(const Launch& launch, const Segments& segments, const FoldMemory& memory, const BlockArgs* block) {
  switch (launch.problem.dtype) {
    case DType::float16: return fold_sums_of<float16>(launch, segments, memory, block);
    case DType::bfloat16: return fold_sums_of<bfloat16>(launch, segments, memory, block);
    case DType::float32: return fold_sums_of<float>(launch, segments, memory, block);
    default: return fold_sums_of<double>(launch, segments, memory, block);
  }
}

}  // namespace sow::detail::cuda
