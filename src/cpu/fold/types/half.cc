// SPDX-License-Identifier: Apache-2.0
// The folds of float16 and bfloat16.
#include "cpu/fold/fold_table.h"

namespace sow::detail {

const FoldKernels* fold_kernels_float16(Reduce reduce) { return kernels_for<float16>(reduce); }
const FoldKernels* fold_kernels_bfloat16(Reduce reduce) { return kernels_for<bfloat16>(reduce); }

}  // namespace sow::detail
