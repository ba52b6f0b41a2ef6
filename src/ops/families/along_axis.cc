// SPDX-License-Identifier: Apache-2.0
// Scatters and gathers along one axis, by an index of the destination's rank: put_along_axis, the
// scatter family, take_along_axis and gather.
#include "ops/defs.h"
#include "ops/gradients/indexed_grad.h"
#include "ops/gradients/rules.h"
#include "ops/like.h"
#include "ops/shapes.h"

namespace sow {
namespace detail {
namespace {

// What the arguments are called in messages.
struct Words {
  const char* destination;
  const char* index;
  const char* axis;
};

Words words(const Call& call) {
  const bool by_axis = call.op == &kPutAlongAxis || call.op == &kTakeAlongAxis;
  return by_axis ? Words{"arr", "indices", "axis"} : Words{"input", "index", "dim"};
}

// The index expands to the array off the axis; the array itself is never expanded.
Dims expanded_space(const Call& call, const Dims& arr, const Dims& index, int64_t axis) {
  Dims space = arr;
  for (int64_t d = 0; d < arr.rank(); ++d) {
    if (d == axis) continue;
    if (index[d] == 1 || may_equal(index[d], arr[d])) {
      if (!known(arr[d]) && index[d] != 1) space[d] = index[d];
      continue;
    }
    fail(ErrorKind::shape,
         "{}: indices {} do not expand to arr {}: in dimension {}, off axis {}, they must have "
         "extent 1 or arr's {} (arr itself is never expanded)",
         op_name(call), index, arr, d, axis, arr[d]);
  }
  space[axis] = index[axis];
  return space;
}

// The index covers a corner of the array.
Dims corner_space(const Call& call, const Dims& arr, const Dims& index, int64_t axis) {
  const Words word = words(call);
  for (int64_t d = 0; d < arr.rank(); ++d) {
    if (d != axis && may_exceed(index[d], arr[d])) {
      fail(ErrorKind::shape,
           "{}: {} {} is larger than {} {} in dimension {}; off {} {} it may be no larger",
           op_name(call), word.index, index, word.destination, arr, d, word.axis, axis);
    }
  }
  return index;
}

// The positions of the (expanded) index, for shapes that count as 1-d at least.
Dims space_of(const Call& call, const Dims& arr, const Dims& index) {
  const Words word = words(call);
  const char* op = op_name(call);
  const int64_t axis = wrap_axis(op, call.attrs.axis, arr.rank());
  if (index.rank() != arr.rank()) {
    fail(ErrorKind::shape,
         "{}: {} {} has rank {}, but {} {} has rank {}; they must have the same rank", op,
         word.index, index, index.rank(), word.destination, arr, arr.rank());
  }
  expect_held_size(op, call.attrs.held_size, axis, arr[axis]);
  return call.attrs.broadcast ? expanded_space(call, arr, index, axis)
                              : corner_space(call, arr, index, axis);
}

void expect_source_shape(const Call& call, const Dims& source, const Dims& space) {
  if (call.attrs.broadcast) {
    if (!broadcasts_to(source, space)) {
      fail(ErrorKind::shape, "{}: values {} do not broadcast to the indices' shape {}",
           op_name(call), source, space);
    }
    return;
  }
  const Words word = words(call);
  const char* name = call.op == &kPutAlongAxis ? "values" : "src";
  const Dims src = at_least_1d(source);
  if (src.rank() != space.rank()) {
    fail(ErrorKind::shape,
         "{}: {} {} has rank {}, but {} {} has rank {}; they must have the same rank",
         op_name(call), name, source, source.rank(), word.index, space, space.rank());
  }
  for (int d = 0; d < space.rank(); ++d) {
    if (may_exceed(space[d], src[d])) {
      fail(ErrorKind::shape, "{}: {} {} is larger than {} {} in dimension {}; it may be no larger",
           op_name(call), word.index, space, name, source, d);
    }
  }
}

Meta infer_scatter(const Call& call, const Metas& inputs) {
  const Words word = words(call);
  const Meta& arr = inputs[0];
  expect_index_dtype(op_name(call), inputs[1].dtype);
  expect_source_dtype(call, word.destination, call.op == &kPutAlongAxis ? "values" : "src", inputs,
                      2);
  expect_reducible(op_name(call), call.attrs.reduce, arr.dtype);
  const Dims space = space_of(call, at_least_1d(arr.shape), at_least_1d(inputs[1].shape));
  if (!call.attrs.scalar) expect_source_shape(call, inputs[2].shape, space);
  return arr;
}

// Strides of an operand over the space: expanded, or a corner of it.
Dims strides_over(const Call& call, const Tensor& tensor, const Dims& space) {
  if (call.attrs.broadcast) return broadcast_strides(tensor.shape(), tensor.strides(), space);
  return at_least_1d(tensor.strides());
}

void lower_scatter(const Call& call, const Tensor& out) {
  const char* op = op_name(call);
  const Tensor& index = call.inputs[1];
  const Dims shape = at_least_1d(out.shape());
  const Dims strides = at_least_1d(out.strides());
  const int64_t axis = wrap_axis(op, call.attrs.axis, shape.rank());
  const Dims space = space_of(call, shape, at_least_1d(index.shape()));

  copy_into(out, call.inputs[0], op);
  Transfer transfer = transfer_for(call, out, space);
  transfer.dst = operand(out, strides);
  transfer.dst.strides[axis] = 0;
  transfer.dst_index.push_back(
      index_operand(index, strides_over(call, index, space), axis, shape[axis], strides[axis]));
  const Tensor* source = source_of(call, 2);
  set_source(transfer, call, source,
             source ? strides_over(call, *source, space) : Dims(space.size(), 0));
  execute(transfer, out.device());
}

Meta infer_gather(const Call& call, const Metas& inputs) {
  expect_index_dtype(op_name(call), inputs[1].dtype);
  Meta out = inputs[0];
  out.shape = space_of(call, at_least_1d(inputs[0].shape), at_least_1d(inputs[1].shape));
  if (inputs[1].shape.empty()) out.shape = {};
  return out;
}

void lower_gather(const Call& call, const Tensor& out) {
  const Tensor& arr = call.inputs[0];
  const Tensor& index = call.inputs[1];
  const Dims shape = at_least_1d(arr.shape());
  const Dims strides = at_least_1d(arr.strides());
  const int64_t axis = wrap_axis(op_name(call), call.attrs.axis, shape.rank());
  const Dims space = at_least_1d(out.shape());

  Transfer transfer = transfer_for(call, out, space);
  transfer.dst = operand(out, at_least_1d(out.strides()));
  transfer.order = nullptr;  // it is of a destination
  transfer.src = operand(arr, strides);
  transfer.src.strides[axis] = 0;
  transfer.src_index.push_back(
      index_operand(index, strides_over(call, index, space), axis, shape[axis], strides[axis]));
  execute(transfer, out.device());
}

}  // namespace

namespace {

constexpr OpDef scatter_def(const char* name, const char* in_place_name) {
  return {.name = name,
          .in_place_name = in_place_name,
          .infer = infer_scatter,
          .lower = lower_scatter,
          .gradient = grad_along_axis,
          .saves = indexed_saves,
          .prepare = prepare_along_axis};
}

constexpr OpDef gather_def(const char* name) {
  return {.name = name,
          .in_place_name = nullptr,
          .infer = infer_gather,
          .lower = lower_gather,
          .gradient = grad_take_along_axis,
          .saves = saves_index};
}

}  // namespace

const OpDef kPutAlongAxis = scatter_def("put_along_axis", "put_along_axis_");
const OpDef kScatter = scatter_def("scatter", "scatter_");
const OpDef kScatterAdd = scatter_def("scatter_add", "scatter_add_");
const OpDef kScatterReduce = scatter_def("scatter_reduce", "scatter_reduce_");
const OpDef kTakeAlongAxis = gather_def("take_along_axis");
const OpDef kGather = gather_def("gather");

namespace {

// What happens where updates meet, and which of the two shape rules holds.
struct Rule {
  Reduce reduce;
  bool include_self = true;
  bool broadcast = false;
};

Tensor scatter_call(const OpDef& op, bool in_place, const Tensor& input, int64_t dim,
                    const Index& index, const Source& src, Rule rule) {
  Call call = make_call(op, in_place, input);
  add_index(call, index);
  call.attrs.reduce = rule.reduce;
  add_source(call, src);
  call.attrs.axis = dim;
  call.attrs.include_self = rule.include_self || rule.reduce == Reduce::assign;
  call.attrs.broadcast = rule.broadcast;
  return apply(std::move(call));
}

Tensor gather_call(const OpDef& op, const Tensor& input, int64_t dim, const Index& index,
                   bool broadcast) {
  Call call = make_call(op, false, input);
  add_index(call, index);
  call.attrs.axis = dim;
  call.attrs.broadcast = broadcast;
  return apply(std::move(call));
}

}  // namespace
}  // namespace detail

Tensor put_along_axis(const Tensor& arr, const Index& indices, const Source& values,
                      std::optional<int64_t> axis, ReduceName reduce, bool include_self,
                      bool broadcast) {
  const Tensor to = axis ? arr : arr.flatten();
  const Tensor out =
      detail::scatter_call(detail::kPutAlongAxis, false, to, axis.value_or(0), indices, values,
                           {reduce.value(), include_self, broadcast});
  return axis ? out : detail::shaped_as(out, arr);
}

Tensor put_along_axis_(const Tensor& arr, const Index& indices, const Source& values,
                       std::optional<int64_t> axis, ReduceName reduce, bool include_self,
                       bool broadcast) {
  const auto put_in = [&](const Tensor& to, int64_t along) {
    return detail::scatter_call(detail::kPutAlongAxis, true, to, along, indices, values,
                                {reduce.value(), include_self, broadcast});
  };
  if (axis) return put_in(arr, *axis);
  const bool recorded = arr.requires_grad() || (values.is_tensor() && values.tensor().defined() &&
                                                values.tensor().requires_grad());
  if (arr.is_contiguous() && arr.impl()->symbolic == nullptr && !recorded) {
    put_in(arr.flatten(), 0);
    return arr;
  }
  // A flat view of it there is not, or not one that may be written.
  return arr.copy_(put_along_axis(arr, indices, values, axis, reduce, include_self, broadcast));
}

Tensor scatter(const Tensor& input, int64_t dim, const Index& index, const Source& src,
               ReduceName reduce) {
  return detail::scatter_call(detail::kScatter, false, input, dim, index, src, {reduce.value()});
}

Tensor scatter_(const Tensor& input, int64_t dim, const Index& index, const Source& src,
                ReduceName reduce) {
  return detail::scatter_call(detail::kScatter, true, input, dim, index, src, {reduce.value()});
}

Tensor scatter_add(const Tensor& input, int64_t dim, const Index& index, const Source& src) {
  return detail::scatter_call(detail::kScatterAdd, false, input, dim, index, src, {Reduce::add});
}

Tensor scatter_add_(const Tensor& input, int64_t dim, const Index& index, const Source& src) {
  return detail::scatter_call(detail::kScatterAdd, true, input, dim, index, src, {Reduce::add});
}

Tensor scatter_reduce(const Tensor& input, int64_t dim, const Index& index, const Source& src,
                      ReduceName reduce, bool include_self) {
  return detail::scatter_call(detail::kScatterReduce, false, input, dim, index, src,
                              {reduce.value(), include_self});
}

Tensor scatter_reduce_(const Tensor& input, int64_t dim, const Index& index, const Source& src,
                       ReduceName reduce, bool include_self) {
  return detail::scatter_call(detail::kScatterReduce, true, input, dim, index, src,
                              {reduce.value(), include_self});
}

Tensor take_along_axis(const Tensor& arr, const Index& indices, std::optional<int64_t> axis,
                       bool broadcast) {
  return detail::gather_call(detail::kTakeAlongAxis, axis ? arr : arr.flatten(), axis.value_or(0),
                             indices, broadcast);
}

Tensor gather(const Tensor& input, int64_t dim, const Index& index) {
  return detail::gather_call(detail::kGather, input, dim, index, false);
}

}  // namespace sow
