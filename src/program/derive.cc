// SPDX-License-Identifier: Apache-2.0
// Gradients in a graph: the calls backwards, each through its rule, and the graph for real shapes.
#include "ops/like.h"
#include "program/graph.h"
#include "sow/autograd.h"
#include "sow/math.h"

namespace sow::detail {
namespace {

// Each gradient of a gradient has about three times the calls: without a bound a few hundred bytes
// of a file would take hours. 16,384 calls are planned in a second and take 110 MB; a thousand
// recorded ones may be differentiated three times over.
constexpr size_t kLeastDerived = 16384;
constexpr size_t kDerivedPerCall = 32;

// Which values a gradient of a target can flow through.
std::vector<bool> values_leading_to(const Graph& graph, const std::vector<int>& targets) {
  std::vector<bool> leads(graph.values.size(), false);
  for (const int target : targets) leads[target] = true;
  for (const GraphNode& node : graph.nodes) {
    const int result = node.results[0];
    if (node.op->gradient == nullptr || !is_differentiable(graph.values[result].meta.dtype))
      continue;
    for (const int input : node.inputs) {
      if (leads[input] && is_differentiable(graph.values[input].meta.dtype)) leads[result] = true;
    }
  }
  return leads;
}

TensorList run_rule(Graph& graph, const GraphNode& node, const Tensor& grad, uint64_t needs) {
  Call call;
  call.op = node.op;
  call.attrs = node.attrs;
  for (const int input : node.inputs) call.inputs.push_back(graph.symbol(input));
  const Tensor result = graph.symbol(node.results[0]);
  return node.op->gradient({call, result, grad, needs});
}

}  // namespace

TensorList derive(Graph& graph, const std::vector<int>& outputs, const std::vector<int>& targets,
                  const TensorList& grads, bool differentiable) {
  const bool before = set_grad_enabled(differentiable);
  struct Restore {
    bool previous;
    ~Restore() { set_grad_enabled(previous); }
  } restore{before};
  const size_t node_count = graph.nodes.size();
  const std::vector<bool> leads = values_leading_to(graph, targets);
  TensorList sums(graph.values.size());
  const auto add_to = [&sums](int value, const Tensor& term) {
    sums[value] = sums[value].defined() ? add(sums[value], term) : term;
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor output = graph.symbol(outputs[i]);
    if (grads.empty() && output.numel() > 1) {
      fail(ErrorKind::autograd,
           "gradients: the output has shape {}; only an output of one element needs no gradient of "
           "its own",
           output.shape());
    }
    add_to(outputs[i], grads.empty() ? full_like(output, true, output.dtype()) : grads[i]);
  }
  for (size_t n = node_count; n-- > 0;) {
    const GraphNode node = graph.nodes[n];  // rules append to the list
    const int result = node.results[0];
    if (!sums[result].defined() || !leads[result]) continue;
    if (node.inputs.size() > 62) {
      fail(ErrorKind::autograd, "{}: gradients are for calls of at most 62 tensors", node.name());
    }
    uint64_t needs = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int input = node.inputs[i];
      if (leads[input] && is_differentiable(graph.values[input].meta.dtype))
        needs |= uint64_t{1} << i;
    }
    if (needs == 0 || node.op->gradient == nullptr) continue;
    const TensorList terms = run_rule(graph, node, sums[result], needs);
    for (size_t i = 0; i < terms.size(); ++i) {
      if ((needs >> i & 1) != 0 && terms[i].defined()) add_to(node.inputs[i], terms[i]);
    }
  }
  TensorList out;
  for (const int target : targets) {
    out.push_back(sums[target].defined() ? sums[target] : zeros_like(graph.symbol(target)));
  }
  return out;
}

namespace {

// Which gradients other gradients are taken of: their rules have to be composed of operations that
// have rules themselves.
std::vector<bool> differentiated_again(const Graph& graph) {
  std::vector<bool> again(graph.nodes.size(), false), wanted(graph.values.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const GraphNode& node = graph.nodes[n];
    bool leads = false;
    for (const int result : node.results) leads = leads || wanted[result];
    again[n] = leads && node.op == nullptr;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (leads || (node.op == nullptr && i < node.output_count)) wanted[node.inputs[i]] = true;
    }
  }
  return again;
}

TensorList replay_gradients(Graph& graph, const GraphNode& node, const TensorList& inputs,
                            bool again) {
  std::vector<int> outputs, targets;
  TensorList grads;
  const size_t target_count = node.results.size();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < node.output_count) {
      outputs.push_back(graph.value_of("gradients", inputs[i]));
    } else if (i < node.output_count + target_count) {
      targets.push_back(graph.value_of("gradients", inputs[i]));
    } else {
      grads.push_back(inputs[i]);
    }
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    const Dims &grad = grads[i].shape(), &output = inputs[i].shape();
    if (all_known(grad) && all_known(output) && !(grad == output)) {
      fail(ErrorKind::shape,
           "gradients: the gradient is {} {}, but the output is {} {}; they must be equal",
           grads[i].dtype(), grad, inputs[i].dtype(), output);
    }
  }
  return derive(graph, outputs, targets, grads, again);
}

}  // namespace

std::shared_ptr<Graph> with_shapes(const Graph& graph, const std::vector<Dims>& shapes) {
  auto out = std::make_shared<Graph>();
  out->copies_constants = false;
  out->recorded_nodes = graph.nodes.size();
  out->most_nodes = kLeastDerived + kDerivedPerCall * graph.nodes.size();
  TensorList tensors(graph.values.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const GraphInput& input = graph.inputs[i];
    Meta meta = graph.values[input.value].meta;
    meta.shape = shapes[i];
    tensors[input.value] = out->symbol(out->add_input(input.name, meta, {}));
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind == Value::Kind::constant) {
      tensors[i] = out->symbol(out->add_constant(graph.values[i].constant));
    }
  }
  const std::vector<bool> again = differentiated_again(graph);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const GraphNode& node = graph.nodes[n];
    TensorList inputs;
    for (const int input : node.inputs) inputs.push_back(tensors[input]);
    if (node.op != nullptr) {
      // A handle of its own: others go on meaning the old value.
      if (node.in_place) inputs[0] = out->symbol(out->value_of(node.name(), inputs[0]));
      tensors[node.results[0]] = apply({node.op, std::move(inputs), node.attrs, node.in_place});
      continue;
    }
    const TensorList results = replay_gradients(*out, node, inputs, again[n]);
    for (size_t i = 0; i < results.size(); ++i) tensors[node.results[i]] = results[i];
  }
  for (const GraphOutput& output : graph.outputs) {
    out->outputs.push_back({output.name, out->value_of("output", tensors[output.value])});
  }
  return out;
}

}  // namespace sow::detail
