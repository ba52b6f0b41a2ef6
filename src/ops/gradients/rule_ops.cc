// SPDX-License-Identifier: Apache-2.0
// Small operations that only gradient rules use.
#include "ops/gradients/rule_ops.h"

#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/families/masked.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/math.h"

namespace sow::detail {

namespace {

Meta infer_same(const Call&, const Metas& inputs) { return inputs[0]; }

void lower_copy(const Call& call, const Tensor& out) {
  copy_into(out, call.inputs[0], op_name(call));
}

// -- positions_like
// ----------------------------------------------------------------------------------

Meta infer_positions(const Call& call, const Metas& inputs) {
  Meta out = inputs[0];
  out.dtype = DType::int64;
  for (int d = 0; d < out.shape.rank(); ++d) {
    if (d < call.attrs.start || d >= call.attrs.stop) out.shape[d] = 1;
  }
  return out;
}

void lower_positions(const Call& call, const Tensor& out) {
  const Tensor flat = Tensor::arange(out.numel(), DType::int64, out.device());
  copy_into(out, make_view(flat, 0, out.shape(), row_major_strides(out.shape())), op_name(call));
}

// -- masked_compress
// -----------------------------------------------------------------------------------

Meta infer_compress(const Call& call, const Metas& inputs) {
  expect_mask_dtype(op_name(call), inputs[1].dtype);
  return {inputs[0].dtype, inputs[2].shape, inputs[0].device};
}

void lower_compress(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  const Tensor& mask = call.inputs[1];
  // The CPU's pass over the mask knows where the trues end; a device writes zeros first.
  const bool one_pass = out.device().type == DeviceType::cpu && x.numel() != 0;
  if (!one_pass) fill_zeros(call, out);
  Transfer transfer = transfer_for(call, out, x.shape());
  transfer.dst = operand(out, Dims(x.shape().size(), 0));
  transfer.src = operand(x, x.strides());
  transfer.mask_side = MaskSide::destination;
  transfer.mask = operand(mask, expanded_strides(&mask, x.shape()));
  transfer.rank_limit = out.numel();
  transfer.clear_rest = one_pass;
  execute(transfer, out.device());
}

TensorList grad_compress(const Backward& b) {
  return {masked_scatter(zeros_like(b.input(0)), b.input(1), b.grad), {}, {}};
}

uint64_t saves_second(const Call&, uint64_t) { return 2; }

// -- products
// --------------------------------------------------------------------------------------------

TensorList grad_vanish(const Backward& b) { return {b.grad}; }

TensorList grad_gate(const Backward& b) {
  return {apply_to(kProductLimit, b.grad, b.input(1)), {}};
}

TensorList grad_limit(const Backward& b) {
  return {apply_to(kProductChecked, b.grad, b.input(1)), {}};
}

void lower_checked(const Call& call, const Tensor& out) {
  if (count_true(gt(call.inputs[1], 1)) != 0) {
    fail(ErrorKind::autograd,
         "mul: a derivative of third or higher order is asked for, and a destination has more than "
         "one zero among its factors; gradients of products go to second order there");
  }
  lower_copy(call, out);
}

}  // namespace

const OpDef kPositionsLike{.name = "positions_like",
                           .in_place_name = nullptr,
                           .infer = infer_positions,
                           .lower = lower_positions,
                           .shape_only = 1};
const OpDef kMaskedCompress{.name = "masked_compress",
                            .in_place_name = nullptr,
                            .infer = infer_compress,
                            .lower = lower_compress,
                            .gradient = grad_compress,
                            .saves = saves_second,
                            .shape_only = 4};
const OpDef kVanish{.name = "vanish",
                    .in_place_name = nullptr,
                    .infer = infer_same,
                    .lower = fill_zeros,
                    .gradient = grad_vanish,
                    .shape_only = 1};
const OpDef kProductGate{.name = "product_gate",
                         .in_place_name = nullptr,
                         .infer = infer_same,
                         .lower = lower_copy,
                         .gradient = grad_gate,
                         .saves = saves_second,
                         .shape_only = 2};
const OpDef kProductLimit{.name = "product_limit",
                          .in_place_name = nullptr,
                          .infer = infer_same,
                          .lower = lower_copy,
                          .gradient = grad_limit,
                          .saves = saves_second,
                          .shape_only = 2};
const OpDef kProductChecked{.name = "product_checked",
                            .in_place_name = nullptr,
                            .infer = infer_same,
                            .lower = lower_checked,
                            .gradient = grad_limit,
                            .saves = saves_second};

Tensor positions_like(const Tensor& like, int64_t first, int64_t last) {
  Call call = make_call(kPositionsLike, false, like);
  call.attrs.start = first;
  call.attrs.stop = last;
  return apply(std::move(call));
}

Tensor masked_compress(const Tensor& x, const Tensor& mask, const Tensor& like) {
  Call call = make_call(kMaskedCompress, false, x);
  call.inputs.push_back(mask);
  call.inputs.push_back(like);
  return apply(std::move(call));
}

Tensor vanish(const Tensor& x) { return apply(make_call(kVanish, false, x)); }

Tensor product_gate(const Tensor& x, const Tensor& zeros) {
  return apply_to(kProductGate, x, zeros);
}

}  // namespace sow::detail
