// SPDX-License-Identifier: Apache-2.0
// Scatters to regular places, which are strided copies: diagonal_scatter, select_scatter,
// slice_scatter and fill_diagonal.
#include "ops/defs.h"
#include "ops/families/views.h"
#include "ops/gradients/rules.h"
#include "ops/shapes.h"
#include "sow/autograd.h"

namespace sow {
namespace detail {
namespace {

// The part of input that a call writes.
Part written_part(const Call& call, const Dims& shape, const Dims& strides) {
  if (call.op == &kDiagonalScatter) return diagonal_part(call, "input", shape, strides);
  if (call.op == &kSelectScatter) return select_part(call, "input", shape, strides);
  return slice_part(call, "input", shape, strides);
}

// "the diagonal of input [3, 4] with offset 1", for the message about src's shape.
std::string describe_part(const Call& call, const Dims& shape) {
  const Attrs& attrs = call.attrs;
  if (call.op == &kDiagonalScatter) {
    return text("the diagonal of input {} with offset {}", shape, attrs.offset);
  }
  if (call.op == &kSelectScatter) {
    return text("position {} on axis {} of input {}", attrs.start, attrs.axis, shape);
  }
  const std::string stop = attrs.stop == kEnd ? std::string("end") : std::to_string(attrs.stop);
  return text("the slice {}:{}:{} on axis {} of input {}", attrs.start, stop, attrs.step,
              attrs.axis, shape);
}

Meta infer_slice_scatter(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  const Meta& input = inputs[0];
  const Meta& src = inputs[1];
  expect_same_dtype(op, "input", input.dtype, "src", src.dtype);
  const Part part = written_part(call, input.shape, {});
  if (!may_equal(src.shape, part.shape)) {
    fail(ErrorKind::shape, "{}: src has shape {}, but {} has shape {}", op, src.shape,
         describe_part(call, input.shape), part.shape);
  }
  return input;
}

void lower_slice_scatter(const Call& call, const Tensor& out) {
  copy_into(out, call.inputs[0], op_name(call));
  const Part part = written_part(call, out.shape(), out.strides());
  copy_into(view_of(out, part), call.inputs[1], op_name(call));
}

Meta infer_fill_diagonal(const Call& call, const Metas& inputs) {
  const Dims& shape = inputs[0].shape;
  expect_fill_value(call, "x", inputs, 1);
  if (shape.size() < 2) {
    fail(ErrorKind::shape, "{}: x {} has {} dimension{}; it needs at least 2", op_name(call), shape,
         shape.size(), shape.size() == 1 ? "" : "s");
  }
  for (size_t d = 1; shape.size() > 2 && d < shape.size(); ++d) {
    if (!may_equal(shape[d], shape[0])) {
      fail(ErrorKind::shape, "{}: x {} has more than 2 dimensions, whose extents must all be equal",
           op_name(call), shape);
    }
  }
  return inputs[0];
}

Transfer fill_of_part(const Call& call, const Tensor& out, const Part& part) {
  const Tensor view = view_of(out, part);
  Transfer transfer = transfer_for(call, view, part.shape);
  transfer.dst = operand(view, part.strides);
  set_fill_value(transfer, call, 1);
  return transfer;
}

void lower_fill_diagonal(const Call& call, const Tensor& out) {
  copy_into(out, call.inputs[0], op_name(call));
  const Dims& shape = out.shape();
  const Dims& strides = out.strides();
  int64_t step = 0;  // from one place of the diagonal to the next
  for (const int64_t stride : strides) step += stride;
  const int64_t length = *std::min_element(shape.begin(), shape.end());
  // Places are moved along their rows: those from `first` on, up to `last`, stay inside.
  const int64_t columns = shape.back();
  const int64_t offset = std::clamp(call.attrs.offset, -columns, columns);
  const int64_t first = std::max<int64_t>(0, -offset),
                last = columns - std::max<int64_t>(0, offset);
  const auto moved = [&](int64_t begin, int64_t blocks, int64_t between, int64_t most) {
    const int64_t count = std::max<int64_t>(0, std::min(most, last) - first);
    const bool none = blocks == 0 || count == 0;
    const int64_t start = none ? 0 : begin + first * step + offset * strides.back();
    return fill_of_part(call, out, {start, {blocks, count}, {between, step}});
  };
  const bool wraps = call.attrs.wrap && shape.size() == 2 && shape[0] > shape[1];
  if (!wraps) return execute(moved(0, 1, 0, length), out.device());
  // After each whole diagonal one row is left out, and the next one begins.
  const int64_t rows = shape[1] + 1;
  const int64_t whole = shape[0] / rows;
  const int64_t left = shape[0] - whole * rows;
  // Both are made before one runs: once something is written nothing may fail.
  const Transfer blocks = moved(0, whole, rows * strides[0], shape[1]);
  const Transfer rest = moved(whole * rows * strides[0], 1, 0, left);
  execute(blocks, out.device());
  execute(rest, out.device());
}

constexpr OpDef slice_def(const char* name, const char* in_place_name) {
  return {.name = name,
          .in_place_name = in_place_name,
          .infer = infer_slice_scatter,
          .lower = lower_slice_scatter,
          .keeps_layout = true,
          .gradient = grad_part_scatter};
}

}  // namespace

const OpDef kDiagonalScatter = slice_def("diagonal_scatter", "diagonal_scatter_");
const OpDef kSelectScatter = slice_def("select_scatter", "select_scatter_");
const OpDef kSliceScatter = slice_def("slice_scatter", "slice_scatter_");
const OpDef kFillDiagonal{.name = "fill_diagonal",
                          .in_place_name = "fill_diagonal_",
                          .infer = infer_fill_diagonal,
                          .lower = lower_fill_diagonal,
                          .gradient = grad_fill_diagonal};

namespace {

Call part_call(const OpDef& op, bool in_place, const Tensor& input, const Tensor& src,
               int64_t axis) {
  Call call = make_call(op, in_place, input);
  call.inputs.push_back(src);
  call.attrs.axis = axis;
  return call;
}

Tensor diagonal_call(bool in_place, const Tensor& input, const Tensor& src, int64_t offset,
                     int64_t axis1, int64_t axis2) {
  Call call = part_call(kDiagonalScatter, in_place, input, src, axis1);
  call.attrs.offset = offset;
  call.attrs.axis2 = axis2;
  return apply(std::move(call));
}

Tensor select_call(bool in_place, const Tensor& input, const Tensor& src, int64_t dim,
                   int64_t index) {
  Call call = part_call(kSelectScatter, in_place, input, src, dim);
  call.attrs.start = index;
  return apply(std::move(call));
}

Tensor slice_call(bool in_place, const Tensor& input, const Tensor& src, int64_t dim, int64_t start,
                  int64_t stop, int64_t step) {
  Call call = part_call(kSliceScatter, in_place, input, src, dim);
  call.attrs.start = start;
  call.attrs.stop = stop;
  call.attrs.step = step;
  return apply(std::move(call));
}

Tensor fill_diagonal_call(bool in_place, const Tensor& x, const Source& value, bool wrap,
                          int64_t offset) {
  Call call = make_call(kFillDiagonal, in_place, x);
  add_source(call, fill_source(value));
  call.attrs.wrap = wrap;
  call.attrs.offset = offset;
  return apply(std::move(call));
}

// The parts of input that slices along several axes mean, one inside of the other; input first.
TensorList nested_parts(const char* op, const Tensor& input, const Dims& dims, const Dims& starts,
                        const Dims& stops, const Dims& steps) {
  if (dims.empty() || starts.size() != dims.size() || stops.size() != dims.size() ||
      steps.size() != dims.size()) {
    fail(ErrorKind::argument,
         "{}: {} axes, {} starts, {} stops and {} steps; there must be as many of each, and one at "
         "least",
         op, dims.size(), starts.size(), stops.size(), steps.size());
  }
  TensorList parts{input};
  for (size_t i = 0; i < dims.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (wrap_axis(op, dims[i], input.dim()) != wrap_axis(op, dims[j], input.dim())) continue;
      fail(ErrorKind::argument, "{}: axis {} is given twice", op, dims[i]);
    }
    parts.push_back(slice(parts.back(), dims[i], starts[i], stops[i], steps[i]));
  }
  return parts;
}

void expect_fits_part(const char* op, const Tensor& src, const Tensor& part) {
  if (!broadcasts_to(src.shape(), part.shape())) {
    fail(ErrorKind::shape, "{}: src {} does not broadcast to the part of input, {}", op,
         src.shape(), part.shape());
  }
}

}  // namespace
}  // namespace detail

