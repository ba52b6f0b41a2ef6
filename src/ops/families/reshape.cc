// SPDX-License-Identifier: Apache-2.0
// reshape and flatten: views where the strides allow one, copies where they don't.
#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/gradients/rules.h"
#include "ops/shapes.h"

namespace sow {
namespace detail {
namespace {

// The shape asked for, with its -1 worked out. Where extents of x are unknown, it may stay.
Dims resolved_shape(const Call& call, const Dims& from, Dims to) {
  const char* op = op_name(call);
  int64_t unknown = -1;
  for (int d = 0; d < to.rank(); ++d) {
    if (to[d] >= 0) continue;
    if (to[d] != -1 || unknown >= 0) {
      fail(ErrorKind::argument, "{}: shape {} may have one extent of -1, and no other below 0", op,
           to_string(to));
    }
    unknown = d;
  }
  for (const int64_t extent : from) {
    if (!known(extent)) return to;
  }
  const int64_t count = checked_numel(from, 1, op);
  Dims rest = to;
  if (unknown >= 0) rest[unknown] = 1;
  const int64_t others = checked_numel(rest, 1, op);
  const bool fits = unknown < 0 ? others == count : others != 0 && count % others == 0;
  if (!fits) {
    fail(ErrorKind::shape, "{}: x {} has {} elements, which do not fill shape {}", op, from, count,
         to);
  }
  if (unknown >= 0) to[unknown] = count / others;
  return to;
}

Dims flat_shape(const Call& call, const Dims& x) {
  const Dims shape = at_least_1d(x);
  const int64_t first = wrap_axis(op_name(call), call.attrs.axis, shape.rank());
  const int64_t last = wrap_axis(op_name(call), call.attrs.axis2, shape.rank());
  if (first > last) {
    fail(ErrorKind::argument, "{}: first axis {} comes after last axis {}", op_name(call),
         call.attrs.axis, call.attrs.axis2);
  }
  Dims out(shape.data(), first);
  int64_t merged = 1;
  for (int64_t d = first; d <= last; ++d) {
    merged = !known(merged) || !known(shape[d]) ? -1 : merged * shape[d];
  }
  out.push_back(merged);
  return concat(out, tail(shape, last + 1));
}

// Strides under which `from` has shape `to` without moving anything; false if there are none.
// Both hold the same number of elements, at least one.
bool reshaped_strides(const Dims& from, const Dims& strides, const Dims& to, Dims& out) {
  // Dimensions of `from` that continue each other are one line; the innermost line comes first.
  struct Line {
    int64_t length, step;
  };
  std::vector<Line> lines;
  for (int d = from.rank() - 1; d >= 0; --d) {
    if (from[d] == 1) continue;
    if (!lines.empty() && strides[d] == lines.back().step * lines.back().length) {
      lines.back().length *= from[d];
    } else {
      lines.push_back({from[d], strides[d]});
    }
  }
  out = Dims(to.size(), 1);
  size_t line = 0;
  int64_t taken = 1;  // elements of the line that dimensions of `to` have taken
  for (int d = to.rank() - 1; d >= 0; --d) {
    if (to[d] == 1) continue;
    if (taken == lines[line].length) {
      ++line;
      taken = 1;
    }
    if (lines[line].length % (taken * to[d]) != 0) return false;
    out[d] = lines[line].step * taken;
    taken *= to[d];
  }
  return true;
}

Tensor reshape_to(const Tensor& x, const Dims& shape) {
  Dims strides;
  if (x.numel() != 0 && reshaped_strides(x.shape(), x.strides(), shape, strides)) {
    return make_view(x, 0, shape, strides);
  }
  return make_view(x.contiguous(), 0, shape, row_major_strides(shape));
}

Meta infer_reshape(const Call& call, const Metas& inputs) {
  Meta out = inputs[0];
  out.shape = resolved_shape(call, inputs[0].shape, call.attrs.shape);
  return out;
}

Tensor view_reshape(const Call& call) {
  const Tensor& x = call.inputs[0];
  return reshape_to(x, resolved_shape(call, x.shape(), call.attrs.shape));
}

Meta infer_flatten(const Call& call, const Metas& inputs) {
  Meta out = inputs[0];
  out.shape = flat_shape(call, inputs[0].shape);
  return out;
}

Tensor view_flatten(const Call& call) {
  return reshape_to(call.inputs[0], flat_shape(call, call.inputs[0].shape()));
}

}  // namespace

const OpDef kReshape{.name = "reshape",
                     .in_place_name = nullptr,
                     .infer = infer_reshape,
                     .view = view_reshape,
                     .gradient = grad_reshape};
const OpDef kFlatten{.name = "flatten",
                     .in_place_name = nullptr,
                     .infer = infer_flatten,
                     .view = view_flatten,
                     .gradient = grad_reshape};

}  // namespace detail

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  detail::Call call = detail::make_call(detail::kFlatten, false, x);
  call.attrs.axis = first;
  call.attrs.axis2 = last;
  return detail::apply(std::move(call));
}

Tensor reshape(const Tensor& x, const Dims& shape) {
  detail::Call call = detail::make_call(detail::kReshape, false, x);
  call.attrs.shape = shape;
  return detail::apply(std::move(call));
}

}  // namespace sow
