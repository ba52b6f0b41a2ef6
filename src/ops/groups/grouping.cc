// SPDX-License-Identifier: Apache-2.0
// Folding a source into its groups and spreading groups over it, by the scatters and gathers along
// an axis.
#include "ops/groups/grouping.h"

#include <cmath>
#include <limits>

#include "core/dtype_switch.h"
#include "core/tensor/layout.h"
#include "ops/defs.h"
#include "ops/gradients/rules.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/math.h"

namespace sow::detail {

Meta infer_groups(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  expect_index_dtype(op, inputs[1].dtype);
  if (call.attrs.shape.size() != 1 || call.attrs.shape[0] < 0) {
    fail(ErrorKind::argument, "{}: size must be 0 or more", op);
  }
  const int64_t size = call.attrs.shape[0];
  Meta out = inputs[0];
  out.shape = at_least_1d(out.shape);
  const Dims source = out.shape, index = at_least_1d(inputs[1].shape);
  const int64_t axis = wrap_axis(op, call.attrs.axis, source.rank());
  expect_held_size(op, call.attrs.held_size, axis, size);
  out.shape[axis] = size;
  if (index.rank() == 1 && may_equal(index[0], source[axis])) return out;
  bool fits = index.rank() == source.rank() && index.rank() > 1 && broadcasts_to(index, source) &&
              may_equal(index[axis], source[axis]);
  if (!fits) {
    fail(ErrorKind::shape,
         "{}: index has shape {}, src {}; an index has one key for each of the {} slices along "
         "axis {}, or the rank of src and its extent on that axis",
         op, inputs[1].shape, inputs[0].shape, source[axis], axis);
  }
  return out;
}

GroupKind group_kind(const Call& call) { return static_cast<GroupKind>(call.attrs.offset); }

Scalar empty_value(Reduce reduce, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool highest = reduce == Reduce::amin;
  if (reduce == Reduce::bit_and) {
    return dtype == DType::bool_ ? Scalar(true)
           : is_unsigned(dtype)  ? empty_value(Reduce::amin, dtype)
                                 : Scalar(-1);
  }
  if (reduce == Reduce::mul) return Scalar(true);
  if (reduce == Reduce::mean && is_differentiable(dtype)) return Scalar(std::nan(""));
  if (reduce != Reduce::amax && reduce != Reduce::amin) return Scalar(false);
  if (is_floating(dtype)) return Scalar(highest ? kInfinity : -kInfinity);
  Scalar value(highest);
  with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using Limits = std::numeric_limits<T>;
      value = highest ? Limits::max() : Limits::lowest();
    }
  });
  return value;
}

void fill_with(const Tensor& out, const Scalar& value) {
  Attrs attrs;
  attrs.scalar = value;
  const Call call{&kFill, {out}, attrs, true};
  kFill.lower(call, out);
}

void round_into(const Tensor& out, const Tensor& x) {
  if (x.dtype() == out.dtype()) return copy_into(out, x, "copy");
  const Call call{&kTo, {x}, {}, false};
  kTo.lower(call, out);
}

Call Grouping::scatter_call(const Tensor& onto, Reduce reduce) const {
  Call call;
  call.attrs.axis = call_.attrs.axis;
  call.attrs.bounds = call_.attrs.bounds;
  call.attrs.order = call_.attrs.order;
  call.attrs.held_size = call_.attrs.held_size;
  call.attrs.reduce = reduce;
  call.attrs.include_self = reduce == Reduce::assign;
  call.inputs = {onto, index_};
  return call;
}

void Grouping::fold_into(const Tensor& out, const Tensor& from, Reduce reduce) const {
  OpDef op = by_slices() ? kIndexReduce : kPutAlongAxis;
  op.name = op.in_place_name = op_name(call_);  // messages speak of what was called
  Call call = scatter_call(out, reduce);
  call.op = &op;
  call.in_place = true;
  call.inputs.push_back(from);
  op.lower(call, out);
}

Tensor Grouping::folded(const Tensor& from, Reduce reduce, const Scalar& empty) const {
  Dims shape = at_least_1d(from.shape());
  shape[wrap_axis(op_name(call_), call_.attrs.axis, shape.rank())] = size();
  const Tensor out = Tensor::empty(shape, from.dtype(), from.device());
  fill_with(out, empty);
  fold_into(out, from, reduce);
  return out;
}

Tensor Grouping::spread(const Tensor& groups) const {
  Call call = scatter_call(groups, Reduce::assign);
  call.op = by_slices() ? &kIndexSelect : &kTakeAlongAxis;
  const Tensor out = apply(std::move(call));
  return source().dim() == 0 ? reshape_like(out, source()) : out;
}

Tensor Grouping::counts(const Tensor& result) const {
  const bool slices = by_slices();
  const Tensor none = slices ? Tensor::zeros({size()}, DType::int64, result.device())
                             : full_like(result, 0, DType::int64);
  Call call = scatter_call(none, Reduce::add);
  call.op = slices ? &kIndexFill : &kPutAlongAxis;
  call.attrs.include_self = true;
  call.attrs.scalar = Scalar(int64_t{1});
  if (slices) call.attrs.axis = 0;
  const Tensor counts = apply(std::move(call));
  if (!slices) return counts;
  Dims shape(result.shape().size(), 1);
  shape[wrap_axis(op_name(call_), call_.attrs.axis, result.dim())] = size();
  return counts.reshape(shape);
}

Tensor Grouping::kept(const Tensor& result) const {
  if (call_.attrs.bounds != Bounds::drop) return {};
  return spread(full_like(result, true, DType::bool_));
}

Call Grouping::as_scatter(const Tensor& source, const Tensor& result, Reduce reduce) const {
  Call call = scatter_call(result, reduce);
  call.op = by_slices() ? &kIndexReduce : &kPutAlongAxis;
  call.inputs.push_back(source);
  return call;
}

Tensor Grouping::scatter_gradient(const Call& scatter, const Tensor& result,
                                  const Tensor& grad) const {
  const Backward backward{scatter, result, grad, uint64_t{1} << 2};
  return (by_slices() ? grad_rows : grad_along_axis)(backward)[2];
}

}  // namespace sow::detail
