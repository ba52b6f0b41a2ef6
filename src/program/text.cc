// SPDX-License-Identifier: Apache-2.0
// Prints a program as a list of calls, and as a graph for Graphviz.
#include "program/text.h"

#include <ostream>

#include "core/text.h"

namespace sow {
namespace detail {

std::string declared_shape(const Dims& shape, const std::vector<std::string>& names) {
  std::string words = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != 0) words += ", ";
    const bool has_name = d < names.size() && !names[d].empty();
    words += has_name ? names[d] : shape[d] < 0 ? "?" : std::to_string(shape[d]);
  }
  return words + "]";
}

namespace {

const char* name_of(Bounds bounds) {
  static constexpr const char* kNames[] = {"error", "drop", "clip", "promise"};
  return kNames[static_cast<int>(bounds)];
}

// What differs from an attribute's default, as arguments.
std::string attribute_text(const GraphNode& node) {
  static const Attrs kDefault;
  const Attrs& attrs = node.attrs;
  std::string words;
  const auto add = [&words](const char* name, const std::string& value) {
    words += text(", {}={}", name, value);
  };
  const auto add_number = [&add](const char* name, int64_t value, int64_t usual) {
    if (value != usual) add(name, std::to_string(value));
  };
  if (attrs.scalar) add("scalar", attrs.scalar->to_string());
  add_number("axis", attrs.axis, kDefault.axis);
  add_number("axis2", attrs.axis2, kDefault.axis2);
  add_number("offset", attrs.offset, 0);
  add_number("start", attrs.start, 0);
  add_number("stop", attrs.stop, kEnd);
  add_number("step", attrs.step, 1);
  if (attrs.reduce != Reduce::assign) add("reduce", sow::name_of(attrs.reduce));
  if (!attrs.include_self) add("include_self", "false");
  if (attrs.accumulate) add("accumulate", "true");
  if (attrs.wrap) add("wrap", "true");
  if (attrs.keepdim) add("keepdim", "true");
  if (attrs.bounds != Bounds::error) add("bounds", name_of(attrs.bounds));
  if (!attrs.shape.empty()) {
    std::string shape;
    for (const int64_t extent : attrs.shape) {
      if (!shape.empty()) shape += ", ";
      shape += std::to_string(extent);
    }
    add("shape", text("[{}]", shape));
  }
  return words;
}

std::string label(const Graph& graph, int value) {
  const std::string& name = graph.values[value].name;
  return name.empty() ? text("%{}", value) : name;
}

std::string joined(const Graph& graph, const std::vector<int>& values) {
  std::string words;
  for (const int value : values) {
    if (!words.empty()) words += ", ";
    words += label(graph, value);
  }
  return words;
}

std::string type_text(const Value& value) {
  return text("{} {}", value.meta.dtype, value.meta.shape);
}

std::string call_text(const Graph& graph, const GraphNode& node) {
  if (node.op != nullptr) {
    return text("{}({}{})", node.name(), joined(graph, node.inputs), attribute_text(node));
  }
  const auto begin = node.inputs.begin();
  const auto targets = begin + static_cast<std::ptrdiff_t>(node.output_count);
  const auto grads = targets + static_cast<std::ptrdiff_t>(node.results.size());
  std::string words = text("gradients([{}], [{}]", joined(graph, {begin, targets}),
                           joined(graph, {targets, grads}));
  if (grads != node.inputs.end()) {
    words += text(", [{}]", joined(graph, {grads, node.inputs.end()}));
  }
  return words + ")";
}

std::string padded(std::string label) {
  label.resize(std::max<size_t>(label.size(), 24), ' ');
  return label;
}

std::string escaped(const std::string& plain) {
  std::string out;
  for (const char c : plain) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string words = "program\n";
  for (const GraphInput& input : graph.inputs) {
    const Value& value = graph.values[input.value];
    words += text("  {} {} {}\n", padded(text("input {}", input.name)), value.meta.dtype,
                  declared_shape(value.meta.shape, input.extents));
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.kind != Value::Kind::constant) continue;
    words += text("  {} {}\n", padded(text("constant {}", label(graph, static_cast<int>(v)))),
                  type_text(value));
  }
  for (const GraphNode& node : graph.nodes) {
    const std::string type = type_text(graph.values[node.results[0]]);
    words += text("  {} = {}   {}\n", joined(graph, node.results), call_text(graph, node),
                  node.results.size() == 1 ? type : "");
  }
  for (const GraphOutput& output : graph.outputs) {
    words += text("  output {} = {}\n", output.name, label(graph, output.value));
  }
  return words;
}

std::string to_dot(const Graph& graph) {
  std::string words =
      "digraph program {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=11];\n"
      "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#777777\"];\n";
  // Each value is known by the box it comes from.
  std::vector<std::string> source(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.kind == Value::Kind::result) continue;
    source[v] = text("v{}", v);
    if (value.kind == Value::Kind::input) continue;
    words += text(
        "  v{} [shape=box, style=\"rounded,filled\", fillcolor=\"#e5e7eb\", "
        "label=\"constant\\n{}\"];\n",
        v, type_text(value));
  }
  for (const GraphInput& input : graph.inputs) {
    const Meta& meta = graph.values[input.value].meta;
    words += text(
        "  v{} [shape=box, style=\"rounded,filled\", fillcolor=\"#dbeafe\", "
        "label=\"{}\\n{} {}\"];\n",
        input.value, escaped(input.name), meta.dtype,
        escaped(declared_shape(meta.shape, input.extents)));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    for (const int result : node.results) source[result] = text("n{}", n);
    const std::string& name = graph.values[node.results[0]].name;
    words += text("  n{} [shape=box, style=filled, fillcolor=\"{}\", label=\"{}{}\"];\n", n,
                  node.op == nullptr ? "#fde68a" : "#ffffff", node.name(),
                  name.empty() ? std::string() : text("\\n{}", escaped(name)));
    for (const int input : node.inputs) {
      words +=
          text("  {} -> n{} [label=\"{}\"];\n", source[input], n, graph.values[input].meta.shape);
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const GraphOutput& output = graph.outputs[i];
    words += text(
        "  o{} [shape=box, style=\"rounded,filled\", fillcolor=\"#dcfce7\", label=\"{}\\n{}\"];\n"
        "  {} -> o{};\n",
        i, escaped(output.name), type_text(graph.values[output.value]), source[output.value], i);
  }
  return words + "}\n";
}

}  // namespace detail

std::string Program::to_string() const { return detail::to_text(*graph_); }
std::string Program::to_dot() const { return detail::to_dot(*graph_); }

std::ostream& operator<<(std::ostream& out, const Program& program) {
  return out << program.to_string();
}

}  // namespace sow
