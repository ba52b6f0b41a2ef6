// SPDX-License-Identifier: Apache-2.0
// The folds of float64.
#include "cpu/fold/fold_table.h"

namespace sow::detail {

const FoldKernels* fold_kernels_float64(Reduce reduce) { return kernels_for<double>(reduce); }

}  // namespace sow::detail
