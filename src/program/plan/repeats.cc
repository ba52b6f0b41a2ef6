// SPDX-License-Identifier: Apache-2.0
// Calls that were made before with the same operands: their first result is used instead.
#include <unordered_map>

#include "program/plan/passes.h"
#include "program/save.h"

namespace sow::detail {
namespace {

// A call that reads nothing is cheaper made again than kept: its result can be overwritten.
bool reads_data(const GraphNode& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i >= 64 || (node.op->shape_only >> i & 1) == 0) return true;
  }
  return false;
}

std::string key_of(const GraphNode& node) {
  std::string key = write_attrs(node.attrs);
  const auto append = [&key](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const void* const pointers[] = {node.op, node.attrs.order.get()};
  append(pointers);
  for (const int input : node.inputs) append(input);
  return key;
}

}  // namespace

void merge_repeats(Graph& graph) {
  std::vector<int> same(graph.values.size());
  for (size_t v = 0; v < same.size(); ++v) same[v] = static_cast<int>(v);
  std::unordered_map<std::string, int> made;
  for (GraphNode& node : graph.nodes) {
    for (int& input : node.inputs) input = same[input];
    // A view costs nothing, and one made twice may be written to in place.
    if (node.op == nullptr || node.op->view != nullptr || !reads_data(node)) continue;
    const auto [first, fresh] = made.try_emplace(key_of(node), node.results[0]);
    if (!fresh) same[node.results[0]] = first->second;
  }
  for (GraphOutput& output : graph.outputs) output.value = same[output.value];
}

}  // namespace sow::detail
