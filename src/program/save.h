// SPDX-License-Identifier: Apache-2.0
// A program as bytes, without the frame (magic, version, checksum) that files have around them.
#pragma once

#include <string>
#include <string_view>

#include "program/graph.h"

namespace sow::detail {

// What two calls must have alike to be the same, but for a held order.
std::string write_attrs(const Attrs& attrs);

std::string write_graph(const Graph& graph);
// Trusts nothing: every size is checked against what is left, every call against its operation.
// On the device it was built for, or on another one.
std::shared_ptr<Graph> read_graph(std::string_view bytes, const Device* on = nullptr);

}  // namespace sow::detail
