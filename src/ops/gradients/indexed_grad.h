// SPDX-License-Identifier: Apache-2.0
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
  // The walk over each destination's updates, in programs: what the sources get, over the index's
  // positions, and what the destinations keep. Null: the rules are composed there.
  const OpDef* walk_source = nullptr;
  const OpDef* walk_destination = nullptr;
};

Meta infer_walk_source(const Call& call, const Metas& inputs, const IndexedFamily& family);
void lower_walk_source(const Call& call, const Tensor& out, const IndexedFamily& family);
Meta infer_walk_destination(const Call& call, const Metas& inputs);
void lower_walk_destination(const Call& call, const Tensor& out, const IndexedFamily& family);

TensorList indexed_gradient(const Backward& backward, const IndexedFamily& family);
// What it reads; `indices` has the bits of the index inputs.
uint64_t indexed_saves(const Call& call, uint64_t needs);

}  // namespace sow::detail
