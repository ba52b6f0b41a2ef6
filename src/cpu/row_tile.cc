// The choice among the instruction sets.
#include "cpu/row_tile.h"

#include "cpu/extreme_grad.h"

namespace sow::detail {

int row_shift(const void* src, int64_t src_step, int columns) {
  const int shift = static_cast<int>(reinterpret_cast<uintptr_t>(src) % 64);
  return columns == kTileColumns && src_step % 64 == 0 && shift % 4 == 0 ? shift : 0;
}

FoldRowTile row_tile_kernel(DType dtype, Reduce reduce, int columns, int shift) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return row_tile_avx512(dtype, reduce, columns, shift);
    if (current_isa() == Isa::avx2) return row_tile_avx2(dtype, reduce, columns);
  }
  return nullptr;
}

ExtremeGradKernel extreme_grad_kernel(DType dtype, int shift) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() == Isa::avx512) return extreme_grad_avx512(dtype, shift);
  }
  return nullptr;
}

}  // namespace sow::detail
