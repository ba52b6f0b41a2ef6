// SPDX-License-Identifier: Apache-2.0
// What the kernels of gradients share: their arguments, and the walk over positions and columns.
#pragma once

#include "cuda/backward/backward.h"
#include "cuda/common/decode.cuh"
#include "cuda/common/dtypes.h"
#include "cuda/common/vector.cuh"
#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

// Everything of the destination's shape is indexed by its offsets, everything of the source's by
// theirs.
template <class T>
struct BackwardArgs {
  Problem p;
  int64_t positions, columns;
  bool include_self;
  int64_t elements;  // of the destination
  const T* grad;
  const T* result;
  const T* x;
  const T* source;
  T* x_grad;
  T* source_grad;
  uint32_t* shares;  // how many take part: by place for a mean, by element for an extreme
  T* part;           // what each of them gets, by element
  uint8_t* attains;  // a bit for each element of a group
};

template <class T>
BackwardArgs<T> backward_args(const IndexedBackward& work, const Problem& p, int64_t elements) {
  const auto at = [](const char* data) { return reinterpret_cast<const T*>(data); };
  BackwardArgs<T> a = {};
  a.p = p;
  a.positions = p.positions();
  a.columns = p.columns();
  a.include_self = work.include_self;
  a.elements = elements;
  a.grad = at(work.grad);
  a.result = at(work.result);
  a.x = at(work.x);
  a.source = at(work.source);
  a.x_grad = reinterpret_cast<T*>(work.x_grad);
  a.source_grad = reinterpret_cast<T*>(work.source_grad);
  return a;
}

// Groups of V neighbouring columns of one position, position by position.
template <class T, int V, class F>
__device__ void for_each_group(const BackwardArgs<T>& a, F&& f) {
  const Problem& p = a.p;
  const bool simple = is_simple(p);
  const int64_t groups = a.columns / V, count = a.positions * groups;
  const bool fits_32_bits = count <= UINT32_MAX;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    const int64_t position =
        fits_32_bits ? static_cast<uint32_t>(i) / static_cast<uint32_t>(groups) : i / groups;
    int64_t src = 0;
    bool bad = false;
    const int64_t place = place_of(p, simple, position, src, bad);
    const Column column = column_at(p, (i - position * groups) * V);
    f(i, place, place < 0 ? 0 : offset_of_place(p, place) + column.dst, src + column.src);
  }
}

template <class T, int V>
__device__ Pack<T, V> load(const T* data, int64_t offset) {
  return *reinterpret_cast<const Pack<T, V>*>(data + offset);
}

// Whether rows are read and written in groups of four.
inline bool is_dense(const Problem& p) {
  return p.row_dst == 1 && p.row_src == 1 && p.row % 4 == 0;
}

// Of rows, by sorting (backward_rows.cu); false where it cannot.
bool run_rows_backward(const CudaContext& context, const IndexedBackward& work,
                       const Transfer& places, const Canonical& canonical, const Problem& p,
                       int64_t elements);
// Of a mask, given the Transfer that compresses the gradient (backward_mask.cu); false where it
// cannot.
bool run_mask_backward(const CudaContext& context, const IndexedBackward& work,
                       const Transfer& compress);
// Of an assign (backward_assign.cu).
bool run_assign_backward(const CudaContext& context, const IndexedBackward& work, const Problem& p);
// The gradient of a product (backward_product.cu).
bool run_product_backward(const CudaContext& context, const IndexedBackward& work,
                          const Transfer& places, const Problem& p, int64_t elements);

}  // namespace sow::detail::cuda
