// SPDX-License-Identifier: Apache-2.0
// Keys whose data is read where the call is made.
#pragma once

#include "ops/op.h"

namespace sow::detail {

// The keys as int64 on the host, row-major.
Tensor host_keys(const Tensor& keys);
// The last of CSR pointers.
int64_t last_pointer(const char* op, const Tensor& pointers);

}  // namespace sow::detail
