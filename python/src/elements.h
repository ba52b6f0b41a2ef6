// Single elements as Python objects and as Scalars, for lists, printing and conversions.
#pragma once

#include "arrays.h"

namespace sow::python {

Scalar scalar_at(const void* data, DType dtype);
nb::object object_at(const void* data, DType dtype);
nb::object to_list(const Tensor& tensor);
// A row-major copy in another type; each element must be in range.
Tensor converted(const Tensor& tensor, DType dtype, const char* op);

}  // namespace sow::python
