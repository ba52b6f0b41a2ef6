// SPDX-License-Identifier: Apache-2.0
// The folds of bool and the moves, and the way from a type and a reduction to its kernels.
#include "cpu/fold/fold_table.h"
#include "transfer/kernel_type.h"

namespace sow::detail {

const FoldKernels* fold_kernels_bool(Reduce reduce) { return kernels_for<BoolByte>(reduce); }

const FoldKernels* fold_kernels_move(size_t width) {
  switch (width) {
    case 1:
      return kernels_of<Word<1>, Reduce::assign>();
    case 2:
      return kernels_of<Word<2>, Reduce::assign>();
    case 4:
      return kernels_of<Word<4>, Reduce::assign>();
    case 8:
      return kernels_of<Word<8>, Reduce::assign>();
    default:
      return kernels_of<Word<16>, Reduce::assign>();
  }
}

const FoldKernels* fold_kernels(DType dtype, Reduce reduce) {
  if (reduce == Reduce::assign) return fold_kernels_move(size_of(dtype));
  if (is_bitwise(reduce)) {
    if (dtype != DType::bool_ || reduce == Reduce::bit_xor)
      return is_differentiable(dtype) ? nullptr : fold_kernels_bitwise(dtype, reduce);
    reduce = reduce == Reduce::bit_or ? Reduce::add : Reduce::mul;
  }
  switch (kernel_type(dtype, reduce)) {
    case DType::bool_:
      return fold_kernels_bool(reduce);
    case DType::uint8:
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:
      return fold_kernels_unsigned(dtype, reduce);
    case DType::float16:
      return fold_kernels_float16(reduce);
    case DType::bfloat16:
      return fold_kernels_bfloat16(reduce);
    case DType::float32:
      return fold_kernels_float32(reduce);
    case DType::float64:
      return fold_kernels_float64(reduce);
    case DType::complex64:
      return fold_kernels_complex64(reduce);
    case DType::complex128:
      return fold_kernels_complex128(reduce);
    default:
      return fold_kernels_integer(kernel_type(dtype, reduce), reduce);
  }
}

}  // namespace sow::detail
