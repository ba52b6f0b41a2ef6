// SPDX-License-Identifier: Apache-2.0
// What the elementwise operations, their gradient rules and programs share.
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

}  // namespace sow::detail
