// SPDX-License-Identifier: Apache-2.0
// Exact sums and means over axes: Transfers whose destination does not move along those axes.
#include "core/tensor/layout.h"
#include "ops/defs.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

// Which axes of a tensor of this rank are summed: those named, or all.
std::vector<bool> summed_axes(const Call& call, int rank) {
  std::vector<bool> summed(rank, call.attrs.shape.empty());
  for (const int64_t axis : call.attrs.shape) {
    const int64_t d = wrap_axis(op_name(call), axis, rank);
    if (rank == 0) continue;
    if (summed[d]) {
      fail(ErrorKind::argument, "{}: axis {} is named twice", op_name(call), d);
    }
    summed[d] = true;
  }
  return summed;
}

Dims wrapped_axes(const Call& call, int rank) {
  const std::vector<bool> summed = summed_axes(call, rank);
  Dims axes;
  for (int d = 0; d < rank; ++d) {
    if (summed[d]) axes.push_back(d);
  }
  return axes;
}

Meta infer_sum(const Call& call, const Metas& inputs) {
  const Meta& x = inputs[0];
  expect_reducible(op_name(call), call.attrs.reduce, x.dtype);
  const std::vector<bool> summed = summed_axes(call, x.shape.rank());
  Meta out = x;
  out.shape = {};
  bool nothing = false;
  for (int d = 0; d < x.shape.rank(); ++d) {
    nothing = nothing || (summed[d] && x.shape[d] == 0);
    if (!summed[d]) out.shape.push_back(x.shape[d]);
    if (summed[d] && call.attrs.keepdim) out.shape.push_back(1);
  }
  if (nothing && call.attrs.reduce == Reduce::mean && is_integer(x.dtype)) {
    fail(ErrorKind::shape, "{}: x {} has no elements to take the mean of", op_name(call), x.shape);
  }
  return out;
}

void lower_sum(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  const std::vector<bool> summed = summed_axes(call, x.dim());
  Transfer transfer = transfer_for(call, out, x.shape());
  transfer.include_self = false;
  transfer.src = operand(x, x.strides());
  transfer.dst = operand(out, Dims(x.shape().size(), 0));
  int at = 0;
  for (int d = 0; d < x.dim(); ++d) {
    if (!summed[d]) transfer.dst.strides[d] = out.strides()[at];
    if (!summed[d] || call.attrs.keepdim) ++at;
  }
  if (x.numel() == 0 && out.numel() != 0) {
    const bool is_mean = call.attrs.reduce == Reduce::mean;
    out.fill_(is_mean ? Scalar(std::numeric_limits<double>::quiet_NaN()) : Scalar(false));
    return;
  }
  execute(transfer, out.device());
}

// The axes the result has lost, which expand_like must bring back.
Dims lost_axes(const Backward& b) {
  return b.call.attrs.keepdim ? Dims{} : wrapped_axes(b.call, b.input(0).dim());
}

TensorList grad_sum(const Backward& b) { return {expand_like(b.grad, b.input(0), lost_axes(b))}; }

TensorList grad_mean(const Backward& b) {
  return {expand_like(share_among(b.grad, b.input(0)), b.input(0), lost_axes(b))};
}

}  // namespace

const OpDef kSum{.name = "sum",
                 .in_place_name = nullptr,
                 .infer = infer_sum,
                 .lower = lower_sum,
                 .gradient = grad_sum};
const OpDef kMean{.name = "mean",
                  .in_place_name = nullptr,
                  .infer = infer_sum,
                  .lower = lower_sum,
                  .gradient = grad_mean};

namespace {

Tensor sum_call(const OpDef& op, Reduce reduce, const Tensor& x, const Dims& axes, bool keepdim) {
  Call call = make_call(op, false, x);
  call.attrs.reduce = reduce;
  call.attrs.shape = axes;
  call.attrs.keepdim = keepdim;
  return apply(std::move(call));
}

}  // namespace
}  // namespace detail

Tensor sum(const Tensor& x, const Dims& axes, bool keepdim) {
  return detail::sum_call(detail::kSum, Reduce::add, x, axes, keepdim);
}

Tensor mean(const Tensor& x, const Dims& axes, bool keepdim) {
  return detail::sum_call(detail::kMean, Reduce::mean, x, axes, keepdim);
}

}  // namespace sow