Tensor slice_scatter(const Tensor& input, const Tensor& src, const Dims& dims, const Dims& starts,
                     const Dims& stops, const Dims& steps) {
  const char* op = detail::kSliceScatter.name;
  TensorList parts = detail::nested_parts(op, input, dims, starts, stops, steps);
  detail::expect_fits_part(op, src, parts.back());
  Tensor value = src.shape() == parts.back().shape() ? src : parts.back().clone().copy_(src);
  for (size_t i = dims.size(); i-- > 0;) {
    value = slice_scatter(parts[i], value, dims[i], starts[i], stops[i], steps[i]);
  }
  return value;
}

Tensor slice_scatter_(const Tensor& input, const Tensor& src, const Dims& dims, const Dims& starts,
                      const Dims& stops, const Dims& steps) {
  // What autograd records is not written through a view.
  if (grad_enabled() && (input.requires_grad() || src.requires_grad())) {
    return input.copy_(slice_scatter(input, src, dims, starts, stops, steps));
  }
  const char* op = detail::kSliceScatter.in_place_name;
  const TensorList parts = detail::nested_parts(op, input, dims, starts, stops, steps);
  detail::expect_fits_part(op, src, parts.back());
  parts.back().copy_(src);
  return input;
}

Tensor diagonal_scatter(const Tensor& input, const Tensor& src, int64_t offset, int64_t axis1,
                        int64_t axis2) {
  return detail::diagonal_call(false, input, src, offset, axis1, axis2);
}

Tensor diagonal_scatter_(const Tensor& input, const Tensor& src, int64_t offset, int64_t axis1,
                         int64_t axis2) {
  return detail::diagonal_call(true, input, src, offset, axis1, axis2);
}

Tensor select_scatter(const Tensor& input, const Tensor& src, int64_t dim, int64_t index) {
  return detail::select_call(false, input, src, dim, index);
}

Tensor select_scatter_(const Tensor& input, const Tensor& src, int64_t dim, int64_t index) {
  return detail::select_call(true, input, src, dim, index);
}

Tensor slice_scatter(const Tensor& input, const Tensor& src, int64_t dim, int64_t start,
                     int64_t stop, int64_t step) {
  return detail::slice_call(false, input, src, dim, start, stop, step);
}

Tensor slice_scatter_(const Tensor& input, const Tensor& src, int64_t dim, int64_t start,
                      int64_t stop, int64_t step) {
  return detail::slice_call(true, input, src, dim, start, stop, step);
}

Tensor fill_diagonal(const Tensor& x, const Source& value, bool wrap, int64_t offset) {
  return detail::fill_diagonal_call(false, x, value, wrap, offset);
}

Tensor fill_diagonal_(const Tensor& x, const Source& value, bool wrap, int64_t offset) {
  return detail::fill_diagonal_call(true, x, value, wrap, offset);
}

}  // namespace sow
