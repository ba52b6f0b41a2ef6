// SPDX-License-Identifier: Apache-2.0
// Whole slices by a 1-D index: index_add, index_copy, index_fill, index_reduce and index_select.
#include "ops/defs.h"
#include "ops/gradients/indexed_grad.h"
#include "ops/gradients/rules.h"
#include "ops/shapes.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

// x with the axis as long as the index: the shape of a source, and of what index_select returns.
Dims slices_shape(const Call& call, const Dims& x_shape, const Dims& index) {
  const char* op = op_name(call);
  Dims shape = at_least_1d(x_shape);
  const int64_t axis = wrap_axis(op, call.attrs.axis, shape.rank());
  if (index.size() > 1) {
    fail(ErrorKind::shape, "{}: index has shape {}; it must have one dimension", op, index);
  }
  expect_held_size(op, call.attrs.held_size, axis, shape[axis]);
  shape[axis] = at_least_1d(index)[0];
  return shape;
}

Meta infer_rows(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  const Meta& x = inputs[0];
  expect_index_dtype(op, inputs[1].dtype);
  expect_source_dtype(call, "x", "source", inputs, 2);
  expect_reducible(op, call.attrs.reduce, x.dtype);
  const Dims slices = slices_shape(call, x.shape, inputs[1].shape);
  if (call.attrs.scalar) return x;
  if (!may_equal(at_least_1d(inputs[2].shape), slices)) {
    const int64_t indices = at_least_1d(inputs[1].shape)[0];
    fail(ErrorKind::shape,
         "{}: source has shape {}, but x {} with {} indices on axis {} takes a source of shape {}",
         op, inputs[2].shape, x.shape, known(indices) ? std::to_string(indices) : "?",
         call.attrs.axis, slices);
  }
  return x;
}

Meta infer_index_fill(const Call& call, const Metas& inputs) {
  expect_index_dtype(op_name(call), inputs[1].dtype);
  expect_fill_value(call, "x", inputs, 2);
  slices_shape(call, inputs[0].shape, inputs[1].shape);
  return inputs[0];
}

// The index, along the axis of a Transfer of this shape.
IndexOperand axis_index(const Tensor& index, const Dims& shape, int64_t axis, int64_t extent,
                        int64_t scale) {
  Dims strides(shape.size(), 0);
  strides[axis] = at_least_1d(index.strides())[0];
  return index_operand(index, strides, axis, extent, scale);
}

void lower_rows(const Call& call, const Tensor& out) {
  const char* op = op_name(call);
  const Tensor& index = call.inputs[1];
  const Dims shape = slices_shape(call, out.shape(), index.shape());
  const Dims strides = at_least_1d(out.strides());
  const int64_t axis = wrap_axis(op, call.attrs.axis, shape.rank());

  copy_into(out, call.inputs[0], op);
  Transfer transfer = transfer_for(call, out, shape);
  transfer.dst = operand(out, strides);
  transfer.dst.strides[axis] = 0;
  transfer.dst_index.push_back(
      axis_index(index, shape, axis, at_least_1d(out.shape())[axis], strides[axis]));
  if (call.attrs.scalar || call.op == &kIndexFill) {
    set_fill_value(transfer, call, 2);
  } else {
    set_source(transfer, call, &call.inputs[2], at_least_1d(call.inputs[2].strides()));
  }
  execute(transfer, out.device());
}

Meta infer_index_select(const Call& call, const Metas& inputs) {
  expect_index_dtype(op_name(call), inputs[1].dtype);
  Meta out = inputs[0];
  out.shape = slices_shape(call, inputs[0].shape, inputs[1].shape);
  if (inputs[0].shape.empty() && inputs[1].shape.empty()) out.shape = {};
  return out;
}

void lower_index_select(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  const Dims shape = at_least_1d(out.shape());
  const Dims strides = at_least_1d(x.strides());
  const int64_t axis = wrap_axis(op_name(call), call.attrs.axis, shape.rank());

  Transfer transfer = transfer_for(call, out, shape);
  transfer.dst = operand(out, at_least_1d(out.strides()));
  transfer.order = nullptr;  // it is of a destination
  transfer.src = operand(x, strides);
  transfer.src.strides[axis] = 0;
  transfer.src_index.push_back(
      axis_index(call.inputs[1], shape, axis, at_least_1d(x.shape())[axis], strides[axis]));
  execute(transfer, out.device());
}

}  // namespace

namespace {

constexpr OpDef rows_def(const char* name, const char* in_place_name,
                         decltype(OpDef::infer) infer) {
  return {.name = name,
          .in_place_name = in_place_name,
          .infer = infer,
          .lower = lower_rows,
          .gradient = grad_rows,
          .saves = indexed_saves,
          .prepare = prepare_rows};
}

}  // namespace

