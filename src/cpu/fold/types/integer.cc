// SPDX-License-Identifier: Apache-2.0
// The folds of the signed integers.
#include "cpu/fold/fold_table.h"

namespace sow::detail {

const FoldKernels* fold_kernels_integer(DType dtype, Reduce reduce) {
  switch (dtype) {
    case DType::int8:
      return kernels_for<int8_t>(reduce);
    case DType::int16:
      return kernels_for<int16_t>(reduce);
    case DType::int32:
      return kernels_for<int32_t>(reduce);
    default:
      return kernels_for<int64_t>(reduce);
  }
}

}  // namespace sow::detail
