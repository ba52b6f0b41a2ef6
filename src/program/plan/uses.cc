// SPDX-License-Identifier: Apache-2.0
// Walks a graph backwards for what is needed, forwards for who reads what last.
#include "program/plan/uses.h"

namespace sow::detail {

Uses::Uses(const Graph& graph) : graph_(graph) {
  find_needed();
  find_last_uses();
}

bool Uses::reads(const GraphNode& node, size_t i) const {
  const bool shape_only = i < 64 && (node.op->shape_only >> i & 1) != 0;
  return !shape_only || !all_known(graph_.values[node.inputs[i]].meta.shape);
}

void Uses::find_needed() {
  std::vector<bool> wanted(graph_.values.size(), false);
  for (const GraphOutput& output : graph_.outputs) wanted[output.value] = true;
  needed_.assign(graph_.nodes.size(), false);
  for (size_t n = graph_.nodes.size(); n-- > 0;) {
    const GraphNode& node = graph_.nodes[n];
    if (!wanted[node.results[0]]) continue;
    needed_[n] = true;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (reads(node, i)) wanted[node.inputs[i]] = true;
    }
  }
}

int Uses::root(int value) const {
  while (parent_[value] != value) value = parent_[value];
  return value;
}

void Uses::join(int value, int with) {
  const int a = root(value), b = root(with);
  if (a == b) return;
  parent_[a] = b;
  last_use_[b] = std::max(last_use_[b], last_use_[a]);
}

// A view is taken to share its base's memory, also where reshape has to copy.
void Uses::find_last_uses() {
  const size_t count = graph_.values.size();
  parent_.resize(count);
  last_use_.assign(count, -1);
  for (size_t v = 0; v < count; ++v) parent_[v] = static_cast<int>(v);
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const GraphNode& node = graph_.nodes[n];
    if (!needed_[n]) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (reads(node, i)) last_use_[node.inputs[i]] = static_cast<int>(n);
    }
  }
  for (const GraphOutput& output : graph_.outputs) {
    last_use_[output.value] = static_cast<int>(graph_.nodes.size());
  }
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const GraphNode& node = graph_.nodes[n];
    if (needed_[n] && node.op->view != nullptr) join(node.results[0], node.inputs[0]);
  }
}

}  // namespace sow::detail
