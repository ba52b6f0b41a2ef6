// SPDX-License-Identifier: Apache-2.0
// The bitwise folds of integers, by their width; those of bool are its other reductions, but xor.
#include "cpu/fold/fold_table.h"

namespace sow::detail {

namespace {

template <class T>
const FoldKernels* bitwise_kernels(Reduce reduce) {
  if (reduce == Reduce::bit_and) return kernels_of<T, Reduce::bit_and>();
  if (reduce == Reduce::bit_or) return kernels_of<T, Reduce::bit_or>();
  return kernels_of<T, Reduce::bit_xor>();
}

}  // namespace

const FoldKernels* fold_kernels_bitwise(DType dtype, Reduce reduce) {
  if (dtype == DType::bool_ && reduce == Reduce::bit_xor)
    return kernels_of<BoolByte, Reduce::bit_xor>();
  switch (size_of(dtype)) {
    case 1:
      return bitwise_kernels<int8_t>(reduce);
    case 2:
      return bitwise_kernels<int16_t>(reduce);
    case 4:
      return bitwise_kernels<int32_t>(reduce);
    default:
      return bitwise_kernels<int64_t>(reduce);
  }
}

}  // namespace sow::detail
