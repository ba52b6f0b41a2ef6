// SPDX-License-Identifier: Apache-2.0
// Programs in words and pictures.
#pragma once

#include <string>

#include "program/graph.h"

namespace sow::detail {

// "[n, 4, ?]"
std::string declared_shape(const Dims& shape, const std::vector<std::string>& names);

std::string to_text(const Graph& graph);
std::string to_dot(const Graph& graph);

}  // namespace sow::detail
