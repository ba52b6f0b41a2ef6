// SPDX-License-Identifier: Apache-2.0
// group_reduce: every reduction by group, those of scatters and those that no scatter has. The
// steps of var, std and logsumexp are in float64, sums exact (docs/semantics.md).
#include <limits>

#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/gradients/indexed_grad.h"
#include "ops/gradients/rule_ops.h"
#include "ops/groups/grouping.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/autograd.h"
#include "sow/groups.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool needs_floating(GroupKind kind) {
  return kind == GroupKind::var || kind == GroupKind::std || kind == GroupKind::logsumexp;
}
bool is_arg(GroupKind kind) { return kind == GroupKind::argmax || kind == GroupKind::argmin; }

int64_t axis_of(const Call& call, const Tensor& source) {
  return wrap_axis(op_name(call), call.attrs.axis, source.dim());
}

// By how much the squares of a group are divided: its count less the correction, no less than 0.
Tensor freedom(const Call& call, const Tensor& counts) {
  const int64_t correction = call.attrs.step;
  const Tensor left = where(gt(counts, correction), sub(counts, correction), 0);
  return to(left, DType::float64);
}

void lower_var(const Call& call, const Grouping& groups, const Tensor& out) {
  const Tensor x = to(groups.source(), DType::float64);
  const Tensor mean = groups.folded(x, Reduce::mean, 0.0);
  const Tensor off = sub(x, groups.spread(mean));
  const Tensor squares = groups.folded(mul(off, off), Reduce::add, 0.0);
  const Tensor var = div(squares, freedom(call, groups.counts(squares)));
  round_into(out, group_kind(call) == GroupKind::std ? sqrt(var) : var);
}

// An infinite maximum would leave NaN where infinities are subtracted.
void lower_logsumexp(const Grouping& groups, const Tensor& out) {
  const Tensor x = to(groups.source(), DType::float64);
  const Tensor most = groups.folded(x, Reduce::amax, -kInfinity);
  const Tensor shift = where(eq(abs(most), kInfinity), 0.0, most);
  const Tensor sums = groups.folded(exp(sub(x, groups.spread(shift))), Reduce::add, 0.0);
  round_into(out, add(log(sums), shift));
}

void lower_arg(const Call& call, const Grouping& groups, const Tensor& out) {
  const Tensor& x = groups.source();
  const bool last = call.attrs.wrap;
  const Reduce reduce = group_kind(call) == GroupKind::argmax ? Reduce::amax : Reduce::amin;
  const Tensor best = groups.folded(x, reduce, empty_value(reduce, x.dtype()));
  const Tensor wins = same(x, groups.spread(best));
  const int64_t none = at_least_1d(x.shape())[axis_of(call, x)];
  const Tensor places = where(wins, call.inputs[2], last ? -1 : none);
  const Tensor winner = groups.folded(places, last ? Reduce::amax : Reduce::amin, last ? -1 : none);
  round_into(out, last ? where(lt(winner, 0), none, winner) : winner);
}

// The first of a group is the last of it from behind.
Tensor from_behind(const Call& call, const Tensor& x, const Tensor& source) {
  if (x.dim() == 0) return x;
  return x.flip(x.dim() == 1 ? 0 : axis_of(call, source));
}

// What the rule of a plain reduction is made from: the scatter onto `result`.
Call plain_scatter(const Backward& b, const Grouping& groups) {
  return groups.as_scatter(groups.source(), b.result, b.call.attrs.reduce);
}

Tensor grad_var(const Backward& b, const Grouping& groups) {
  const DType wide = DType::float64;
  const Tensor x = to(groups.source(), wide), grad = to(b.grad, wide);
  Call mean{&kGroupReduce, {x, b.input(1)}, b.call.attrs, false};
  mean.attrs.offset = static_cast<int64_t>(GroupKind::plain);
  mean.attrs.reduce = Reduce::mean;
  const Tensor off = sub(x, groups.spread(apply(std::move(mean))));
  const Tensor free = freedom(b.call, groups.counts(b.result));
  const bool root = group_kind(b.call) == GroupKind::std;
  const Tensor weight = root ? div(grad, mul(free, to(b.result, wide))) : div(mul(grad, 2), free);
  return to(mul(off, groups.spread(weight)), b.input(0).dtype());
}

