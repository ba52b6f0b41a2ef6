// SPDX-License-Identifier: Apache-2.0
// index_put and index_get: one index tensor per leading axis, broadcast together; a bool mask
// stands for the coordinates of its trues.
#include <algorithm>

#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/families/masked.h"
#include "ops/gradients/indexed_grad.h"
#include "ops/gradients/rules.h"
#include "ops/shapes.h"
#include "sow/autograd.h"

namespace sow {
namespace detail {
namespace {

// How the indices divide x's dimensions. Inputs are x, the indices and, last, a tensor value.
struct Layout {
  Dims x;                     // 0-d counts as [1]
  std::vector<int64_t> axes;  // the first axis each index addresses
  size_t addressed = 0;       // leading axes of x that indices address
  Dims index;                 // the common shape of the indices; -1 where a mask's count stands
};

size_t count_indices(const Call& call) {
  const bool has_value = call.op == &kIndexPut && !call.attrs.scalar;
  return call.inputs.size() - 1 - (has_value ? 1 : 0);
}

void expect_mask_shape(const Call& call, const Layout& layout, int64_t axis, const Dims& mask) {
  const Dims own(layout.x.data() + axis, mask.size());
  if (!may_equal(mask, own)) {
    fail(ErrorKind::shape,
         "{}: a mask of shape {} stands for axes {} to {} of x, which have shape {}; they must be "
         "equal",
         op_name(call), mask, axis, axis + mask.rank() - 1, own);
  }
}

// `count` is what a mask's coordinates are long; -1 while only types and shapes are known.
Layout layout_of(const Call& call, const Metas& inputs, const std::vector<int64_t>& counts) {
  const char* op = op_name(call);
  Layout layout;
  layout.x = at_least_1d(inputs[0].shape);
  for (size_t i = 0; i < count_indices(call); ++i) {
    const Meta& index = inputs[1 + i];
    const bool mask = index.dtype == DType::bool_;
    const size_t axes = mask ? std::max<size_t>(index.shape.size(), 1) : 1;
    const int64_t axis = static_cast<int64_t>(layout.addressed);
    layout.axes.push_back(axis);
    layout.addressed += axes;
    if (layout.addressed > layout.x.size()) {
      fail(ErrorKind::shape, "{}: the indices address {} axes or more, but x {} has only {}", op,
           layout.addressed, inputs[0].shape, inputs[0].shape.size());
    }
    Dims shape = index.shape;
    if (mask) {
      expect_mask_shape(call, layout, axis, at_least_1d(index.shape));
      shape = {counts[i]};
    } else {
      expect_held_size(op, call.attrs.shape[i], axis, layout.x[axis]);
    }
    Dims common;
    if (!broadcast_shapes(layout.index, shape, common)) {
      fail(ErrorKind::shape, "{}: indices[{}] {} does not broadcast with the indices before it {}",
           op, i, shape, layout.index);
    }
    layout.index = common;
  }
  return layout;
}

void expect_value_shape(const Call& call, const Dims& value, const Dims& space) {
  if (!broadcasts_to(value, space)) {
    fail(ErrorKind::shape,
         "{}: value {} does not broadcast to shape {} (the indices' shape, then the axes of x that "
         "none addresses)",
         op_name(call), value, space);
  }
}

Dims space_of(const Layout& layout) {
  return concat(layout.index, tail(layout.x, layout.addressed));
}

void expect_indices(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  const size_t count = count_indices(call);
  if (count == 0) fail(ErrorKind::argument, "{}: there are no indices; it needs at least one", op);
  for (size_t i = 0; i < count; ++i) {
    if (inputs[1 + i].dtype != DType::bool_) expect_index_dtype(op, inputs[1 + i].dtype);
  }
}

Meta infer_index_put(const Call& call, const Metas& inputs) {
  const size_t count = count_indices(call);
  expect_indices(call, inputs);
  expect_source_dtype(call, "x", "value", inputs, 1 + count);
  expect_reducible(op_name(call), call.attrs.reduce, inputs[0].dtype);
  const Layout layout = layout_of(call, inputs, std::vector<int64_t>(count, -1));
  if (!call.attrs.scalar) expect_value_shape(call, inputs.back().shape, space_of(layout));
  return inputs[0];
}

// -- lowering
// ------------------------------------------------------------------------------------------

Metas metas_of(const TensorList& tensors) {
  Metas out;
  for (const Tensor& tensor : tensors) out.push_back(meta_of(tensor));
  return out;
}

// The indices as operands that address `target`, x's shape; masks become columns of coordinates.
struct Coordinates {
  Layout layout;
  Dims space;
  bool only_masks = true;
  TensorList columns;  // keeps the coordinates' memory
  IndexOperands operands;
};

void add_operand(Coordinates& to, const Tensor& index, size_t which, int64_t axis,
                 const Tensor& target) {
  const Dims shape = at_least_1d(target.shape());
  const Dims strides = at_least_1d(target.strides());
  Dims over = broadcast_strides(index.shape(), index.strides(), to.layout.index);
  over.resize(to.space.size());
  to.operands.push_back(index_operand(index, over, axis, shape[axis], strides[axis]));
  to.operands.back().component = static_cast<int>(which);
  to.operands.back().separate = true;
}

Coordinates coordinates_for(const Call& call, const Tensor& target) {
  const size_t count = count_indices(call);
  Coordinates out;
  std::vector<int64_t> counts(count, -1);
  out.columns.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& index = call.inputs[1 + i];
    if (index.dtype() != DType::bool_) {
      out.only_masks = false;
      continue;
    }
    const Tensor mask = index.dim() == 0 ? make_view(index, 0, {1}, {1}) : index;
    out.columns[i] = coordinates_of(mask, counts[i]);
  }
  out.layout = layout_of(call, metas_of(call.inputs), counts);
  out.space = space_of(out.layout);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& columns = out.columns[i];
    if (!columns.defined()) {
      add_operand(out, call.inputs[1 + i], i, out.layout.axes[i], target);
      continue;
    }
    const int64_t width = columns.shape()[1];
    for (int64_t k = 0; k < width; ++k) {
      const Tensor column = make_view(columns, k, {counts[i]}, {width});
      add_operand(out, column, i, out.layout.axes[i] + k, target);
    }
  }
  return out;
}

// Strides of the addressed tensor: nothing along the indices, then those of the other axes.
Dims rest_strides(const Coordinates& at, const Tensor& target) {
  return concat(Dims(at.layout.index.size(), 0),
                tail(at_least_1d(target.strides()), at.layout.addressed));
}

void lower_by_coordinates(const Call& call, const Tensor& out) {
  Coordinates at = coordinates_for(call, out);
  const Tensor* value = source_of(call, 1 + count_indices(call));
  if (value != nullptr) expect_value_shape(call, value->shape(), at.space);

  copy_into(out, call.inputs[0], op_name(call));
  Transfer transfer = transfer_for(call, out, at.space);
  if (at.only_masks) transfer.bounds = Bounds::promise;  // coordinates of our own making
  transfer.dst = operand(out, rest_strides(at, out));
  transfer.dst_index = std::move(at.operands);
  set_source(transfer, call, value, expanded_strides(value, at.space));
  execute(transfer, out.device());
}

// One mask and nothing to add up: the value goes straight under the mask, in one pass. Only a value
// with an element for every true makes the host wait for the count.
void lower_one_mask(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  const Tensor& mask = call.inputs[1];
  const Dims shape = at_least_1d(out.shape());
  const Dims mask_shape = at_least_1d(mask.shape());
  const Dims rest = tail(shape, mask_shape.size());
  const Tensor* value = source_of(call, 2);

  Transfer transfer = transfer_for(call, out, shape);
  transfer.dst = operand(out, at_least_1d(out.strides()));
  Dims mask_strides = at_least_1d(mask.strides());
  mask_strides.resize(shape.size());
  transfer.mask = operand(mask, mask_strides);
  if (!call.in_place) transfer.base = operand(x, at_least_1d(x.strides()));

  Tensor dense;
  CountedMask counted;
  if (value == nullptr || broadcasts_to(value->shape(), concat({1}, rest))) {
    transfer.mask_side = MaskSide::skip;
    Dims strides(shape.size(), 0);
    if (value != nullptr) {
      const Dims own = broadcast_strides(value->shape(), value->strides(), concat({1}, rest));
      for (size_t d = 0; d < rest.size(); ++d) strides[mask_shape.size() + d] = own[1 + d];
    }
    set_source(transfer, call, value, strides);
  } else {
    counted = count_mask(mask, true);
    const Dims space = concat({counted.count}, rest);
    expect_value_shape(call, value->shape(), space);
    dense = make_view(*value, 0, space, expanded_strides(value, space)).contiguous();
    transfer.mask_side = MaskSide::source;
    transfer.src = operand(dense, Dims(shape.size(), 0));
    transfer.rank_limit = dense.numel();
    if (counted.ranks.defined() && counted.bytes.numel() == mask.numel())
      transfer.mask_ranks = counted.ranks.data();
  }
  execute(transfer, out.device());
}

void lower_index_put(const Call& call, const Tensor& out) {
  const bool one_mask = count_indices(call) == 1 && call.inputs[1].dtype() == DType::bool_;
  if (one_mask && call.attrs.reduce == Reduce::assign) return lower_one_mask(call, out);
  lower_by_coordinates(call, out);
}

// -- index_get: what index_put would write over
// -------------------------------------------

Meta infer_index_get(const Call& call, const Metas& inputs) {
  expect_indices(call, inputs);
  const std::vector<int64_t> counts(count_indices(call), -1);
  Meta out = inputs[0];
  out.shape = space_of(layout_of(call, inputs, counts));
  return out;
}

Tensor index_get_now(const Call& call) {
  const Tensor& x = call.inputs[0];
  Coordinates at = coordinates_for(call, x);
  const Tensor out = Tensor::empty(at.space, x.dtype(), x.device());
  Transfer transfer = transfer_for(call, out, at.space);
  transfer.reduce = Reduce::assign;
  transfer.order = nullptr;  // it is of a destination
  if (at.only_masks) transfer.bounds = Bounds::promise;
  transfer.dst = operand(out, out.strides());
  transfer.src = operand(x, rest_strides(at, x));
  transfer.src_index = std::move(at.operands);
  execute(transfer, out.device());
  return out;
}

}  // namespace

