// SPDX-License-Identifier: Apache-2.0
// The gradient rules of indexed scatters: docs/gradients.md has them in one table.
#include "ops/gradients/indexed_call.h"
#include "sow/autograd.h"

namespace sow::detail {

namespace {

// The accumulation type of products.
DType wide_dtype(DType dtype) { return is_complex(dtype) ? DType::complex128 : DType::float64; }

Pair assign_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (b.needs(0)) out.x = call.cleared();
  if (!wants_source) return out;
  const Tensor grad = call.gather(b.grad);
  out.source = call.to_source(where(call.winners(grad), grad, 0));
  return out;
}

Pair add_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (b.needs(0)) out.x = call.include_self() ? b.grad : call.cleared();
  if (wants_source) out.source = call.to_source(call.gather(b.grad));
  return out;
}

Pair mean_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (!wants_source && !call.include_self()) return {call.cleared(), {}};
  const Tensor part = share(b.grad, call.counts());
  if (b.needs(0)) out.x = call.include_self() ? part : call.cleared();
  if (wants_source) out.source = call.to_source(call.gather(part));
  return out;
}

Pair extreme_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (!wants_source && !call.include_self()) return {call.cleared(), {}};
  const Tensor best = call.gather(b.result);
  const Tensor attains = same(call.source_over(best), best);
  Tensor self_attains;
  Tensor self = full_like(call.x(), 0, DType::int64);
  if (call.include_self()) {
    self_attains = same(call.x(), b.result);
    self = to(self_attains, DType::int64);
  }
  const Tensor ties = call.scatter(self, to(attains, DType::int64), Reduce::add, true);
  const Tensor part = share(b.grad, ties);
  if (b.needs(0)) out.x = call.include_self() ? where(self_attains, part, 0) : call.cleared();
  if (wants_source) out.source = call.to_source(where(attains, call.gather(part), 0));
  return out;
}

// -- products
// ------------------------------------------------------------------------------------------

// What the factors of a destination come to, with zeros set aside: the product of the others, how
// many zeros there are, and their sum (zero, but with derivatives).
struct Factors {
  Tensor zeros;    // int64
  Tensor product;  // of the factors that are not zero
  Tensor vanishing;
};

// The derivative by factors f, given zeros, g * product and the vanishing sum of their places:
// with no zero among the others (g * P) / f; else zero, which one more derivative may not find so.
Tensor others(const Tensor& f, const Tensor& zeros, const Tensor& weighted,
              const Tensor& vanishing) {
  const Tensor is_zero = eq(f, 0);
  const Tensor quotient = div(weighted, where(is_zero, 1, f));
  const Tensor alone = eq(zeros, to(is_zero, DType::int64));
  if (!grad_enabled()) return where(alone, quotient, 0);
  // One zero elsewhere: the product of the rest has it as a factor.
  const Tensor elsewhere = eq(zeros, add(to(is_zero, DType::int64), 1));
  const Tensor rest = mul(quotient, sub(vanishing, where(is_zero, f, 0)));
  return where(alone, quotient, where(elsewhere, vanish(rest), 0));
}

Pair product_rule(const Backward& b, const Indexed& call, bool wants_source) {
  if (!wants_source && !call.include_self()) return {call.cleared(), {}};
  const DType dtype = call.x().dtype(), wide = wide_dtype(dtype);
  const Tensor space = call.gather(b.grad);
  const Tensor over = call.source_over(space);
  const bool self = call.include_self();

  Tensor self_zero = full_like(call.x(), 0, DType::int64);
  if (self) self_zero = to(eq(call.x(), 0), DType::int64);
  const Tensor source_zero = eq(over, 0);
  Factors factors;
  factors.zeros = call.scatter(self_zero, to(source_zero, DType::int64), Reduce::add, true);

  // Third derivatives are refused where they would be wrong: at the gate.
  const auto widened = [&](const Tensor& t) {
    return conj(to(grad_enabled() ? product_gate(t, factors.zeros) : t, wide));
  };
  const Tensor f = widened(over);
  const Tensor f_self = self ? widened(call.x()) : full_like(call.x(), 1, wide);
  const Tensor ones = where(eq(f_self, 0), 1, f_self);
  factors.product = call.scatter(ones, where(source_zero, 1, f), Reduce::mul, self);
  if (grad_enabled()) {
    const Tensor from_self = where(eq(f_self, 0), f_self, 0);
    factors.vanishing = call.scatter(from_self, where(source_zero, f, 0), Reduce::add, true);
  }

  const Tensor weighted = mul(to(b.grad, wide), factors.product);
  Pair out;
  if (wants_source) {
    const Tensor vanishing = grad_enabled() ? call.gather(factors.vanishing) : Tensor();
    Tensor part = others(f, call.gather(factors.zeros), call.gather(weighted), vanishing);
    if (b.call.attrs.bounds == Bounds::drop) {
      part = where(call.gather(full_like(call.x(), true, DType::bool_)), part, 0);
    }
    out.source = call.to_source(to(part, dtype));
  }
  if (b.needs(0) && !self) out.x = call.cleared();
  if (b.needs(0) && self) {
    const Tensor touched =
        call.scatter(full_like(call.x(), false, DType::bool_), true, Reduce::assign, true);
    const Tensor part = others(f_self, factors.zeros, weighted, factors.vanishing);
    out.x = where(touched, to(part, dtype), b.grad);
  }
  return out;
}

Pair composed_rule(const Backward& b, const Indexed& call, bool wants_source) {
  switch (call.reduce()) {
    case Reduce::assign:
      return assign_rule(b, call, wants_source);
    case Reduce::add:
      return add_rule(b, call, wants_source);
    case Reduce::mean:
      return mean_rule(b, call, wants_source);
    case Reduce::mul:
      return product_rule(b, call, wants_source);
    default:
      return extreme_rule(b, call, wants_source);
  }
}

}  // namespace

TensorList indexed_gradient(const Backward& b, const IndexedFamily& family) {
  const Indexed call(b, family);
  const size_t at = source_at(b.call);
  const bool wants_source = call.has_source() && b.needs(at);
  Pair pair;
  if (!walk_rule(b, call, wants_source, pair)) pair = composed_rule(b, call, wants_source);
  TensorList out(b.call.inputs.size());
  out[0] = pair.x;
  if (wants_source) out[at] = pair.source;
  return out;
}
uint64_t indexed_saves(const Call& call, uint64_t needs) {
  const Attrs& attrs = call.attrs;
  const size_t at = source_at(call);
  const uint64_t source = uint64_t{1} << at;
  const uint64_t indices = (source - 1) & ~uint64_t{1};
  const bool wants_source = !attrs.scalar && (needs & source) != 0;
  if (!wants_source && (attrs.reduce == Reduce::add && attrs.include_self)) return 0;
  if (!wants_source && !attrs.include_self) return indices;
  const bool reads_values =
      attrs.reduce == Reduce::mul || attrs.reduce == Reduce::amax || attrs.reduce == Reduce::amin;
  if (!reads_values) return indices;
  uint64_t saves = indices;
  if (!attrs.scalar) saves |= source;
  if (attrs.include_self) saves |= 1;
  if (attrs.reduce != Reduce::mul) saves |= kSaveResult;
  return saves;
}

}  // namespace sow::detail