const OpDef kIndexAdd = rows_def("index_add", "index_add_", infer_rows);
const OpDef kIndexCopy = rows_def("index_copy", "index_copy_", infer_rows);
const OpDef kIndexFill = rows_def("index_fill", "index_fill_", infer_index_fill);
const OpDef kIndexReduce = rows_def("index_reduce", "index_reduce_", infer_rows);
const OpDef kIndexSelect{.name = "index_select",
                         .in_place_name = nullptr,
                         .infer = infer_index_select,
                         .lower = lower_index_select,
                         .gradient = grad_index_select,
                         .saves = saves_index};

namespace {

Tensor rows_call(const OpDef& op, bool in_place, const Tensor& x, int64_t axis, const Index& index,
                 const Source& source, Reduce reduce, bool include_self = true) {
  Call call = make_call(op, in_place, x);
  add_index(call, flat_keys(index));
  call.attrs.axis = axis;
  call.attrs.reduce = reduce;
  call.attrs.include_self = include_self || reduce == Reduce::assign;
  add_source(call, source);
  return apply(std::move(call));
}

// alpha times the source, in x's type, rounded to it.
Source scaled(const Tensor& x, const Source& source, const Scalar& alpha) {
  std::complex<double> factor;
  alpha.write_as(DType::complex128, &factor, kIndexAdd.name);
  if (factor == 1.0) return source;
  if (!source.is_tensor()) {
    fail(ErrorKind::argument, "{}: alpha scales a tensor; the source is a number, so scale that",
         kIndexAdd.name);
  }
  const Tensor& tensor = source.tensor();
  const bool wide = tensor.defined() && x.defined() && widens(tensor.dtype(), x.dtype());
  return Source(mul(wide ? to(tensor, x.dtype()) : tensor, alpha));
}

}  // namespace
}  // namespace detail

Tensor index_add(const Tensor& x, int64_t axis, const Index& index, const Source& source,
                 const Scalar& alpha) {
  return detail::rows_call(detail::kIndexAdd, false, x, axis, index,
                           detail::scaled(x, source, alpha), Reduce::add);
}

Tensor index_add_(const Tensor& x, int64_t axis, const Index& index, const Source& source,
                  const Scalar& alpha) {
  return detail::rows_call(detail::kIndexAdd, true, x, axis, index,
                           detail::scaled(x, source, alpha), Reduce::add);
}

Tensor index_copy(const Tensor& x, int64_t axis, const Index& index, const Source& source) {
  return detail::rows_call(detail::kIndexCopy, false, x, axis, index, source, Reduce::assign);
}

Tensor index_copy_(const Tensor& x, int64_t axis, const Index& index, const Source& source) {
  return detail::rows_call(detail::kIndexCopy, true, x, axis, index, source, Reduce::assign);
}

Tensor index_fill(const Tensor& x, int64_t axis, const Index& index, const Source& value) {
  return detail::rows_call(detail::kIndexFill, false, x, axis, index, detail::fill_source(value),
                           Reduce::assign);
}

Tensor index_fill_(const Tensor& x, int64_t axis, const Index& index, const Source& value) {
  return detail::rows_call(detail::kIndexFill, true, x, axis, index, detail::fill_source(value),
                           Reduce::assign);
}

Tensor index_reduce(const Tensor& x, int64_t axis, const Index& index, const Source& source,
                    ReduceName reduce, bool include_self) {
  return detail::rows_call(detail::kIndexReduce, false, x, axis, index, source, reduce.value(),
                           include_self);
}

Tensor index_reduce_(const Tensor& x, int64_t axis, const Index& index, const Source& source,
                     ReduceName reduce, bool include_self) {
  return detail::rows_call(detail::kIndexReduce, true, x, axis, index, source, reduce.value(),
                           include_self);
}

Tensor index_select(const Tensor& x, int64_t axis, const Index& index) {
  // Of one element there is one to select, and it has no dimension either.
  if (x.defined() && x.dim() == 0 && index.keys().defined() && index.keys().dim() == 1) {
    const int64_t count = index.keys().shape()[0];
    if (count >= 0 && count != 1) {
      detail::fail(ErrorKind::shape, "index_select: x is 0-d, which takes one index, not {}",
                   count);
    }
    return index_select(x, axis, Index(select(index.keys(), 0, 0), index.bounds()));
  }
  detail::Call call = detail::make_call(detail::kIndexSelect, false, x);
  detail::add_index(call, detail::flat_keys(index));
  call.attrs.axis = axis;
  return detail::apply(std::move(call));
}

}  // namespace sow
