// SPDX-License-Identifier: Apache-2.0
// Gradient rules of masks, regular places, views and copies.
#include "core/device_table.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/families/views.h"
#include "ops/gradients/rule_ops.h"
#include "ops/gradients/rules.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/autograd.h"
#include "sow/math.h"
#include "transfer/indexed_backward.h"
#include "transfer/plan/plan.h"

namespace sow::detail {

namespace {

// The view that reads the part a scatter writes, and the scatter that writes what a view reads.
const OpDef* view_of_scatter(const OpDef* scatter) {
  if (scatter == &kDiagonalScatter) return &kDiagonal;
  return scatter == &kSelectScatter ? &kSelect : &kSlice;
}

const OpDef* scatter_of_view(const OpDef* view) {
  if (view == &kDiagonal) return &kDiagonalScatter;
  return view == &kSelect ? &kSelectScatter : &kSliceScatter;
}

Tensor call_like(const Call& call, const OpDef* op, TensorList inputs, bool in_place = false) {
  return apply({op, std::move(inputs), call.attrs, in_place});
}

}  // namespace

// -- masks
// ---------------------------------------------------------------------------------------------

uint64_t saves_mask(const Call&, uint64_t) { return 2; }

namespace {

// Both gradients of a masked_scatter in one pass, where the device has a way of its own.
bool split_on_device(const Backward& b, TensorList& out) {
  const Tensor &grad = b.grad, &mask = b.input(1), &x = b.input(0), &value = b.input(2);
  const Device device = grad.device();
  if (device.type == DeviceType::cpu || !b.needs(0) || !b.needs(2) || grad_enabled()) return false;
  if (grad.impl()->symbolic != nullptr || mask.impl()->symbolic != nullptr) return false;
  const DeviceTable& table = device_table(device.type);
  if (table.backward == nullptr || current_explanation() != nullptr) return false;
  if (!(x.shape() == grad.shape()) || !grad.is_contiguous() || grad.numel() == 0) return false;
  out[0] = Tensor::empty(grad.shape(), grad.dtype(), device);
  out[2] = Tensor::empty(value.shape(), grad.dtype(), device);
  Transfer compress;
  compress.op = b.call.op->name;
  compress.dtype = grad.dtype();
  compress.shape = grad.shape();
  compress.dst = operand(out[2], Dims(grad.shape().size(), 0));
  compress.src = operand(grad, grad.strides());
  compress.mask_side = MaskSide::destination;
  compress.mask = operand(mask, expanded_strides(&mask, grad.shape()));
  compress.rank_limit = value.numel();
  IndexedBackward work;
  work.dtype = grad.dtype();
  work.x_grad = static_cast<char*>(out[0].data());
  return table.backward(work, compress, grad.numel(), device.index);
}

}  // namespace

TensorList grad_masked_scatter(const Backward& b) {
  TensorList out(3);
  if (split_on_device(b, out)) return out;
  const Tensor& mask = b.input(1);
  if (b.needs(0)) out[0] = sum_to(masked_fill(b.grad, mask, 0), b.input(0));
  if (b.needs(2)) out[2] = masked_compress(b.grad, mask, b.input(2));
  return out;
}

TensorList grad_masked_fill(const Backward& b) {
  TensorList out(b.call.inputs.size());
  const Tensor& mask = b.input(1);
  if (b.needs(0)) out[0] = sum_to(masked_fill(b.grad, mask, 0), b.input(0));
  if (out.size() > 2 && b.needs(2)) out[2] = sum(where(mask, b.grad, 0));
  return out;
}

TensorList grad_masked_select(const Backward& b) {
  // Over the common shape of x and mask: either may have been expanded.
  const Tensor& x = b.input(0);
  const Tensor places = where(b.input(1), zeros_like(x), 0);
  return {sum_to(masked_scatter(places, b.input(1), b.grad), x), {}};
}

// -- regular places
// --------------------------------------------------------------------------------------

TensorList grad_part_scatter(const Backward& b) {
  TensorList out(2);
  if (b.needs(0)) out[0] = call_like(b.call, b.call.op, {b.grad, zeros_like(b.input(1))});
  if (b.needs(1)) out[1] = call_like(b.call, view_of_scatter(b.call.op), {b.grad});
  return out;
}

TensorList grad_fill_diagonal(const Backward& b) {
  TensorList out(b.call.inputs.size());
  const bool wrap = b.call.attrs.wrap;
  const int64_t offset = b.call.attrs.offset;
  if (b.needs(0)) out[0] = fill_diagonal(b.grad, 0, wrap, offset);
  if (out.size() > 1 && b.needs(1)) {
    const Tensor none = full_like(b.grad, false, DType::bool_);
    const Tensor filled = fill_diagonal(none, true, wrap, offset);
    out[1] = sum(where(filled, b.grad, 0));
  }
  return out;
}

// -- views
// -----------------------------------------------------------------------------------------------

TensorList grad_part(const Backward& b) {
  const Tensor zeros = zeros_like(b.input(0));
  return {call_like(b.call, scatter_of_view(b.call.op), {zeros, b.grad}, may_write(zeros, b.grad))};
}

TensorList grad_unsqueeze(const Backward& b) { return {select(b.grad, b.call.attrs.axis, 0)}; }

TensorList grad_broadcast_to(const Backward& b) { return {sum_to(b.grad, b.input(0))}; }

TensorList grad_permute(const Backward& b) {
  const Dims& order = b.call.attrs.shape;
  Dims inverse(order.size(), 0);
  for (int d = 0; d < order.rank(); ++d) {
    inverse[wrap_axis(op_name(b.call), order[d], order.rank())] = d;
  }
  return {b.grad.permute(inverse)};
}

TensorList grad_self_inverse(const Backward& b) { return {call_like(b.call, b.call.op, {b.grad})}; }

TensorList grad_reshape(const Backward& b) { return {reshape_like(b.grad, b.input(0))}; }

Tensor write_back(const Call& view, const Tensor& part) {
  const Tensor& x = view.inputs[0];
  if (view.op == &kDiagonal || view.op == &kSelect || view.op == &kSlice) {
    return call_like(view, scatter_of_view(view.op), {x, part});
  }
  if (view.op == &kReshape || view.op == &kFlatten) return shaped_as(part, x);
  // The others show every element once, and their gradients go the same way back.
  return view.op->gradient({view, part, part, 1})[0];
}

// -- copies
// ----------------------------------------------------------------------------------------------

TensorList grad_clone(const Backward& b) { return {b.grad}; }

TensorList grad_copy(const Backward& b) {
  TensorList out(2);
  if (b.needs(0)) out[0] = zeros_like(b.input(0));
  if (b.needs(1)) out[1] = sum_to(b.grad, b.input(1));
  return out;
}

TensorList grad_fill(const Backward& b) { return {zeros_like(b.input(0))}; }

}  // namespace sow::detail
