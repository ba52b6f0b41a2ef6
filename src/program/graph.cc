// SPDX-License-Identifier: Apache-2.0
// Builds graphs: inputs, constants, recorded calls, outputs.
#include "program/graph.h"

#include "core/tensor/layout.h"
#include "ops/hooks.h"
#include "program/handles.h"

namespace sow {
namespace detail {

bool all_known(const Dims& shape) {
  return std::none_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; });
}

int Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<int>(values.size()) - 1;
}

int Graph::add_constant(const Tensor& tensor) {
  const auto found = constants.find(tensor.impl());
  if (found != constants.end()) return found->second.second;
  Value value;
  value.kind = Value::Kind::constant;
  value.meta = meta_of(tensor);
  value.constant = copies_constants ? tensor.clone() : tensor;
  const int id = add_value(std::move(value));
  constants.emplace(tensor.impl(), std::make_pair(tensor, id));
  return id;
}

int Graph::add_input(const std::string& name, const Meta& meta, std::vector<std::string> extents) {
  Value value;
  value.kind = Value::Kind::input;
  value.meta = meta;
  value.name = name;
  const int id = add_value(std::move(value));
  inputs.push_back({name, id, std::move(extents)});
  return id;
}

int Graph::value_of(const char* op, const Tensor& tensor) {
  if (!tensor.defined()) fail(ErrorKind::argument, "{}: a tensor is undefined", op);
  refresh(tensor);
  const Symbol* symbol = symbol_of(tensor);
  if (symbol == nullptr) return add_constant(tensor);
  if (symbol->graph.get() != this) {
    fail(ErrorKind::argument, "{}: the operands belong to different programs", op);
  }
  return symbol->value;
}

Tensor Graph::symbol(int id) {
  const Meta& meta = values[id].meta;
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = meta.dtype;
  impl->device = meta.device;
  impl->shape = meta.shape;
  impl->strides = row_major_strides(meta.shape);
  impl->numel = all_known(meta.shape) ? checked_numel(meta.shape, 1, "program") : -1;
  auto symbol = std::make_shared<Symbol>();
  symbol->graph = shared_from_this();
  symbol->value = id;
  impl->symbolic = std::move(symbol);
  return Tensor(std::move(impl));
}

Tensor record_in_program(const Call& call, const Meta& meta) {
  std::shared_ptr<Graph> graph;
  for (const Tensor& input : call.inputs) {
    if (const Symbol* symbol = symbol_of(input); symbol != nullptr && graph == nullptr) {
      graph = symbol->graph;
    }
  }
  if (graph->nodes.size() >= graph->most_nodes) {
    fail(ErrorKind::autograd,
         "gradients: those of this program of {} calls would be more than {} calls; gradients of "
         "gradients multiply, so take fewer of each other",
         graph->recorded_nodes, graph->most_nodes);
  }
  GraphNode node;
  node.op = call.op;
  node.attrs = call.attrs;
  node.in_place = call.in_place;
  for (const Tensor& input : call.inputs) {
    node.inputs.push_back(graph->value_of(op_name(call), input));
  }
  Value value;
  value.meta = meta;
  node.results.push_back(graph->add_value(std::move(value)));
  graph->nodes.push_back(std::move(node));
  return graph->symbol(graph->nodes.back().results[0]);
}

