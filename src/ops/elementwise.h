// What the elementwise operations and their gradient rules share.
#pragma once

#include <cmath>

#include "ops/op.h"
#include "transfer/map.h"

namespace sow::detail {

MapOp map_op(const Call& call);
// Whether a result may lie where an operand of its shape and type does: each element is read before
// its place is written.
bool is_elementwise(const OpDef& op);
double exponent_of(const Call& call);  // of pow

uint64_t saves_first(const Call& call, uint64_t needs);
uint64_t saves_mul(const Call& call, uint64_t needs);
uint64_t saves_div(const Call& call, uint64_t needs);

TensorList grad_add(const Backward& backward);
TensorList grad_sub(const Backward& backward);
TensorList grad_mul(const Backward& backward);
TensorList grad_div(const Backward& backward);
TensorList grad_neg(const Backward& backward);
TensorList grad_conj(const Backward& backward);
TensorList grad_pow(const Backward& backward);
TensorList grad_where(const Backward& backward);
TensorList grad_to(const Backward& backward);

}  // namespace sow::detail
