// The choice among the instruction sets.
#include "cpu/row_tile.h"

namespace sow::detail {

FoldRowTile row_tile_kernel(DType dtype, Reduce reduce, int columns) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    const Isa isa = current_isa();
    if (isa == Isa::avx512) return row_tile_avx512(dtype, reduce, columns);
  }
  return nullptr;
}

}  // namespace sow::detail
