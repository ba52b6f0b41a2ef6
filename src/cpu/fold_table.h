// Makes the FoldKernels of one type and reduction out of the templates.
#pragma once

#include "cpu/plain_sums.h"
#include "cpu/row_chunks.h"
#include "cpu/singles_kernels.h"

namespace sow::detail {

template <class T, Reduce R>
const FoldKernels* kernels_of() {
  using A = Accumulator<T, R>;
  using Cell = CellKernels<T, R>;
  using Chunk = ChunkKernels<T, R>;
  static const FoldKernels kernels = [] {
    FoldKernels k{};
    k.value_size = sizeof(T);
    k.state_size = sizeof(typename A::State);
    k.direct = A::kDirect;
    k.merges = A::kMerges;
    k.negate = negate_values<T>;
    if constexpr (A::kDirect) {
      k.apply = Cell::apply;
      k.apply_to_block = Cell::apply_to_block;
    }
    k.open_block = Cell::open_block;
    k.add_to_block = Cell::add_to_block;
    if constexpr (Cell::kExtreme) {
      k.add_often = Cell::add_often;
      k.add_keys = Cell::add_keys;
    }
    if constexpr (std::is_integral_v<T> && sizeof(T) >= 4 &&
                  (R == Reduce::add || R == Reduce::mean)) {
      k.add_keys = Cell::add_keys;
    }
    if constexpr (Cell::kExtreme && is_float_element<T>) {
      k.open_extremes = Cell::open_extremes;
      k.add_extremes = Cell::add_extremes;
      k.close_extremes = Cell::close_extremes;
    }
    k.finish_block = Cell::finish_block;
    k.apply_singles = SinglesKernels<T, R>::apply;
    k.fold_again = SinglesKernels<T, R>::fold_again;
    k.accumulate = Cell::accumulate;
    k.finish = Cell::finish;
    k.merge = Cell::merge;
    if constexpr (is_float_element<T> && sizeof(T) < sizeof(double) && R == Reduce::add) {
      k.sum_plainly = PlainSums<T>::run;
    }
    if constexpr (may_refuse<T, R>) {
      k.long_size = sizeof(typename A::Long);
      k.repair_begin = RepairKernels<T, R>::begin;
      k.repair_add = RepairKernels<T, R>::add;
      k.repair_clear = RepairKernels<T, R>::clear;
      k.repair_merge = RepairKernels<T, R>::merge;
      k.repair_end = RepairKernels<T, R>::end;
    }
    k.partial_size = sizeof(typename Chunk::Type);
    k.fold_rows = RowKernels<T, R>::fold_rows;
    k.fold_chunk = Chunk::fold;
    k.join_chunks = Chunk::join;
    return k;
  }();
  return &kernels;
}

// Every reduction of a type but assign, which goes by width.
template <class T>
const FoldKernels* kernels_for(Reduce reduce) {
  switch (reduce) {
    case Reduce::add:
      return kernels_of<T, Reduce::add>();
    case Reduce::mul:
      return kernels_of<T, Reduce::mul>();
    case Reduce::mean:
      if constexpr (!std::is_same_v<T, BoolByte>) return kernels_of<T, Reduce::mean>();
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

// One file a group of types, so that they compile side by side.
const FoldKernels* fold_kernels_float16(Reduce reduce);
const FoldKernels* fold_kernels_bfloat16(Reduce reduce);
const FoldKernels* fold_kernels_float32(Reduce reduce);
const FoldKernels* fold_kernels_float64(Reduce reduce);
const FoldKernels* fold_kernels_complex64(Reduce reduce);
const FoldKernels* fold_kernels_complex128(Reduce reduce);
const FoldKernels* fold_kernels_integer(DType dtype, Reduce reduce);
const FoldKernels* fold_kernels_bool(Reduce reduce);
const FoldKernels* fold_kernels_move(size_t width);

}  // namespace sow::detail