const OpDef kIndexPut{.name = "index_put",
                      .in_place_name = "index_put_",
                      .infer = infer_index_put,
                      .lower = lower_index_put,
                      .gradient = grad_index_put,
                      .saves = indexed_saves};
const OpDef kIndexGet{.name = "index_get",
                      .in_place_name = nullptr,
                      .infer = infer_index_get,
                      .dynamic = index_get_now,
                      .gradient = grad_index_get,
                      .saves = saves_index};

namespace {

// The policy and order of all indices as one; masks have neither.
void add_indices(Call& call, const std::vector<Index>& indices) {
  const Index* first = nullptr;
  for (const Index& index : indices) {
    call.inputs.push_back(index_keys(index.keys()));
    call.attrs.shape.push_back(index.held() ? index.size() : -1);
    if (index.keys().defined() && index.keys().dtype() == DType::bool_) continue;
    if (first == nullptr) first = &index;
    if (index.bounds() != first->bounds()) {
      fail(ErrorKind::argument, "{}: the indices have different bounds policies; they must agree",
           op_name(call));
    }
  }
  if (first != nullptr) call.attrs.bounds = first->bounds();
  if (indices.size() == 1) call.attrs.order = indices[0].order();
}

// What happens where values meet.
struct Rule {
  Reduce reduce;
  bool include_self;
};

Rule rule_of(const char* op, bool accumulate, const std::optional<ReduceName>& reduce,
             bool include_self) {
  const Reduce usual = accumulate ? Reduce::add : Reduce::assign;
  const Reduce chosen = reduce ? reduce->value() : usual;
  if (accumulate && chosen != Reduce::add) {
    fail(ErrorKind::argument, "{}: accumulate adds, but reduce is {}; leave one of them out", op,
         name_of(chosen));
  }
  return {chosen, include_self || chosen == Reduce::assign};
}

Tensor put_call(bool in_place, const Tensor& x, const std::vector<Index>& indices,
                const Source& value, Rule rule) {
  Call call = make_call(kIndexPut, in_place, x);
  add_indices(call, indices);
  call.attrs.reduce = rule.reduce;
  call.attrs.include_self = rule.include_self;
  call.attrs.accumulate = rule.reduce == Reduce::add;
  add_source(call, value);
  return apply(std::move(call));
}

// -- axes that are left out
// -------------------------------------------

bool leaves_axes_out(const std::vector<Index>& indices) {
  return std::any_of(indices.begin(), indices.end(),
                     [](const Index& index) { return index.is_whole_axis(); });
}

// x with the indexed axes in front. The indices' own dimensions stand where their axes do if those
// are neighbours, else in front, as in NumPy and torch.
struct Turned {
  Tensor x;
  std::vector<Index> indices;
  Dims order;          // of x's axes
  int64_t before = 0;  // how many axes of x come before the indices' dimensions
  int64_t rank = 0;    // of the indices, broadcast together
};

Turned turn(const char* op, const Tensor& x, const std::vector<Index>& indices) {
  Turned out;
  Dims rest;
  bool left = false, together = true;
  int64_t axis = 0;
  for (const Index& index : indices) {
    const Tensor& keys = index.keys();
    const bool mask = !index.is_whole_axis() && keys.defined() && keys.dtype() == DType::bool_;
    const int64_t axes = mask ? std::max(keys.dim(), 1) : 1;
    if (axis + axes > std::max(x.dim(), 1)) {
      fail(ErrorKind::shape, "{}: the indices address {} axes or more, but x {} has only {}", op,
           axis + axes, x.shape(), x.dim());
    }
    if (index.is_whole_axis()) {
      left = left || !out.indices.empty();
      rest.push_back(axis++);
      continue;
    }
    if (left) together = false;
    if (out.indices.empty()) out.before = axis;
    for (int64_t i = 0; i < axes; ++i) out.order.push_back(axis++);
    out.rank = std::max<int64_t>(out.rank, mask || !keys.defined() ? 1 : keys.dim());
    out.indices.push_back(index);
  }
  if (out.indices.empty()) {
    fail(ErrorKind::argument, "{}: there are no indices; it needs at least one", op);
  }
  if (!together) out.before = 0;
  for (; axis < x.dim(); ++axis) rest.push_back(axis);
  for (const int64_t other : rest) out.order.push_back(other);
  out.x = x.permute(out.order);
  return out;
}

Dims inverse(const Dims& order) {
  Dims back(order.size(), 0);
  for (int d = 0; d < order.rank(); ++d) back[order[d]] = d;
  return back;
}

// Where each dimension of what the indices address goes once theirs are in front.
Dims to_front(const Turned& turned, int64_t rank) {
  Dims order;
  for (int64_t d = 0; d < turned.rank; ++d) order.push_back(turned.before + d);
  for (int64_t d = 0; d < rank; ++d) {
    if (d < turned.before || d >= turned.before + turned.rank) order.push_back(d);
  }
  return order;
}

Source turned_value(const Turned& turned, const Source& value) {
  if (!value.is_tensor() || !value.tensor().defined() || turned.before == 0) return value;
  int64_t axes = 0;  // that indices address
  for (const Index& index : turned.indices) {
    const bool mask = index.keys().defined() && index.keys().dtype() == DType::bool_;
    axes += mask ? std::max(index.keys().dim(), 1) : 1;
  }
  const int64_t rank = turned.rank + turned.x.dim() - axes;
  Tensor tensor = value.tensor();
  if (tensor.dim() > rank) return value;  // which index_put refuses
  while (tensor.dim() < rank) tensor = unsqueeze(tensor, 0);
  return Source(tensor.permute(to_front(turned, rank)));
}

}  // namespace
}  // namespace detail

