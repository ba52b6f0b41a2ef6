// SPDX-License-Identifier: Apache-2.0
// Element types as Python objects.
#pragma once

#include "arrays/arrays.h"

namespace sow::python {

struct ElementType {
  DType value;
};

// The type that an object names: ours, NumPy's, torch's, a string, float; else nothing.
std::optional<DType> dtype_of(nb::handle object);
// The same, or a TypeError; None gives the default.
DType parse_dtype(nb::handle object, const char* op, DType fallback = DType::float32);
nb::object dtype_object(DType dtype);

}  // namespace sow::python
