// SPDX-License-Identifier: Apache-2.0
// The folds of float32.
#include "cpu/fold/fold_table.h"

namespace sow::detail {

const FoldKernels* fold_kernels_float32(Reduce reduce) { return kernels_for<float>(reduce); }

}  // namespace sow::detail
