// SPDX-License-Identifier: Apache-2.0
// Makes the FoldKernels of one type and reduction out of the templates.
#pragma once

#include "cpu/fold/product_block.h"
#include "cpu/fold/unique_kernels.h"
#include "cpu/rows/row_chunks.h"
#include "cpu/sum/float64_fold.h"

namespace sow::detail {

template <class T, Reduce R>
const FoldKernels* kernels_of() {
  using A = Accumulator<T, R>;
  using Cell = CellLoops<T, R>;
  using Chunk = ChunkLoops<T, R>;
  static const FoldKernels kernels = [] {
    FoldKernels k{};
    k.value_size = sizeof(T);
    k.state_size = sizeof(typename A::State);
    k.direct = A::kDirect;
    k.merges = A::kMerges;
    k.negate = negate_values<T>;
    if constexpr (A::kDirect) {
      k.apply.rows = Cell::apply;
      k.apply.block = Cell::apply_to_block;
    }
    k.block.open = Cell::open_block;
    k.block.add = Cell::add_to_block;
    if constexpr (Cell::kExtreme) {
      k.block.add_often = Cell::add_often;
      k.block.add_keys = Cell::add_keys;
    }
    if constexpr (std::is_integral_v<T> && sizeof(T) >= 4 &&
                  (R == Reduce::add || R == Reduce::mean)) {
      k.block.add_keys = Cell::add_keys;
    }
    if constexpr (Cell::kExtreme && is_float_element<T>) {
      k.extremes.open = Cell::open_extremes;
      k.extremes.add = Cell::add_extremes;
      k.extremes.close = Cell::close_extremes;
    }
    k.block.finish = Cell::finish_block;
    k.block.uncounted = Cell::kUncounted;
    if constexpr (R == Reduce::mul && is_float_element<T>) {
      k.block.open = ProductBlock<T>::open;
      k.block.add = ProductBlock<T>::add;
      k.block.finish = ProductBlock<T>::finish;
    }
    k.unique.apply = UniqueLoops<T, R>::apply;
    k.unique.fold_repeated = UniqueLoops<T, R>::fold_repeated;
    k.cell.add = Cell::accumulate;
    k.cell.finish = Cell::finish;
    k.block.merge = Cell::merge;
    if constexpr (is_float_element<T> && (R == Reduce::add || R == Reduce::mul)) {
      k.plain = {Float64Fold<T, R>::kWords, Float64Fold<T, R>::run};
    }
    if constexpr (may_be_inconclusive<T, R>) {
      k.long_size = sizeof(typename A::Long);
      k.repair.begin = RepairLoops<T, R>::begin;
      k.repair.add = RepairLoops<T, R>::add;
      k.repair.clear = RepairLoops<T, R>::clear;
      k.repair.merge = RepairLoops<T, R>::merge;
      k.repair.end = RepairLoops<T, R>::end;
    }
    k.partial_size = sizeof(typename Chunk::Type);
    k.rows.fold = RowLoops<T, R>::fold_rows;
    k.rows.fold_chunk = Chunk::fold;
    k.rows.join_chunks = Chunk::join;
    return k;
  }();
  return &kernels;
}

// Every reduction of a type but assign, which goes by width.
template <class T>
const FoldKernels* kernels_for(Reduce reduce) {
  switch (reduce) {
    case Reduce::add:
      if constexpr (!is_complex_element<T>) return kernels_of<T, Reduce::add>();
      return nullptr;
    case Reduce::mul:
      return kernels_of<T, Reduce::mul>();
    case Reduce::mean:
      if constexpr (!std::is_same_v<T, BoolByte> && !is_complex_element<T>)
        return kernels_of<T, Reduce::mean>();
      return nullptr;
    case Reduce::amax:
      if constexpr (!is_complex_element<T>) return kernels_of<T, Reduce::amax>();
      return nullptr;
    case Reduce::amin:
      if constexpr (!is_complex_element<T>) return kernels_of<T, Reduce::amin>();
      return nullptr;
    default:
      return nullptr;
  }
}

// One file per group of types, so that they compile side by side.
const FoldKernels* fold_kernels_float16(Reduce reduce);
const FoldKernels* fold_kernels_bfloat16(Reduce reduce);
const FoldKernels* fold_kernels_float32(Reduce reduce);
const FoldKernels* fold_kernels_float64(Reduce reduce);
const FoldKernels* fold_kernels_complex64(Reduce reduce);
const FoldKernels* fold_kernels_complex128(Reduce reduce);
const FoldKernels* fold_kernels_integer(DType dtype, Reduce reduce);
const FoldKernels* fold_kernels_unsigned(DType dtype, Reduce reduce);
const FoldKernels* fold_kernels_bitwise(DType dtype, Reduce reduce);
const FoldKernels* fold_kernels_bool(Reduce reduce);
const FoldKernels* fold_kernels_move(size_t width);

}  // namespace sow::detail
