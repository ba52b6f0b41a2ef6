// SPDX-License-Identifier: Apache-2.0
// By coordinates, shaped as ONNX ScatterND: scatter_nd, tensor_scatter_nd_* and gather_nd.
#include "ops/defs.h"
#include "ops/gradients/indexed_grad.h"
#include "ops/gradients/rule_ops.h"
#include "ops/gradients/rules.h"
#include "ops/shapes.h"

namespace sow {
namespace detail {
namespace {

// indices.shape[:-1] + x.shape[k:], where k is the last extent of indices.
Dims slices_shape(const Call& call, const Dims& x, const Dims& indices) {
  const char* op = op_name(call);
  if (indices.empty()) {
    fail(ErrorKind::shape,
         "{}: indices are 0-d; they need a last dimension that holds the coordinates", op);
  }
  const int64_t components = indices.back();
  if (!known(components)) {
    fail(ErrorKind::shape,
         "{}: the last extent of indices {} must be known: it is the number of "
         "coordinates",
         op, indices);
  }
  if (components > x.rank()) {
    fail(ErrorKind::shape,
         "{}: indices {} hold {} coordinates each, but x {} has only {} dimension{}", op, indices,
         components, x, x.rank(), x.rank() == 1 ? "" : "s");
  }
  if (call.attrs.held_size >= 0 && components != 1) {
    fail(ErrorKind::argument,
         "{}: a held index addresses one axis, but indices {} hold {} coordinates each", op,
         indices, components);
  }
  if (components == 1) expect_held_size(op, call.attrs.held_size, 0, x[0]);
  return concat(Dims(indices.data(), indices.size() - 1), tail(x, components));
}

// A scalar takes the place of updates.
Meta check_updates(const Call& call, const Meta& x, const Meta& indices, const Meta& updates) {
  const char* op = op_name(call);
  expect_index_dtype(op, indices.dtype);
  const Dims slices = slices_shape(call, x.shape, indices.shape);
  if (!call.attrs.scalar && !may_equal(updates.shape, slices)) {
    fail(ErrorKind::shape,
         "{}: updates have shape {}, but indices {} into x {} take updates of shape {} "
         "(indices.shape[:-1] + x.shape[{}:])",
         op, updates.shape, indices.shape, x.shape, slices, indices.shape.back());
  }
  return x;
}

Meta infer_tensor_scatter_nd(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  expect_source_dtype(call, "x", "updates", inputs, 2);
  expect_reducible(op, call.attrs.reduce, inputs[0].dtype);
  if (call.op == &kTensorScatterNdSub && inputs[0].dtype == DType::bool_) {
    fail(ErrorKind::type, "{}: x is bool; bool has no subtraction", op);
  }
  return check_updates(call, inputs[0], inputs[1], inputs.back());
}

Meta infer_scatter_nd(const Call& call, const Metas& inputs) {
  Meta out = inputs[1];
  out.shape = call.attrs.shape;
  checked_numel(out.shape, size_of(out.dtype), op_name(call));
  return check_updates(call, out, inputs[0], inputs[1]);
}

// One operand a coordinate, over the outer dimensions of `indices`; coordinate k moves along the
// target's dimension k.
IndexOperands coordinate_operands(const Tensor& indices, const Tensor& target, const Dims& space) {
  IndexOperands out;
  const size_t outer = indices.shape().size() - 1;
  Dims strides(space.size(), 0);
  std::copy(indices.strides().begin(), indices.strides().begin() + outer, strides.begin());
  for (int64_t k = 0; k < indices.shape().back(); ++k) {
    IndexOperand one = index_operand(indices, strides, k, target.shape()[k], target.strides()[k]);
    if (indices.numel() != 0) {  // an empty tensor may have no memory to point into
      one.data += k * indices.strides().back() * static_cast<int64_t>(size_of(indices.dtype()));
    }
    one.own_shape = Dims(indices.shape().data(), outer);
    one.own_strides = Dims(indices.strides().data(), outer);
    one.component = static_cast<int>(k);
    out.push_back(std::move(one));
  }
  return out;
}

// Strides of the addressed tensor over the space: its own trailing ones, nothing on the outer.
Dims slice_strides(const Tensor& target, const Tensor& indices, const Dims& space) {
  const Dims own = tail(target.strides(), indices.shape().back());
  return concat(Dims(space.size() - own.size(), 0), own);
}

void scatter_updates(const Call& call, const Tensor& out, const Tensor& indices,
                     const Tensor* updates) {
  const Dims space = slices_shape(call, out.shape(), indices.shape());
  Transfer transfer = transfer_for(call, out, space);
  transfer.dst = operand(out, slice_strides(out, indices, space));
  transfer.dst_index = coordinate_operands(indices, out, space);
  transfer.negate = call.op == &kTensorScatterNdSub;
  set_source(transfer, call, updates, updates ? updates->strides() : Dims(space.size(), 0));
  execute(transfer, out.device());
}

void lower_tensor_scatter_nd(const Call& call, const Tensor& out) {
  copy_into(out, call.inputs[0], op_name(call));
  scatter_updates(call, out, call.inputs[1], source_of(call, 2));
}

void lower_scatter_nd(const Call& call, const Tensor& out) {
  Transfer zeros = transfer_for(call, out, out.shape());
  zeros.reduce = Reduce::assign;
  zeros.order = nullptr;
  zeros.dst = operand(out, out.strides());
  zeros.src.strides = Dims(out.shape().size(), 0);
  execute(zeros, out.device());
  scatter_updates(call, out, call.inputs[0], &call.inputs[1]);
}

Meta infer_gather_nd(const Call& call, const Metas& inputs) {
  expect_index_dtype(op_name(call), inputs[1].dtype);
  Meta out = inputs[0];
  out.shape = slices_shape(call, inputs[0].shape, inputs[1].shape);
  return out;
}

void lower_gather_nd(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  const Tensor& indices = call.inputs[1];
  Transfer transfer = transfer_for(call, out, out.shape());
  transfer.dst = operand(out, out.strides());
  transfer.order = nullptr;  // it is of a destination
  transfer.src = operand(x, slice_strides(x, indices, out.shape()));
  transfer.src_index = coordinate_operands(indices, x, out.shape());
  execute(transfer, out.device());
}

constexpr OpDef tensor_scatter_nd(const char* name, const char* in_place_name) {
  return {.name = name,
          .in_place_name = in_place_name,
          .infer = infer_tensor_scatter_nd,
          .lower = lower_tensor_scatter_nd,
          .gradient = grad_tensor_scatter_nd,
          .saves = indexed_saves,
          .prepare = prepare_nd};
}

}  // namespace

const OpDef kScatterNd{.name = "scatter_nd",
                       .in_place_name = nullptr,
                       .infer = infer_scatter_nd,
                       .lower = lower_scatter_nd,
                       .gradient = grad_scatter_nd,
                       .saves = saves_scatter_nd};
const OpDef kTensorScatterNdUpdate =
    tensor_scatter_nd("tensor_scatter_nd_update", "tensor_scatter_nd_update_");
const OpDef kTensorScatterNdAdd =
    tensor_scatter_nd("tensor_scatter_nd_add", "tensor_scatter_nd_add_");
const OpDef kTensorScatterNdSub =
    tensor_scatter_nd("tensor_scatter_nd_sub", "tensor_scatter_nd_sub_");
const OpDef kTensorScatterNdMax =
    tensor_scatter_nd("tensor_scatter_nd_max", "tensor_scatter_nd_max_");
const OpDef kTensorScatterNdMin =
    tensor_scatter_nd("tensor_scatter_nd_min", "tensor_scatter_nd_min_");
const OpDef kTensorScatterNdMul =
    tensor_scatter_nd("tensor_scatter_nd_mul", "tensor_scatter_nd_mul_");
const OpDef kGatherNd{.name = "gather_nd",
                      .in_place_name = nullptr,
                      .infer = infer_gather_nd,
                      .lower = lower_gather_nd,
                      .gradient = grad_gather_nd,
                      .saves = saves_index};

namespace {

Tensor nd_call(const OpDef& op, bool in_place, const Tensor& x, const Index& indices,
               const Source& updates, Reduce reduce) {
  Call call = make_call(op, in_place, x);
  add_index(call, indices);
  call.attrs.reduce = reduce;
  add_source(call, updates);
  return apply(std::move(call));
}

// Positions along `axis` of x, shaped to broadcast over the outer dimensions of the indices.
Tensor batch_positions(const Tensor& x, int64_t axis, int64_t outer) {
  Dims shape(static_cast<size_t>(outer), 1);
  shape[axis] = -1;
  const int64_t extent = x.shape()[axis];
  if (!known(extent)) return positions_like(x, axis, axis + 1).reshape(shape);
  return Tensor::arange(extent, DType::int64, x.device()).reshape(shape);
}

// Every batch dimension is one more index tensor, which says where each element is in it.
Tensor gather_nd_in_batches(const Tensor& x, const Index& indices, int64_t batch_dims) {
  const char* op = kGatherNd.name;
  const Tensor keys = index_keys(indices.keys());
  if (!x.defined() || !keys.defined()) fail(ErrorKind::argument, "{}: a tensor is undefined", op);
  if (batch_dims < 0 || batch_dims >= keys.dim() || batch_dims > x.dim()) {
    fail(ErrorKind::argument,
         "{}: batch_dims is {}; it must be 0 or more, less than the rank of indices {} and no more "
         "than that of x {}",
         op, batch_dims, keys.shape(), x.shape());
  }
  if (indices.held()) fail(ErrorKind::argument, "{}: a held index has no batch dimensions", op);
  expect_index_dtype(op, keys.dtype());
  const int64_t components = keys.shape().back();
  if (!known(components) || components == 0 || batch_dims + components > x.dim()) {
    fail(ErrorKind::shape,
         "{}: the last extent of indices {} is the number of coordinates: it must be known, and 1 "
         "to {} for x {} with batch_dims {}",
         op, keys.shape(), x.dim() - batch_dims, x.shape(), batch_dims);
  }
  std::vector<Index> all;
  for (int64_t d = 0; d < batch_dims; ++d) {
    if (!may_equal(keys.shape()[d], x.shape()[d])) {
      fail(ErrorKind::shape,
           "{}: indices {} and x {} differ in dimension {}; the first {} must be the same", op,
           keys.shape(), x.shape(), d, batch_dims);
    }
    all.emplace_back(batch_positions(x, d, keys.dim() - 1), indices.bounds());
  }
  for (int64_t k = 0; k < components; ++k) all.emplace_back(keys.select(-1, k), indices.bounds());
  return index_get(x, all);
}

}  // namespace
}  // namespace detail

Tensor scatter_nd(const Index& indices, const Tensor& updates, const Dims& shape) {
  detail::Call call;
  call.op = &detail::kScatterNd;
  detail::add_index(call, indices);
  call.inputs.push_back(updates);
  call.attrs.reduce = Reduce::add;
  call.attrs.shape = shape;
  return detail::apply(std::move(call));
}

Tensor tensor_scatter_nd_update(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdUpdate, false, x, indices, updates,
                         Reduce::assign);
}