Tensor grad_logsumexp(const Backward& b, const Grouping& groups) {
  const DType wide = DType::float64;
  Call softmax{&kGroupSoftmax, {to(groups.source(), wide), b.input(1)}, b.call.attrs, false};
  softmax.attrs.offset = 0;
  softmax.attrs.step = 1;
  const Tensor shares = apply(std::move(softmax));
  return to(mul(groups.spread(to(b.grad, wide)), shares), b.input(0).dtype());
}

TensorList grad_group_reduce(const Backward& b) {
  TensorList out(b.call.inputs.size());
  out[0] = group_gradient(b, Grouping(b.call));
  return out;
}

void lower_group_reduce(const Call& call, const Tensor& out) {
  lower_groups(call, Grouping(call), out);
}

struct Named {
  std::string_view name;
  GroupKind kind;
  Reduce reduce;
};
constexpr Named kNames[] = {{"count", GroupKind::count, Reduce::assign},
                            {"any", GroupKind::plain, Reduce::amax},
                            {"all", GroupKind::plain, Reduce::amin},
                            {"var", GroupKind::var, Reduce::assign},
                            {"std", GroupKind::std, Reduce::assign},
                            {"logsumexp", GroupKind::logsumexp, Reduce::assign},
                            {"first", GroupKind::first, Reduce::assign},
                            {"last", GroupKind::last, Reduce::assign},
                            {"argmax", GroupKind::argmax, Reduce::assign},
                            {"argmin", GroupKind::argmin, Reduce::assign}};

}  // namespace

Meta infer_group_reduce(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  const GroupKind kind = group_kind(call);
  Meta out = infer_groups(call, inputs);
  if (kind < GroupKind::plain || kind > GroupKind::argmin) {
    fail(ErrorKind::argument, "{}: unknown reduction {}", op, call.attrs.offset);
  }
  const bool placed = inputs.size() == 3 && inputs[2].dtype == DType::int64;
  if (is_arg(kind) ? !placed : inputs.size() != 2) {
    fail(ErrorKind::argument, "{}: the reduction has the wrong number of operands", op);
  }
  if (kind == GroupKind::plain) expect_reducible(op, call.attrs.reduce, out.dtype);
  if (needs_floating(kind) && !is_floating(out.dtype)) {
    fail(ErrorKind::type, "{}: src is {}; var, std and logsumexp take floating types", op,
         out.dtype);
  }
  if (is_arg(kind) && is_complex(out.dtype)) {
    fail(ErrorKind::type, "{}: argmax and argmin need an order, and {} has none", op, out.dtype);
  }
  if (kind == GroupKind::count || is_arg(kind)) out.dtype = DType::int64;
  return out;
}

void lower_groups(const Call& call, const Grouping& groups, const Tensor& out) {
  const Reduce reduce = call.attrs.reduce;
  switch (group_kind(call)) {
    case GroupKind::plain:
      fill_with(out, empty_value(reduce, out.dtype()));
      return groups.fold_into(out, groups.source(), reduce);
    case GroupKind::count:
      return copy_into(out, groups.counts(out), op_name(call));
    case GroupKind::var:
    case GroupKind::std:
      return lower_var(call, groups, out);
    case GroupKind::logsumexp:
      return lower_logsumexp(groups, out);
    case GroupKind::last:
      fill_with(out, false);
      return groups.fold_into(out, groups.source(), Reduce::assign);
    case GroupKind::first: {
      fill_with(out, false);
      const Tensor& x = groups.source();
      const Grouping turned(call, from_behind(call, call.inputs[1], x));
      return turned.fold_into(out, from_behind(call, x, x), Reduce::assign);
    }
    default:
      return lower_arg(call, groups, out);
  }
}

