// Lists whose rows are added up, exactly.
#include <algorithm>

#include "cuda/common/dtypes.h"
#include "cuda/lists/lists.cuh"
#include "cuda/sum/sum_fold.cuh"

namespace sow::detail::cuda {

void fold_listed_sums(const Launch& launch, const ListArgs& a) {
  with_type<float16, bfloat16, float, double>(a.p.dtype, [&](auto zero) {
    launch_fold_lists(
        launch, a,
        SumFold<decltype(zero)>{a.p.include_self, a.p.negate, a.p.reduce == Reduce::mean});
  });
}

}  // namespace sow::detail::cuda
