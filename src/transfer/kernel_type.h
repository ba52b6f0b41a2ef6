// SPDX-License-Identifier: Apache-2.0
// Which type's kernels give the bits that are asked for.
//
// Integers of one width share their sums, products and bitwise reductions bit for bit, because all
// of them wrap: unsigned integers need kernels of their own for extremes and means alone.
#pragma once

#include "sow/dtype.h"
#include "sow/reduce.h"

namespace sow::detail {

// As is_integer (or bool) and is_complex, which the CUDA library does not hold.
inline bool is_whole(DType dtype) { return dtype < DType::float16 || dtype >= DType::uint16; }
inline bool has_parts(DType dtype) {
  return dtype == DType::complex64 || dtype == DType::complex128;
}

inline DType signed_twin(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return DType::int8;
    case DType::uint16:
      return DType::int16;
    case DType::uint32:
      return DType::int32;
    case DType::uint64:
      return DType::int64;
    default:
      return dtype;
  }
}

inline DType kernel_type(DType dtype, Reduce reduce) {
  const bool wraps = reduce == Reduce::add || reduce == Reduce::mul || is_bitwise(reduce);
  return wraps ? signed_twin(dtype) : dtype;
}

}  // namespace sow::detail
