// SPDX-License-Identifier: Apache-2.0
// The few elementwise operations that gradients and small models need, with NumPy's broadcasting.
// Operands have one type; a scalar takes the tensor's. Integers wrap; on bool add is "or" and mul
// "and".
#pragma once

#include "sow/ops.h"
#include "sow/tensor.h"

namespace sow {

// At least one operand is a tensor.
SOW_API Tensor add(const Source& a, const Source& b);
SOW_API Tensor sub(const Source& a, const Source& b);
SOW_API Tensor mul(const Source& a, const Source& b);
SOW_API Tensor div(const Source& a, const Source& b);  // floating and complex
SOW_API Tensor neg(const Tensor& x);
SOW_API Tensor conj(const Tensor& x);  // x itself where it is real
// Floating x to any real power, complex x to a whole one; computed in float64 and rounded once.
SOW_API Tensor pow(const Tensor& x, double exponent);

SOW_API Tensor abs(const Tensor& x);  // of real numbers
// Of floating types; computed in float64, the same bits on every device, and rounded once.
SOW_API Tensor exp(const Tensor& x);
SOW_API Tensor log(const Tensor& x);   // natural
SOW_API Tensor sqrt(const Tensor& x);  // pow(x, 0.5)
// The rest of a / b with b's sign, as in Python; by an integer 0 it is 0. No bool, no complex.
SOW_API Tensor remainder(const Source& a, const Source& b);
// Bit by bit, of integers and bool.
SOW_API Tensor bitwise_and(const Source& a, const Source& b);
SOW_API Tensor bitwise_or(const Source& a, const Source& b);
SOW_API Tensor bitwise_xor(const Source& a, const Source& b);
SOW_API Tensor bitwise_not(const Tensor& x);

// To bool. Complex numbers have no order.
SOW_API Tensor eq(const Source& a, const Source& b);
SOW_API Tensor ne(const Source& a, const Source& b);
SOW_API Tensor lt(const Source& a, const Source& b);
SOW_API Tensor le(const Source& a, const Source& b);
SOW_API Tensor gt(const Source& a, const Source& b);
SOW_API Tensor ge(const Source& a, const Source& b);

// a where the condition is true, b elsewhere, moved as bytes. One of the two may be a scalar.
SOW_API Tensor where(const Tensor& condition, const Source& a, const Source& b);

// Where the condition is true: the columns of nonzero(condition), one index tensor an axis.
SOW_API TensorList where(const Tensor& condition);

// Exact sums, rounded once, over these axes (none given: over all of them). The sum of nothing is
// +0, its mean NaN (an error for integers).
SOW_API Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
SOW_API Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

// Integers and bool to any real type (wrapping into integers), floating to floating, complex to
// complex; rounded once.
SOW_API Tensor to(const Tensor& x, DType dtype);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator+(const Tensor& a, const Scalar& b) { return add(a, b); }
inline Tensor operator+(const Scalar& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator-(const Tensor& a, const Scalar& b) { return sub(a, b); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator*(const Tensor& a, const Scalar& b) { return mul(a, b); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator/(const Tensor& a, const Scalar& b) { return div(a, b); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace sow
