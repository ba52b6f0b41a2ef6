// SPDX-License-Identifier: Apache-2.0
// The folds of unsigned integers that differ from those of signed integers.
#include "cpu/fold/fold_table.h"

namespace sow::detail {

namespace {

template <class T>
const FoldKernels* ordered_kernels(Reduce reduce) {
  if (reduce == Reduce::amax) return kernels_of<T, Reduce::amax>();
  if (reduce == Reduce::amin) return kernels_of<T, Reduce::amin>();
  return kernels_of<T, Reduce::mean>();
}

}  // namespace

const FoldKernels* fold_kernels_unsigned(DType dtype, Reduce reduce) {
  if (dtype == DType::uint8) return ordered_kernels<uint8_t>(reduce);
  if (dtype == DType::uint16) return ordered_kernels<uint16_t>(reduce);
  if (dtype == DType::uint32) return ordered_kernels<uint32_t>(reduce);
  return ordered_kernels<uint64_t>(reduce);
}

}  // namespace sow::detail
