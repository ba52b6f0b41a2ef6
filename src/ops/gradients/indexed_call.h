// SPDX-License-Identifier: Apache-2.0
// One recorded scatter seen through its family: the same index, other tensors.
#pragma once

#include "ops/gradients/indexed_grad.h"
#include "ops/gradients/rule_ops.h"
#include "ops/like.h"
#include "sow/math.h"

namespace sow::detail {

inline size_t source_at(const Call& call) {
  return call.attrs.scalar ? call.inputs.size() : call.inputs.size() - 1;
}

// One call seen through its family: the same index, other tensors.
class Indexed {
 public:
  Indexed(const Backward& b, const IndexedFamily& family) : b_(b), family_(family) {}

  const Tensor& x() const { return b_.input(0); }
  bool has_source() const { return !b_.call.attrs.scalar.has_value(); }
  const Tensor& source() const { return b_.call.inputs.back(); }
  Reduce reduce() const { return b_.call.attrs.reduce; }
  bool include_self() const { return b_.call.attrs.include_self; }

  Tensor gather(const Tensor& from) const {
    Call call = with_index(*family_.gather, from);
    return apply(std::move(call));
  }

  Tensor scatter(const Tensor& onto, const Source& source, Reduce reduce, bool include_self) const {
    Call call = with_index(source.is_tensor() ? *family_.scatter : *family_.fill, onto);
    if (source.is_tensor()) {
      call.inputs.push_back(source.tensor());
    } else {
      call.attrs.scalar = source.scalar();
    }
    call.attrs.reduce = reduce;
    call.attrs.include_self = include_self;
    call.attrs.accumulate = reduce == Reduce::add;
    return apply(std::move(call));
  }

  // The source over the positions of the index, which `space` has, and the way back.
  Tensor source_over(const Tensor& space) const {
    if (!has_source()) return full_like(space, *b_.call.attrs.scalar, x().dtype());
    if (is_corner()) return corner_like(source(), space);
    if (source().dim() > space.dim()) return reshape_like(source(), space);
    return expand_like(source(), space);
  }
  Tensor to_source(const Tensor& grad) const {
    if (is_corner()) return pad_like(grad, source());
    if (source().dim() > grad.dim()) return reshape_like(grad, source());
    return sum_to(grad, source());
  }

  // The shape of the index's positions; an extent of -1 depends on data.
  Dims space() const {
    const Call call = with_index(*family_.gather, x());
    Metas metas;
    for (const Tensor& input : call.inputs) metas.push_back(meta_of(input));
    return call.op->infer(call, metas).shape;
  }

  // g with zeros wherever the index points.
  Tensor cleared() const { return scatter(b_.grad, 0, Reduce::assign, true); }
  Tensor counts() const {
    const Tensor self = full_like(x(), include_self() ? 1 : 0, DType::int64);
    return scatter(self, 1, Reduce::add, true);
  }
  // Where an update is the last one of its place, over the positions.
  Tensor winners(const Tensor& space) const {
    int64_t first = 0, last = 0;
    family_.items(b_.call, space.dim(), first, last);
    const Tensor position = positions_like(space, first, last);
    const Tensor none = full_like(x(), -1, DType::int64);
    const Tensor winner = scatter(none, expand_like(position, space), Reduce::assign, true);
    return eq(gather(winner), position);
  }

  const IndexedFamily& family() const { return family_; }

  // A call of another operation on the same index.
  Call with_index(const OpDef& op, const Tensor& first) const {
    Call call;
    call.op = &op;
    call.attrs = b_.call.attrs;
    call.attrs.scalar.reset();
    call.attrs.reduce = Reduce::assign;
    call.attrs.accumulate = false;
    call.inputs.push_back(first);
    for (size_t i = 1; i < source_at(b_.call); ++i) call.inputs.push_back(b_.input(i));
    return call;
  }

 private:
  bool is_corner() const { return !b_.call.attrs.broadcast; }

  const Backward& b_;
  const IndexedFamily& family_;
};

struct Pair {
  Tensor x, source;
};

// All of an indexed scatter's gradients in one walk over each destination's updates, with the bits
// of the composed rules (indexed_walk.cc). False where the rules have to be composed.
bool walk_rule(const Backward& backward, const Indexed& call, bool wants_source, Pair& out);

}  // namespace sow::detail
