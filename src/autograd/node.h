// SPDX-License-Identifier: Apache-2.0
// The graph that reverse mode walks: one Node for every recorded call.
#pragma once

#include "core/tensor/tensor_impl.h"
#include "ops/op.h"

namespace sow::detail {

struct Node;

// What a TensorImpl that takes part in a graph carries: a leaf (no node), or the result of a call.
struct GradState final : AutogradState {
  std::shared_ptr<Node> node;
  Tensor grad;  // what backward() has gathered, for leaves

  // A view of memory that another tensor has too: that tensor, and its state when the view was
  // made. If the state has moved on, the view shows values that its node knows nothing of.
  std::weak_ptr<TensorImpl> base;
  std::shared_ptr<AutogradState> base_state;
  bool is_view = false;
};

// Where an input's gradient goes: to the call that made it, or to a leaf.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<GradState> leaf;
  explicit operator bool() const { return node != nullptr || leaf != nullptr; }
};

// A tensor as it was at the call. It holds no part of the graph: edges do that.
struct Saved {
  Tensor tensor;
  bool has_data = false;
  uint64_t version = 0;
};

struct Node : std::enable_shared_from_this<Node> {
  const OpDef* op = nullptr;
  Attrs attrs;
  bool in_place = false;
  uint64_t sequence = 0;  // calls recorded later have larger ones
  uint64_t needs = 0;     // bit i: input i wants a gradient
  std::vector<Saved> inputs;
  std::vector<Edge> edges;  // one for each input
  Saved result;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();

  const char* name() const { return in_place ? op->in_place_name : op->name; }
  // The inputs' gradients from the result's; undefined where none is needed.
  TensorList backward(const Tensor& grad);
};

inline GradState* grad_state(const Tensor& tensor) {
  return static_cast<GradState*>(tensor.impl()->autograd.get());
}
std::shared_ptr<GradState> shared_grad_state(const Tensor& tensor);

// The same memory under a handle of its own, outside of every graph.
Tensor alias_of(const Tensor& tensor);

// Sends gradients of `outputs` backwards. Where `targets` is given, only their gradients are worked
// out and returned; otherwise every leaf gathers its own.
TensorList run_backward(const char* op, const TensorList& outputs, const TensorList& grads,
                        const TensorList* targets, bool create_graph);

}  // namespace sow::detail
