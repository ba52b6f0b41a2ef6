// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax by group. Every step is in float64 and the sum exact; the result is
// rounded to the type once.
#include <limits>

#include "ops/defs.h"
#include "ops/groups/grouping.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/groups.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

Meta infer_softmax(const Call& call, const Metas& inputs) {
  infer_groups(call, inputs);
  if (!is_floating(inputs[0].dtype)) {
    fail(ErrorKind::type, "{}: src is {}; it must be of a floating type", op_name(call),
         inputs[0].dtype);
  }
  return inputs[0];
}

// The result where the index is kept; what is dropped has no group, and gets 0.
void write(const Grouping& groups, const Tensor& wide, const Tensor& result, const Tensor& out) {
  const Tensor kept = groups.kept(wide);
  round_into(out, kept.defined() ? where(kept, result, 0.0) : result);
}

void lower_softmax(const Call& call, const Tensor& out) {
  const Grouping groups(call);
  const Tensor x = to(groups.source(), DType::float64);
  const Tensor most = groups.folded(x, Reduce::amax, -std::numeric_limits<double>::infinity());
  const Tensor off = sub(x, groups.spread(most));
  const Tensor powers = exp(off);
  const Tensor sums = groups.folded(powers, Reduce::add, 0.0);
  const bool logs = call.op == &kGroupLogSoftmax;
  write(groups, sums, logs ? sub(off, groups.spread(log(sums))) : div(powers, groups.spread(sums)),
        out);
}

// A sum by group that can be differentiated.
Tensor sums_of(const Backward& b, const Tensor& x) {
  Call call{&kGroupReduce, {x, b.input(1)}, b.call.attrs, false};
  call.attrs.reduce = Reduce::add;
  return apply(std::move(call));
}

TensorList grad_softmax(const Backward& b) {
  const Grouping groups(b.call);
  const Tensor y = to(b.result, DType::float64), grad = to(b.grad, DType::float64);
  const Tensor mean = groups.spread(sums_of(b, mul(grad, y)));
  return {to(mul(sub(grad, mean), y), b.input(0).dtype()), {}};
}

TensorList grad_log_softmax(const Backward& b) {
  const Grouping groups(b.call);
  const Tensor y = to(b.result, DType::float64), grad = to(b.grad, DType::float64);
  const Tensor sums = sums_of(b, grad);
  Tensor out = sub(grad, mul(exp(y), groups.spread(sums)));
  const Tensor kept = groups.kept(sums);
  if (kept.defined()) out = where(kept, out, 0.0);
  return {to(out, b.input(0).dtype()), {}};
}

uint64_t saves_softmax(const Call&, uint64_t) { return 3 | kSaveResult; }

Tensor softmax_call(const OpDef& op, const Tensor& src, const Index& index, int64_t axis,
                    std::optional<int64_t> size) {
  Call call = make_call(op, false, src);
  add_index(call, index);
  call.attrs.axis = axis;
  call.attrs.shape = {size ? *size : size_of_groups(op.name, index)};
  return apply(std::move(call));
}

}  // namespace

const OpDef kGroupSoftmax{.name = "group_softmax",
                          .in_place_name = nullptr,
                          .infer = infer_softmax,
                          .lower = lower_softmax,
                          .gradient = grad_softmax,
                          .saves = saves_softmax};
const OpDef kGroupLogSoftmax{.name = "group_log_softmax",
                             .in_place_name = nullptr,
                             .infer = infer_softmax,
                             .lower = lower_softmax,
                             .gradient = grad_log_softmax,
                             .saves = saves_softmax};

}  // namespace detail

Tensor group_softmax(const Tensor& src, const Index& index, int64_t axis,
                     std::optional<int64_t> size) {
  return detail::softmax_call(detail::kGroupSoftmax, src, index, axis, size);
}

Tensor group_log_softmax(const Tensor& src, const Index& index, int64_t axis,
                         std::optional<int64_t> size) {
  return detail::softmax_call(detail::kGroupLogSoftmax, src, index, axis, size);
}

}  // namespace sow
