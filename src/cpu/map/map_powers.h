// SPDX-License-Identifier: Apache-2.0
// Exponentials and logarithms of many elements at once, with the bits of core/power.h.
#pragma once

#include <cstdint>

namespace sow::detail {

// `out` may be `x`.
void exponentials(const double* x, int64_t count, double* out);
void logarithms(const double* x, int64_t count, double* out);

}  // namespace sow::detail
