// SPDX-License-Identifier: Apache-2.0
// The graph a Program builds: values, and the calls that make them, in order of recording.
#pragma once

#include <unordered_map>

#include "core/tensor/tensor_impl.h"
#include "ops/op.h"
#include "sow/program.h"

namespace sow::detail {

struct Value {
  enum class Kind : uint8_t { input, constant, result };
  Kind kind = Kind::result;
  Meta meta;
  Tensor constant;
  std::string name;
};

struct GraphNode {
  const OpDef* op = nullptr;  // null: gradients, worked out when the shapes are known
  std::vector<int> inputs;    // of gradients: the outputs, the targets, then grad_outputs if given
  Attrs attrs;
  bool in_place = false;
  std::vector<int> results;  // one; of gradients: one for each target

  size_t output_count = 0;  // of gradients
  const char* name() const {
    return op == nullptr ? "gradients" : in_place ? op->in_place_name : op->name;
  }
};

struct GraphInput {
  std::string name;
  int value = 0;
  std::vector<std::string> extents;  // their names, empty where there is none
};

struct GraphOutput {
  std::string name;
  int value = 0;
};

struct Graph : std::enable_shared_from_this<Graph> {
  std::vector<Value> values;
  std::vector<GraphNode> nodes;
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  // A graph that a user builds copies its constants; the originals are kept, so that each is
  // copied once.
  bool copies_constants = true;
  // Of a graph whose gradients are worked out: the most calls it may have, and how many were
  // recorded.
  size_t most_nodes = SIZE_MAX;
  size_t recorded_nodes = 0;
  std::unordered_map<const TensorImpl*, std::pair<Tensor, int>> constants;

  int add_value(Value value);
  int add_constant(const Tensor& tensor);
  int add_input(const std::string& name, const Meta& meta, std::vector<std::string> extents);
  // The value of a symbolic tensor of this graph; a real tensor becomes a constant.
  int value_of(const char* op, const Tensor& tensor);
  // A handle of a value.
  Tensor symbol(int value);
  TensorList gradients(const TensorList& outputs, const TensorList& targets,
                       const TensorList& grads);
};

struct SymbolicView;  // program/handles.h

struct Symbol final : SymbolicState {
  std::shared_ptr<Graph> graph;
  int value = 0;
  std::shared_ptr<const SymbolicView> view;  // where the handle is one
  bool dense = false;                        // row-major in every run
};

inline const Symbol* symbol_of(const Tensor& tensor) {
  return tensor.defined() ? static_cast<const Symbol*>(tensor.impl()->symbolic.get()) : nullptr;
}

bool all_known(const Dims& shape);

// Works out a gradients node of a graph whose shapes are known: appends calls to the graph.
// `differentiable`: gradients of these gradients are taken too.
TensorList derive(Graph& graph, const std::vector<int>& outputs, const std::vector<int>& targets,
                  const TensorList& grads, bool differentiable);

// The same graph for inputs of these shapes: checked again, gradients worked out.
std::shared_ptr<Graph> with_shapes(const Graph& graph, const std::vector<Dims>& shapes);

}  // namespace sow::detail
