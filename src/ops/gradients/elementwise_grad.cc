// SPDX-License-Identifier: Apache-2.0
// Gradient rules of the elementwise operations. Complex ones follow torch's convention: the factor
// is conjugated.
#include "ops/families/elementwise.h"
#include "ops/gradients/rules.h"
#include "ops/like.h"
#include "sow/math.h"

namespace sow::detail {

uint64_t saves_first(const Call&, uint64_t) { return 1; }

uint64_t saves_mul(const Call& call, uint64_t needs) {
  if (call.attrs.scalar) return 0;
  return (needs & 1 ? 2 : 0) | (needs & 2 ? 1 : 0);
}

uint64_t saves_div(const Call& call, uint64_t needs) {
  if (call.attrs.scalar) return call.attrs.scalar_first ? 1 | kSaveResult : 0;
  return 2 | (needs & 2 ? kSaveResult : 0);
}

Scalar conjugate(const Scalar& value) {
  if (value.kind() != Scalar::Kind::complex) return value;
  std::complex<double> number;
  value.write_as(DType::complex128, &number, "conj");
  return std::conj(number);
}

TensorList grad_add(const Backward& b) {
  TensorList out(b.call.inputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (b.needs(i)) out[i] = sum_to(b.grad, b.input(i));
  }
  return out;
}

TensorList grad_sub(const Backward& b) {
  TensorList out(b.call.inputs.size());
  if (b.call.attrs.scalar) {
    out[0] = b.call.attrs.scalar_first ? neg(b.grad) : b.grad;
    return out;
  }
  if (b.needs(0)) out[0] = sum_to(b.grad, b.input(0));
  if (b.needs(1)) out[1] = sum_to(neg(b.grad), b.input(1));
  return out;
}

TensorList grad_mul(const Backward& b) {
  TensorList out(b.call.inputs.size());
  if (b.call.attrs.scalar) {
    out[0] = mul(b.grad, conjugate(*b.call.attrs.scalar));
    return out;
  }
  if (b.needs(0)) out[0] = sum_to(mul(b.grad, conj(b.input(1))), b.input(0));
  if (b.needs(1)) out[1] = sum_to(mul(b.grad, conj(b.input(0))), b.input(1));
  return out;
}

TensorList grad_div(const Backward& b) {
  TensorList out(b.call.inputs.size());
  const auto& scalar = b.call.attrs.scalar;
  if (scalar && !b.call.attrs.scalar_first) {
    out[0] = div(b.grad, conjugate(*scalar));
    return out;
  }
  const size_t divisor = scalar ? 0 : 1;
  if (!scalar && b.needs(0)) out[0] = sum_to(div(b.grad, conj(b.input(1))), b.input(0));
  if (b.needs(divisor)) {
    const Tensor slope = conj(div(b.result, b.input(divisor)));
    out[divisor] = sum_to(neg(mul(b.grad, slope)), b.input(divisor));
  }
  return out;
}

TensorList grad_neg(const Backward& b) { return {neg(b.grad)}; }

TensorList grad_conj(const Backward& b) { return {conj(b.grad)}; }

TensorList grad_pow(const Backward& b) {
  const double exponent = exponent_of(b.call);
  if (exponent == 0) return {zeros_like(b.input(0))};
  const Tensor slope = mul(pow(b.input(0), exponent - 1), exponent);
  return {mul(b.grad, conj(slope))};
}

TensorList grad_exp(const Backward& b) { return {mul(b.grad, b.result)}; }

TensorList grad_log(const Backward& b) { return {div(b.grad, b.input(0))}; }

// Whoever makes the result again for a derivative of a derivative needs what it was made from.
uint64_t saves_both(const Call&, uint64_t) { return 1 | kSaveResult; }

// Zero at zero, as everywhere.
TensorList grad_abs(const Backward& b) {
  const Tensor &x = b.input(0), zero = zeros_like(b.grad);
  return {where(gt(x, 0), b.grad, where(lt(x, 0), neg(b.grad), zero))};
}

uint64_t saves_remainder(const Call& call, uint64_t needs) {
  if (call.attrs.scalar) return call.attrs.scalar_first ? 1 | kSaveResult : 0;
  return needs & 2 ? 3 | kSaveResult : 0;
}

// a - floor(a / b) b, between the jumps.
TensorList grad_remainder(const Backward& b) {
  TensorList out(b.call.inputs.size());
  const auto& scalar = b.call.attrs.scalar;
  const bool first_is_scalar = scalar && b.call.attrs.scalar_first;
  if (!first_is_scalar && b.needs(0)) out[0] = sum_to(b.grad, b.input(0));
  const size_t divisor = scalar ? 0 : 1;
  if ((first_is_scalar || !scalar) && b.needs(divisor)) {
    const Source a = scalar ? Source(*scalar) : Source(b.input(0));
    const Tensor times = div(sub(a, b.result), b.input(divisor));
    out[divisor] = sum_to(neg(mul(b.grad, times)), b.input(divisor));
  }
  return out;
}

TensorList grad_where(const Backward& b) {
  TensorList out(b.call.inputs.size());
  const bool first_is_b = b.call.attrs.scalar && b.call.attrs.scalar_first;
  for (size_t i = 1; i < out.size(); ++i) {
    if (!b.needs(i)) continue;
    const bool keeps_true = i == 1 && !first_is_b;
    const Tensor part = keeps_true ? where(b.input(0), b.grad, 0) : where(b.input(0), 0, b.grad);
    out[i] = sum_to(part, b.input(i));
  }
  return out;
}

TensorList grad_to(const Backward& b) { return {to(b.grad, b.input(0).dtype())}; }

}  // namespace sow::detail