Tensor index_get(const Tensor& x, const std::vector<Index>& indices) {
  if (detail::leaves_axes_out(indices)) {
    const detail::Turned turned = detail::turn(detail::kIndexGet.name, x, indices);
    const Tensor found = index_get(turned.x, turned.indices);
    return found.permute(detail::inverse(detail::to_front(turned, found.dim()))).contiguous();
  }
  detail::Call call = detail::make_call(detail::kIndexGet, false, x);
  detail::add_indices(call, indices);
  return detail::apply(std::move(call));
}

Tensor index_put(const Tensor& x, const std::vector<Index>& indices, const Source& value,
                 bool accumulate, std::optional<ReduceName> reduce, bool include_self) {
  const char* op = detail::kIndexPut.name;
  const detail::Rule rule = detail::rule_of(op, accumulate, reduce, include_self);
  if (!detail::leaves_axes_out(indices)) return detail::put_call(false, x, indices, value, rule);
  const detail::Turned turned = detail::turn(op, x, indices);
  const Tensor out =
      detail::put_call(false, turned.x, turned.indices, detail::turned_value(turned, value), rule);
  return out.permute(detail::inverse(turned.order)).contiguous();
}

Tensor index_put_(const Tensor& x, const std::vector<Index>& indices, const Source& value,
                  bool accumulate, std::optional<ReduceName> reduce, bool include_self) {
  const char* op = detail::kIndexPut.in_place_name;
  const detail::Rule rule = detail::rule_of(op, accumulate, reduce, include_self);
  if (!detail::leaves_axes_out(indices)) return detail::put_call(true, x, indices, value, rule);
  const bool values_recorded =
      value.is_tensor() && value.tensor().defined() && value.tensor().requires_grad();
  // What autograd records is not written through a view.
  if (grad_enabled() && (x.requires_grad() || values_recorded)) {
    return x.copy_(index_put(x, indices, value, accumulate, reduce, include_self));
  }
  const detail::Turned turned = detail::turn(op, x, indices);
  detail::put_call(true, turned.x, turned.indices, detail::turned_value(turned, value), rule);
  return x;
}

}  // namespace sow
