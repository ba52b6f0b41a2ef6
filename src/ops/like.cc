// SPDX-License-Identifier: Apache-2.0
// Operations that take a second tensor for its shape alone.
#include "ops/like.h"

#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/shapes.h"
#include "sow/math.h"
#include "transfer/map.h"

namespace sow::detail {

namespace {

Meta shaped_like(const Meta& x, const Meta& like) { return {x.dtype, like.shape, x.device}; }

[[noreturn]] void refuse(const Call& call, const Dims& x, const Dims& like) {
  fail(ErrorKind::shape, "{}: {} does not fit {}", op_name(call), x, like);
}

bool all_known(const Dims& shape) {
  for (const int64_t extent : shape) {
    if (!known(extent)) return false;
  }
  return true;
}

// -- full_like
// ---------------------------------------------------------------------------------------

Meta infer_full(const Call& call, const Metas& inputs) {
  return {call.attrs.dtype, inputs[0].shape, inputs[0].device};
}

void lower_full(const Call& call, const Tensor& out) {
  Transfer transfer = transfer_for(call, out, out.shape());
  transfer.dst = operand(out, out.strides());
  set_source(transfer, call, nullptr, {});
  transfer.src.strides = Dims(out.shape().size(), 0);
  execute(transfer, out.device());
}

// -- sum_to, expand_like
// -------------------------------------------------------------------------------

Meta infer_sum_to(const Call& call, const Metas& inputs) {
  if (!broadcasts_to(inputs[1].shape, inputs[0].shape))
    refuse(call, inputs[0].shape, inputs[1].shape);
  return shaped_like(inputs[0], inputs[1]);
}

void lower_sum_to(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  if (x.numel() == 0) return fill_zeros(call, out);
  Transfer transfer = transfer_for(call, out, x.shape());
  transfer.reduce = Reduce::add;
  transfer.include_self = false;
  transfer.src = operand(x, x.strides());
  transfer.dst = operand(out, broadcast_strides(out.shape(), out.strides(), x.shape()));
  execute(transfer, out.device());
}

TensorList grad_sum_to(const Backward& b) { return {expand_like(b.grad, b.input(0)), {}}; }

// x's extents or strides with `value` in the places of the missing axes.
Dims with_missing(Dims dims, const Dims& missing, int64_t value) {
  for (const int64_t axis : missing) dims.insert(static_cast<size_t>(axis), value);
  return dims;
}

Meta infer_expand(const Call& call, const Metas& inputs) {
  const Dims shape = with_missing(inputs[0].shape, call.attrs.shape, 1);
  if (!broadcasts_to(shape, inputs[1].shape)) refuse(call, inputs[0].shape, inputs[1].shape);
  return shaped_like(inputs[0], inputs[1]);
}

Tensor view_expand(const Call& call) {
  const Tensor& x = call.inputs[0];
  const Dims shape = with_missing(x.shape(), call.attrs.shape, 1);
  const Dims strides = with_missing(x.strides(), call.attrs.shape, 0);
  const Dims& to = call.inputs[1].shape();
  return make_view(x, 0, to, broadcast_strides(shape, strides, to));
}

TensorList grad_expand(const Backward& b) {
  if (b.call.attrs.shape.empty()) return {sum_to(b.grad, b.input(0)), {}};
  return {sum(b.grad, b.call.attrs.shape), {}};
}

// -- reshape_like
// ----------------------------------------------------------------------------------------

Meta infer_reshape(const Call&, const Metas& inputs) { return shaped_like(inputs[0], inputs[1]); }

Tensor view_reshape(const Call& call) { return reshape(call.inputs[0], call.inputs[1].shape()); }

TensorList grad_reshape(const Backward& b) { return {reshape_like(b.grad, b.input(0)), {}}; }

// -- shares
// ------------------------------------------------------------------------------------------

Map share_map(const Tensor& x, const Tensor& out) {
  Map map;
  map.op = MapOp::share;
  map.shape = out.shape();
  map.out = static_cast<char*>(out.data());
  map.out_dtype = out.dtype();
  map.in[0] = {static_cast<const char*>(x.data()), x.dtype(), x.strides()};
  map.in[1].dtype = DType::int64;
  return map;
}

}  // namespace

void share_into(const Tensor& out, const Tensor& x, int64_t count) {
  Map map = share_map(x, out);
  std::memcpy(map.scalar, &count, sizeof(count));
  map.in[1].strides = Dims(map.shape.size(), 0);
  execute(map, out.device());
}

namespace {

Meta infer_share_among(const Call&, const Metas& inputs) { return inputs[0]; }

void lower_share_among(const Call& call, const Tensor& out) {
  if (out.numel() == 0) return;
  share_into(out, call.inputs[0], call.inputs[1].numel() / out.numel());
}

TensorList grad_share_among(const Backward& b) { return {share_among(b.grad, b.input(1)), {}}; }

Meta infer_share(const Call& call, const Metas& inputs) {
  if (!broadcasts_to(inputs[1].shape, inputs[0].shape))
    refuse(call, inputs[1].shape, inputs[0].shape);
  return inputs[0];
}

void lower_share(const Call& call, const Tensor& out) {
  Map map = share_map(call.inputs[0], out);
  const Tensor& count = call.inputs[1];
  map.in[1] = {static_cast<const char*>(count.data()), count.dtype(),
               broadcast_strides(count.shape(), count.strides(), map.shape)};
  execute(map, out.device());
}

TensorList grad_share(const Backward& b) { return {share(b.grad, b.input(1)), {}}; }

uint64_t saves_count(const Call&, uint64_t) { return 2; }

// -- corners
// -------------------------------------------------------------------------------------------

Meta infer_corner(const Call& call, const Metas& inputs) {
  const Dims &x = inputs[0].shape, &like = inputs[1].shape;
  if (x.size() != like.size()) refuse(call, x, like);
  return shaped_like(inputs[0], inputs[1]);
}

Tensor view_corner(const Call& call) {
  return make_view(call.inputs[0], 0, call.inputs[1].shape(), call.inputs[0].strides());
}

TensorList grad_corner(const Backward& b) { return {pad_like(b.grad, b.input(0)), {}}; }

void lower_pad(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  fill_zeros(call, out);
  copy_into(make_view(out, 0, x.shape(), out.strides()), x, op_name(call));
}

TensorList grad_pad(const Backward& b) { return {corner_like(b.grad, b.input(0)), {}}; }

}  // namespace

void fill_zeros(const Call& call, const Tensor& out) {
  Transfer transfer = transfer_for(call, out, out.shape());
  transfer.reduce = Reduce::assign;
  transfer.dst = operand(out, out.strides());
  transfer.src.strides = Dims(out.shape().size(), 0);
  execute(transfer, out.device());
}

const OpDef kFullLike{.name = "full_like",
                      .in_place_name = nullptr,
                      .infer = infer_full,
                      .lower = lower_full,
                      .shape_only = 1};
const OpDef kSumTo{.name = "sum_to",
                   .in_place_name = nullptr,
                   .infer = infer_sum_to,
                   .lower = lower_sum_to,
                   .gradient = grad_sum_to,
                   .shape_only = 2};
const OpDef kExpandLike{.name = "expand_like",
                        .in_place_name = nullptr,
                        .infer = infer_expand,
                        .view = view_expand,
                        .gradient = grad_expand,
                        .shape_only = 2};
const OpDef kReshapeLike{.name = "reshape_like",
                         .in_place_name = nullptr,
                         .infer = infer_reshape,
                         .view = view_reshape,
                         .gradient = grad_reshape,
                         .shape_only = 2};
const OpDef kShareAmong{.name = "share_among",
                        .in_place_name = nullptr,
                        .infer = infer_share_among,
                        .lower = lower_share_among,
                        .gradient = grad_share_among,
                        .shape_only = 2};
const OpDef kShare{.name = "share",
                   .in_place_name = nullptr,
                   .infer = infer_share,
                   .lower = lower_share,
                   .gradient = grad_share,
                   .saves = saves_count};
const OpDef kCornerLike{.name = "corner_like",
                        .in_place_name = nullptr,
                        .infer = infer_corner,
                        .view = view_corner,
                        .gradient = grad_corner,
                        .shape_only = 2};
const OpDef kPadLike{.name = "pad_like",
                     .in_place_name = nullptr,
                     .infer = infer_corner,
                     .lower = lower_pad,
                     .gradient = grad_pad,
                     .shape_only = 2};

Tensor full_like(const Tensor& x, const Scalar& value, DType dtype) {
  Call call = make_call(kFullLike, false, x);
  call.attrs.scalar = value;
  call.attrs.dtype = dtype;
  return apply(std::move(call));
}

Tensor zeros_like(const Tensor& x) { return full_like(x, false, x.dtype()); }

Tensor sum_to(const Tensor& x, const Tensor& like) {
  if (all_known(x.shape()) && x.shape() == like.shape()) return x;
  return apply_to(kSumTo, x, like);
}

Tensor expand_like(const Tensor& x, const Tensor& like, const Dims& missing) {
  if (all_known(x.shape()) && x.shape() == like.shape()) return x;
  Call call = make_call(kExpandLike, false, x);
  call.inputs.push_back(like);
  call.attrs.shape = missing;
  return apply(std::move(call));
}

Tensor reshape_like(const Tensor& x, const Tensor& like) {
  if (all_known(x.shape()) && x.shape() == like.shape()) return x;
  return apply_to(kReshapeLike, x, like);
}

Tensor shaped_as(const Tensor& x, const Tensor& like) {
  const Dims& shape = like.shape();
  return std::count(shape.begin(), shape.end(), -1) < 2 ? x.reshape(shape) : reshape_like(x, like);
}

Tensor share_among(const Tensor& x, const Tensor& like) { return apply_to(kShareAmong, x, like); }

Tensor corner_like(const Tensor& x, const Tensor& like) {
  if (all_known(x.shape()) && x.shape() == like.shape()) return x;
  return apply_to(kCornerLike, x, like);
}

Tensor pad_like(const Tensor& x, const Tensor& like) {
  if (all_known(x.shape()) && x.shape() == like.shape()) return x;
  return apply_to(kPadLike, x, like);
}

Tensor share(const Tensor& x, const Tensor& count) { return apply_to(kShare, x, count); }

}  // namespace sow::detail
