// SPDX-License-Identifier: Apache-2.0
// Random elements of any type, of the kinds that break arithmetic: wide exponents, ties, NaN
// payloads, signed zeros, subnormals.
#pragma once

#include "draw.h"
#include "sow/dtype.h"

namespace sow::test {

enum class ValueKind { bits, small, wide, special, near_one, ties, subnormal, mixed };
inline constexpr int kValueKinds = 8;

// Writes `count` elements of `dtype` at `out`.
void fill_random(Draw& draw, DType dtype, ValueKind kind, int64_t count, void* out);
ValueKind draw_kind(Draw& draw);

}  // namespace sow::test
