// SPDX-License-Identifier: Apache-2.0
// Lists whose rows are multiplied, in order.
#include <algorithm>

#include "cuda/common/dtypes.h"
#include "cuda/fold/product_fold.cuh"
#include "cuda/lists/lists.cuh"

namespace sow::detail::cuda {

namespace {

template <class Kind>
void multiply(const Launch& launch, const ListArgs& a) {
  launch_fold_lists(launch, a, ProductFold<Kind>{a.p.include_self, a.p.negate});
}

}  // namespace

void fold_listed_products(const Launch& launch, const ListArgs& a) {
  if (a.p.dtype == DType::complex64) return multiply<ComplexFactor<float>>(launch, a);
  if (a.p.dtype == DType::complex128) return multiply<ComplexFactor<double>>(launch, a);
  with_type<float16, bfloat16, float, double>(
      a.p.dtype, [&](auto zero) { multiply<RealFactor<decltype(zero)>>(launch, a); });
}

}  // namespace sow::detail::cuda
