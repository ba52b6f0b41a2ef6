// SPDX-License-Identifier: Apache-2.0
// Views that never copy: diagonal, select, slice, broadcast_to, unsqueeze, transpose, permute,
// flip.
#include "ops/families/views.h"

#include "ops/defs.h"
#include "ops/gradients/rules.h"
#include "ops/shapes.h"

namespace sow {
namespace detail {
namespace {

using PartOf = Part (*)(const Call&, const char*, const Dims&, const Dims&);

template <PartOf part_of>
Meta infer_part(const Call& call, const Metas& inputs) {
  Meta out = inputs[0];
  out.shape = part_of(call, "x", inputs[0].shape, {}).shape;
  return out;
}

template <PartOf part_of>
Tensor view_part(const Call& call) {
  const Tensor& x = call.inputs[0];
  return view_of(x, part_of(call, "x", x.shape(), x.strides()));
}

template <PartOf part_of>
constexpr OpDef view_def(const char* name, decltype(OpDef::gradient) gradient) {
  return {.name = name,
          .in_place_name = nullptr,
          .infer = infer_part<part_of>,
          .view = view_part<part_of>,
          .gradient = gradient};
}

Part broadcast_part(const Call& call, const char* name, const Dims& shape, const Dims& strides) {
  const Dims& to = call.attrs.shape;
  checked_numel(to, 1, op_name(call));
  if (!broadcasts_to(shape, to)) {
    fail(ErrorKind::shape, "{}: {} {} does not broadcast to shape {}", op_name(call), name, shape,
         to);
  }
  return {0, to, strides.size() == shape.size() ? broadcast_strides(shape, strides, to) : Dims()};
}

Part unsqueeze_part(const Call& call, const char*, const Dims& shape, const Dims& strides) {
  const int64_t axis = wrap_axis(op_name(call), call.attrs.axis, shape.rank() + 1);
  Part part{0, shape, strides};
  part.shape.insert(static_cast<size_t>(axis), 1);
  if (strides.size() != shape.size()) return part;
  part.strides.insert(static_cast<size_t>(axis),
                      axis < shape.rank() ? shape[axis] * strides[axis] : 1);
  return part;
}

Part permute_part(const Call& call, const char* name, const Dims& shape, const Dims& strides) {
  const Dims& order = call.attrs.shape;
  Part part;
  Dims seen(shape.size(), 0);
  for (const int64_t given : order) {
    if (order.size() != shape.size()) break;
    const int64_t axis = wrap_axis(op_name(call), given, shape.rank());
    if (seen[axis]++ != 0) break;
    part.shape.push_back(shape[axis]);
    if (!strides.empty()) part.strides.push_back(strides[axis]);
  }
  if (part.shape.size() != shape.size() || order.size() != shape.size()) {
    fail(ErrorKind::argument, "{}: order {} does not name every axis of {} {} once", op_name(call),
         order, name, shape);
  }
  return part;
}

Part transpose_part(const Call& call, const char*, const Dims& shape, const Dims& strides) {
  const int64_t axis1 = wrap_axis(op_name(call), call.attrs.axis, shape.rank());
  const int64_t axis2 = wrap_axis(op_name(call), call.attrs.axis2, shape.rank());
  Part part{0, shape, strides};
  for (Dims* dims : {&part.shape, &part.strides}) {
    if (!dims->empty()) std::swap((*dims)[axis1], (*dims)[axis2]);
  }
  return part;
}

Part flip_part(const Call& call, const char*, const Dims& shape, const Dims& strides) {
  const int64_t axis = wrap_axis(op_name(call), call.attrs.axis, shape.rank());
  Part part{0, shape, strides};
  if (strides.empty() || shape[axis] == 0) return part;
  part.offset = (shape[axis] - 1) * strides[axis];
  part.strides[axis] = -strides[axis];
  return part;
}

}  // namespace

const OpDef kDiagonal = view_def<diagonal_part>("diagonal", grad_part);
const OpDef kSelect = view_def<select_part>("select", grad_part);
const OpDef kSlice = view_def<slice_part>("slice", grad_part);
const OpDef kBroadcastTo = view_def<broadcast_part>("broadcast_to", grad_broadcast_to);
const OpDef kUnsqueeze = view_def<unsqueeze_part>("unsqueeze", grad_unsqueeze);
const OpDef kPermute = view_def<permute_part>("permute", grad_permute);
const OpDef kTranspose = view_def<transpose_part>("transpose", grad_self_inverse);
const OpDef kFlip = view_def<flip_part>("flip", grad_self_inverse);

}  // namespace detail

Tensor diagonal(const Tensor& x, int64_t offset, int64_t axis1, int64_t axis2) {
  detail::Call call = detail::make_call(detail::kDiagonal, false, x);
  call.attrs.offset = offset;
  call.attrs.axis = axis1;
  call.attrs.axis2 = axis2;
  return detail::apply(std::move(call));
}

Tensor select(const Tensor& x, int64_t axis, int64_t position) {
  detail::Call call = detail::make_call(detail::kSelect, false, x);
  call.attrs.axis = axis;
  call.attrs.start = position;
  return detail::apply(std::move(call));
}

Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  detail::Call call = detail::make_call(detail::kSlice, false, x);
  call.attrs.axis = axis;
  call.attrs.start = start;
  call.attrs.stop = stop;
  call.attrs.step = step;
  return detail::apply(std::move(call));
}

Tensor broadcast_to(const Tensor& x, const Dims& shape) {
  detail::Call call = detail::make_call(detail::kBroadcastTo, false, x);
  call.attrs.shape = shape;
  return detail::apply(std::move(call));
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  detail::Call call = detail::make_call(detail::kUnsqueeze, false, x);
  call.attrs.axis = axis;
  return detail::apply(std::move(call));
}

Tensor transpose(const Tensor& x, int64_t axis1, int64_t axis2) {
  detail::Call call = detail::make_call(detail::kTranspose, false, x);
  call.attrs.axis = axis1;
  call.attrs.axis2 = axis2;
  return detail::apply(std::move(call));
}

Tensor Tensor::permute(const Dims& order) const {
  detail::Call call = detail::make_call(detail::kPermute, false, *this);
  call.attrs.shape = order;
  return detail::apply(std::move(call));
}

Tensor Tensor::flip(int64_t axis) const {
  detail::Call call = detail::make_call(detail::kFlip, false, *this);
  call.attrs.axis = axis;
  return detail::apply(std::move(call));
}

}  // namespace sow
