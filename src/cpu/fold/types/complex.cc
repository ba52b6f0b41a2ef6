// SPDX-License-Identifier: Apache-2.0
// The folds of complex64 and complex128.
#include "cpu/fold/fold_table.h"

namespace sow::detail {

const FoldKernels* fold_kernels_complex64(Reduce reduce) {
  return kernels_for<std::complex<float>>(reduce);
}
const FoldKernels* fold_kernels_complex128(Reduce reduce) {
  return kernels_for<std::complex<double>>(reduce);
}

}  // namespace sow::detail
