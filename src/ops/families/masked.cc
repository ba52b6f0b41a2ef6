// SPDX-License-Identifier: Apache-2.0
// What a bool mask chooses: masked_scatter, masked_fill and masked_select.
#include "ops/families/masked.h"

#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/gradients/rules.h"
#include "ops/shapes.h"

namespace sow {
namespace detail {
namespace {

// The common shape of x and mask; in place it must be x's.
Dims masked_shape(const Call& call, const Dims& x, const Dims& mask) {
  const char* op = op_name(call);
  if (call.in_place) {
    if (!broadcasts_to(mask, x)) {
      fail(ErrorKind::shape, "{}: mask {} does not broadcast to x {}; in place x keeps its shape",
           op, mask, x);
    }
    return x;
  }
  Dims shape;
  if (!broadcast_shapes(x, mask, shape)) {
    fail(ErrorKind::shape, "{}: x {} and mask {} do not broadcast together", op, x, mask);
  }
  return shape;
}

Meta masked_meta(const Call& call, const Metas& inputs) {
  expect_mask_dtype(op_name(call), inputs[1].dtype);
  Meta out = inputs[0];
  out.shape = masked_shape(call, inputs[0].shape, inputs[1].shape);
  return out;
}

// A Transfer over out's places under the mask; out of place, the others take x in the same pass.
Transfer masked_transfer(const Call& call, const Tensor& out, MaskSide side) {
  const Tensor& x = call.inputs[0];
  const Tensor& mask = call.inputs[1];
  Transfer transfer = transfer_for(call, out, out.shape());
  transfer.dst = operand(out, out.strides());
  transfer.mask_side = side;
  transfer.mask = operand(mask, expanded_strides(&mask, out.shape()));
  if (!call.in_place) transfer.base = operand(x, expanded_strides(&x, out.shape()));
  return transfer;
}

Meta infer_masked_scatter(const Call& call, const Metas& inputs) {
  expect_source_dtype(call, "x", "value", inputs, 2);
  return masked_meta(call, inputs);
}

void lower_masked_scatter(const Call& call, const Tensor& out) {
  Transfer transfer = masked_transfer(call, out, MaskSide::source);
  // Values are read by their rank: one stride is enough, more than one needs a copy.
  const Tensor& given = call.inputs[2];
  const Tensor value = given.dim() == 1 ? given : given.contiguous();
  transfer.src = operand(value, Dims(out.shape().size(), 0));
  transfer.rank_limit = value.numel();
  transfer.rank_stride = given.dim() == 1 ? given.strides()[0] : 1;
  execute(transfer, out.device());
}

Meta infer_masked_fill(const Call& call, const Metas& inputs) {
  expect_fill_value(call, "x", inputs, 2);
  return masked_meta(call, inputs);
}

void lower_masked_fill(const Call& call, const Tensor& out) {
  Transfer transfer = masked_transfer(call, out, MaskSide::skip);
  set_fill_value(transfer, call, 2);
  execute(transfer, out.device());
}

Meta infer_masked_select(const Call& call, const Metas& inputs) {
  Meta out = masked_meta(call, inputs);
  out.shape = {-1};
  return out;
}

Tensor masked_select_now(const Call& call) {
  const Tensor& x = call.inputs[0];
  const Tensor& mask = call.inputs[1];
  const Dims shape = masked_shape(call, x.shape(), mask.shape());
  const Dims mask_strides = expanded_strides(&mask, shape);
  const CountedMask counted = count_mask(make_view(mask, 0, shape, mask_strides), true);
  const int64_t count = counted.count;
  const Tensor out = Tensor::empty({count}, x.dtype(), x.device());
  Transfer transfer = transfer_for(call, out, shape);
  transfer.dst = operand(out, Dims(shape.size(), 0));
  transfer.src = operand(x, expanded_strides(&x, shape));
  transfer.mask_side = MaskSide::destination;
  counted.set(transfer, shape);
  transfer.rank_limit = count;
  execute(transfer, out.device());
  return out;
}

}  // namespace

const OpDef kMaskedScatter{.name = "masked_scatter",
                           .in_place_name = "masked_scatter_",
                           .infer = infer_masked_scatter,
                           .lower = lower_masked_scatter,
                           .gradient = grad_masked_scatter,
                           .saves = saves_mask};
const OpDef kMaskedFill{.name = "masked_fill",
                        .in_place_name = "masked_fill_",
                        .infer = infer_masked_fill,
                        .lower = lower_masked_fill,
                        .gradient = grad_masked_fill,
                        .saves = saves_mask};
const OpDef kMaskedSelect{.name = "masked_select",
                          .in_place_name = nullptr,
                          .infer = infer_masked_select,
                          .dynamic = masked_select_now,
                          .gradient = grad_masked_select,
                          .saves = saves_mask};

namespace {

template <class S>  // a Source, or a Tensor that need not become one
Tensor masked_call(const OpDef& op, bool in_place, const Tensor& x, const Tensor& mask,
                   const S& value) {
  Call call = make_call(op, in_place, x);
  call.inputs.push_back(mask);
  add_source(call, value);
  return apply(std::move(call));
}

}  // namespace
}  // namespace detail

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& value) {
  return detail::masked_call(detail::kMaskedScatter, false, x, mask, value);
}

Tensor masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& value) {
  return detail::masked_call(detail::kMaskedScatter, true, x, mask, value);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Source& value) {
  return detail::masked_call(detail::kMaskedFill, false, x, mask, detail::fill_source(value));
}

Tensor masked_fill_(const Tensor& x, const Tensor& mask, const Source& value) {
  return detail::masked_call(detail::kMaskedFill, true, x, mask, detail::fill_source(value));
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  detail::Call call = detail::make_call(detail::kMaskedSelect, false, x);
  call.inputs.push_back(mask);
  return detail::apply(std::move(call));
}

}  // namespace sow
