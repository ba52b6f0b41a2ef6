// The gradient rules that all indexed scatters share, whatever their index looks like.
#pragma once

#include "ops/op.h"

namespace sow::detail {

// How one family of operations is called: inputs are the destination, the indices and, unless it
// is a scalar, the source.
struct IndexedFamily {
  const OpDef* gather;   // destination, indices
  const OpDef* scatter;  // destination, indices, source; by attrs.reduce
  const OpDef* fill;     // the same with a scalar
  // The dimensions of the index's positions along which updates of one place lie.
  void (*items)(const Call& call, int rank, int64_t& first, int64_t& last);
};

TensorList indexed_gradient(const Backward& backward, const IndexedFamily& family);
// What it reads; `indices` has the bits of the index inputs.
uint64_t indexed_saves(const Call& call, uint64_t needs);

}  // namespace sow::detail
