// SPDX-License-Identifier: Apache-2.0
// Single elements as Python objects and as Scalars, for lists, printing and conversions.
#pragma once

#include "arrays/arrays.h"

namespace sow::python {

// The same tensor on the device; itself if it is there.
Tensor on_device(const Tensor& tensor, Device device);
inline Tensor on_host(const Tensor& tensor) { return on_device(tensor, {}); }

// What a program does not know while it is built is an error: `op` asks for data, or an extent.
void expect_real(const Tensor& tensor, const char* op);
int64_t known_extent(const Tensor& tensor, int axis, const char* op);
int64_t known_size(const Tensor& tensor, const char* op);

Scalar scalar_at(const void* data, DType dtype);
nb::object object_at(const void* data, DType dtype);
nb::object to_list(const Tensor& tensor);
// A row-major copy in another type; each element must be in range.
Tensor converted(const Tensor& tensor, DType dtype, const char* op);

}  // namespace sow::python
