// SPDX-License-Identifier: Apache-2.0
// Docstrings of the operations.
#pragma once

#include <string>

namespace sow::python {

// The docstring of `op`, which is `stem` or its in-place form `stem_`.
std::string doc_of(const char* stem, const char* op);

}  // namespace sow::python