Tensor group_gradient(const Backward& b, const Grouping& groups) {
  const Tensor& x = groups.source();
  switch (group_kind(b.call)) {
    case GroupKind::plain:
      return groups.scatter_gradient(plain_scatter(b, groups), b.result, b.grad);
    case GroupKind::last:
      return groups.scatter_gradient(groups.as_scatter(x, b.result, Reduce::assign), b.result,
                                     b.grad);
    case GroupKind::first: {
      const Grouping turned(b.call, from_behind(b.call, b.input(1), x));
      const Call scatter = turned.as_scatter(from_behind(b.call, x, x), b.result, Reduce::assign);
      // Libraries that gradients go to do not all take negative strides.
      return from_behind(b.call, turned.scatter_gradient(scatter, b.result, b.grad), x).clone();
    }
    case GroupKind::logsumexp:
      return grad_logsumexp(b, groups);
    default:
      return grad_var(b, groups);
  }
}

uint64_t saves_group_reduce(const Call& call, uint64_t) {
  const Reduce reduce = call.attrs.reduce;
  switch (group_kind(call)) {
    case GroupKind::plain: {
      const bool reads = reduce == Reduce::mul || reduce == Reduce::amax || reduce == Reduce::amin;
      return reads ? 3 | kSaveResult : 2;
    }
    case GroupKind::std:
      return 3 | kSaveResult;
    case GroupKind::first:
    case GroupKind::last:
      return 2;
    default:
      return 3;
  }
}

void set_group_reduction(Call& call, std::string_view reduce, int64_t correction) {
  Attrs& attrs = call.attrs;
  attrs.step = correction;
  for (const Named& named : kNames) {
    if (named.name != reduce) continue;
    attrs.offset = static_cast<int64_t>(named.kind);
    attrs.reduce = named.reduce;
    Tensor& x = call.inputs[0];
    if (named.kind == GroupKind::plain && x.dtype() != DType::bool_) x = ne(x, 0);
    if (is_arg(named.kind)) {
      const int64_t axis = wrap_axis(op_name(call), attrs.axis, x.dim());
      const Tensor whole = x.dim() == 0 ? unsqueeze(x, 0) : x;
      call.inputs.push_back(positions_like(whole, axis, axis + 1));
    }
    return;
  }
  try {
    attrs.reduce = ReduceName(reduce).value();
  } catch (const Error&) {
    fail(ErrorKind::argument,
         "{}: unknown reduction \"{}\"; the names are add = sum, mul = multiply = prod, amax = "
         "max, amin = min, mean, bitwise_and, bitwise_or, bitwise_xor, count, any, all, var, std, "
         "logsumexp, first, last, argmax, argmin",
         op_name(call), reduce);
  }
  if (attrs.reduce == Reduce::assign) attrs.offset = static_cast<int64_t>(GroupKind::last);
}

const OpDef kGroupReduce{.name = "group_reduce",
                         .in_place_name = nullptr,
                         .infer = infer_group_reduce,
                         .lower = lower_group_reduce,
                         .gradient = grad_group_reduce,
                         .saves = saves_group_reduce};

}  // namespace detail

Tensor group_reduce(const Tensor& src, const Index& index, std::string_view reduce, int64_t axis,
                    std::optional<int64_t> size, int64_t correction, bool last_of_ties) {
  detail::Call call = detail::make_call(detail::kGroupReduce, false, src);
  detail::add_index(call, index);
  call.attrs.axis = axis;
  call.attrs.shape = {size ? *size : detail::size_of_groups("group_reduce", index)};
  call.attrs.wrap = last_of_ties;
  detail::set_group_reduction(call, reduce, correction);
  return detail::apply(std::move(call));
}

}  // namespace sow
