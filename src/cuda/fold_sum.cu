// Exact sums and means of the floating types, by segments.
#include "cuda/block_fold.cuh"
#include "cuda/fold.cuh"
#include "cuda/sum_fold.cuh"

namespace sow::detail::cuda {

namespace {

template <class T>
void run_as(const Launch& launch, const Segments& segments, const FoldMemory& memory, const BlockArgs* block) {
  const Problem& p = launch.problem;
  const auto fold = SumFold<T>{p.include_self, p.negate, p.reduce == Reduce::mean};
  if (block != nullptr) run_block(launch, *block, fold);
  else run_fold(launch, segments, memory, fold);
}

}  // namespace

void fold_sums(const Launch& launch, const Segments& segments, const FoldMemory& memory, const BlockArgs* block) {
  switch (launch.problem.dtype) {
    case DType::float16: return run_as<float16>(launch, segments, memory, block);
    case DType::bfloat16: return run_as<bfloat16>(launch, segments, memory, block);
    case DType::float32: return run_as<float>(launch, segments, memory, block);
    default: return run_as<double>(launch, segments, memory, block);
  }
}

}  // namespace sow::detail::cuda
