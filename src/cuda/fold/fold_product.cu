// SPDX-License-Identifier: Apache-2.0
// Products of the floating and complex types: float64, in chunks of 256 in source order.
#include "cuda/block/block_fold.cuh"
#include "cuda/common/dtypes.h"
#include "cuda/fold/fold.cuh"
#include "cuda/fold/product_fold.cuh"

namespace sow::detail::cuda {

namespace {

template <class Kind>
void run_as(const Launch& launch, const Segments& segments, const FoldMemory& memory,
            const BlockArgs* block) {
  const auto fold = ProductFold<Kind>{launch.problem.include_self, launch.problem.negate};
  if (block != nullptr)
    run_block(launch, *block, fold);
  else
    run_fold(launch, segments, memory, fold);
}

}  // namespace

void fold_products(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block) {
  const DType dtype = launch.problem.dtype;
  if (dtype == DType::complex64)
    return run_as<ComplexFactor<float>>(launch, segments, memory, block);
  if (dtype == DType::complex128)
    return run_as<ComplexFactor<double>>(launch, segments, memory, block);
  with_type<float16, bfloat16, float, double>(dtype, [&](auto zero) {
    run_as<RealFactor<decltype(zero)>>(launch, segments, memory, block);
  });
}

}  // namespace sow::detail::cuda