TensorList Graph::gradients(const TensorList& outputs_of, const TensorList& targets,
                            const TensorList& grads) {
  const char* op = "gradients";
  if (!grads.empty() && grads.size() != outputs_of.size()) {
    fail(ErrorKind::argument,
         "gradients: {} outputs but {} grad_outputs; there must be one for each", outputs_of.size(),
         grads.size());
  }
  GraphNode node;
  node.output_count = outputs_of.size();
  for (size_t i = 0; i < outputs_of.size(); ++i) {
    const int id = value_of(op, outputs_of[i]);
    const Meta output = values[id].meta;
    if (!is_differentiable(output.dtype)) {
      fail(ErrorKind::autograd,
           "gradients: an output is {}; only floating and complex types have "
           "gradients",
           output.dtype);
    }
    node.inputs.push_back(id);
    if (grads.empty()) {
      if (all_known(output.shape) && checked_numel(output.shape, 1, op) != 1) {
        fail(ErrorKind::autograd,
             "gradients: the output has shape {}; only an output of one element needs no gradient "
             "of "
             "its own",
             output.shape);
      }
      continue;
    }
    const Meta grad = values[value_of(op, grads[i])].meta;
    const bool known = all_known(grad.shape) && all_known(output.shape);
    if (grad.dtype != output.dtype || (known && !(grad.shape == output.shape))) {
      fail(ErrorKind::shape,
           "gradients: the gradient is {} {}, but the output is {} {}; they must be equal",
           grad.dtype, grad.shape, output.dtype, output.shape);
    }
  }
  TensorList results;
  Metas metas;
  for (const Tensor& target : targets) {
    const int id = value_of(op, target);
    if (!is_differentiable(values[id].meta.dtype)) {
      fail(ErrorKind::autograd,
           "gradients: an input is {}; only floating and complex types have "
           "gradients",
           values[id].meta.dtype);
    }
    node.inputs.push_back(id);
    metas.push_back(values[id].meta);
  }
  for (const Tensor& grad : grads) node.inputs.push_back(value_of(op, grad));
  for (const Meta& meta : metas) {
    Value value;
    value.meta = meta;
    node.results.push_back(add_value(std::move(value)));
    results.push_back(symbol(node.results.back()));
  }
  nodes.push_back(std::move(node));
  return results;
}

namespace {

void expect_new_name(const char* op, const std::string& name,
                     const std::vector<std::string>& names) {
  if (name.empty()) fail(ErrorKind::argument, "{}: the name is empty", op);
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    fail(ErrorKind::argument, "{}: there is an {} \"{}\" already", op, op, name);
  }
}

}  // namespace
}  // namespace detail

using detail::fail;

Program::Program() : graph_(std::make_shared<detail::Graph>()) {}

Tensor Program::input(const std::string& name, DType dtype, const std::vector<Extent>& shape,
                      Device device) {
  detail::expect_new_name("input", name, input_names());
  detail::Meta meta{dtype, {}, device};
  std::vector<std::string> extents;
  for (const Extent& extent : shape) {
    if (extent.size() < -1) {
      fail(ErrorKind::argument, "input: \"{}\" has an extent of {}; -1 or a name is unknown", name,
           extent.size());
    }
    meta.shape.push_back(extent.size());
    extents.push_back(extent.name());
  }
  return graph_->symbol(graph_->add_input(name, meta, std::move(extents)));
}

Tensor Program::constant(const Tensor& value) {
  return graph_->symbol(graph_->value_of("constant", value));
}

void Program::output(const std::string& name, const Tensor& tensor) {
  detail::expect_new_name("output", name, output_names());
  graph_->outputs.push_back({name, graph_->value_of("output", tensor)});
}

TensorList Program::gradients(const TensorList& outputs, const TensorList& inputs,
                              const TensorList& grad_outputs) {
  return graph_->gradients(outputs, inputs, grad_outputs);
}

std::vector<std::string> Program::input_names() const {
  std::vector<std::string> names;
  for (const detail::GraphInput& input : graph_->inputs) names.push_back(input.name);
  return names;
}

std::vector<std::string> Program::output_names() const {
  std::vector<std::string> names;
  for (const detail::GraphOutput& output : graph_->outputs) names.push_back(output.name);
  return names;
}

Tensor named(const Tensor& tensor, const std::string& name) {
  if (const detail::Symbol* symbol = detail::symbol_of(tensor)) {
    detail::Value& value = symbol->graph->values[symbol->value];
    if (value.kind != detail::Value::Kind::input) value.name = name;
  }
  return tensor;
}

bool is_symbolic(const Tensor& tensor) { return detail::symbol_of(tensor) != nullptr; }

}  // namespace sow