Tensor tensor_scatter_nd_update_(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdUpdate, true, x, indices, updates, Reduce::assign);
}

Tensor tensor_scatter_nd_add(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdAdd, false, x, indices, updates, Reduce::add);
}

Tensor tensor_scatter_nd_add_(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdAdd, true, x, indices, updates, Reduce::add);
}

Tensor tensor_scatter_nd_sub(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdSub, false, x, indices, updates, Reduce::add);
}

Tensor tensor_scatter_nd_sub_(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdSub, true, x, indices, updates, Reduce::add);
}

Tensor tensor_scatter_nd_max(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdMax, false, x, indices, updates, Reduce::amax);
}

Tensor tensor_scatter_nd_max_(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdMax, true, x, indices, updates, Reduce::amax);
}

Tensor tensor_scatter_nd_min(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdMin, false, x, indices, updates, Reduce::amin);
}

Tensor tensor_scatter_nd_min_(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdMin, true, x, indices, updates, Reduce::amin);
}

Tensor tensor_scatter_nd_mul(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdMul, false, x, indices, updates, Reduce::mul);
}

Tensor tensor_scatter_nd_mul_(const Tensor& x, const Index& indices, const Source& updates) {
  return detail::nd_call(detail::kTensorScatterNdMul, true, x, indices, updates, Reduce::mul);
}

Tensor gather_nd(const Tensor& x, const Index& indices, int64_t batch_dims) {
  if (batch_dims != 0) return detail::gather_nd_in_batches(x, indices, batch_dims);
  detail::Call call = detail::make_call(detail::kGatherNd, false, x);
  detail::add_index(call, indices);
  return detail::apply(std::move(call));
}

}  // namespace sow
