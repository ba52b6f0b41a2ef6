// SPDX-License-Identifier: Apache-2.0
// Walks the graph backwards: calls in reverse order of recording, so that every gradient is
// complete, and its terms were added in one fixed order, before it is used.
#include <algorithm>
#include <mutex>
#include <new>
#include <unordered_map>
#include <unordered_set>

#include "autograd/node.h"
#include "ops/like.h"
#include "sow/autograd.h"
#include "sow/math.h"

namespace sow::detail {

// A chain of a million calls must not be a million destructors deep.
Node::~Node() {
  std::vector<std::shared_ptr<Node>> pending;
  const auto take_edges = [&pending](Node& node) {
    try {
      for (Edge& edge : node.edges) {
        if (edge.node != nullptr) pending.push_back(std::move(edge.node));
      }
    } catch (const std::bad_alloc&) {
      // What stays with its node ends with it, one destructor deeper.
    }
  };
  take_edges(*this);
  while (!pending.empty()) {
    const std::shared_ptr<Node> node = std::move(pending.back());
    pending.pop_back();
    if (node.use_count() == 1) take_edges(*node);
  }
}

namespace {

Tensor unpack(const Node& node, const Saved& saved, const Edge& edge, const char* what) {
  const auto& storage = saved.tensor.impl()->storage;
  if (saved.has_data && storage != nullptr &&
      storage->version.load(std::memory_order_relaxed) != saved.version) {
    fail(ErrorKind::autograd,
         "{}: {} of shape {}, which its gradient needs, was changed in place since", node.name(),
         what, saved.tensor.shape());
  }
  if (!edge || !grad_enabled()) return saved.tensor;
  Tensor tensor = alias_of(saved.tensor);
  if (edge.leaf != nullptr) {
    tensor.impl()->autograd = edge.leaf;
  } else {
    auto state = std::make_shared<GradState>();
    state->node = edge.node;
    tensor.impl()->autograd = std::move(state);
  }
  return tensor;
}

void expect_shape(const Node& node, size_t i, const Tensor& gradient) {
  const Tensor& input = node.inputs[i].tensor;
  const bool known = std::none_of(input.shape().begin(), input.shape().end(),
                                  [](int64_t extent) { return extent < 0; });
  if (known && !(gradient.shape() == input.shape())) {
    fail(ErrorKind::autograd, "{}: its gradient rule gave shape {} for input {} of shape {}",
         node.name(), gradient.shape(), i, input.shape());
  }
}

}  // namespace

TensorList Node::backward(const Tensor& grad) {
  Call call;
  call.op = op;
  call.attrs = attrs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    call.inputs.push_back(unpack(*this, inputs[i], edges[i], "an operand"));
  }
  const Tensor value = unpack(*this, result, {shared_from_this(), nullptr}, "the result");
  TensorList gradients = op->gradient({call, value, grad, needs});
  for (size_t i = 0; i < gradients.size(); ++i) {
    if ((needs >> i & 1) != 0 && gradients[i].defined()) expect_shape(*this, i, gradients[i]);
  }
  return gradients;
}

namespace {

void add_to(Tensor& sum, Tensor term) { sum = sum.defined() ? add(sum, term) : std::move(term); }

// One pass over the graph.
class Pass {
 public:
  explicit Pass(const TensorList* targets) {
    if (targets == nullptr) return;
    limited_ = true;
    for (const Tensor& target : *targets) {
      const GradState* state = grad_state(target);
      wanted_.insert(state->node ? static_cast<const void*>(state->node.get()) : state);
    }
  }

  void seed(const Tensor& output, Tensor grad) {
    const std::shared_ptr<GradState> state = shared_grad_state(output);
    if (state->node == nullptr) {
      add_leaf(state, std::move(grad));
    } else {
      add_to(node_grads_[state->node.get()], std::move(grad));
      roots_.push_back(state->node);
    }
  }

  void run() {
    collect();
    for (const std::shared_ptr<Node>& node : order_) {
      const auto found = node_grads_.find(node.get());
      if (found == node_grads_.end()) continue;
      Tensor grad = std::move(found->second);
      node_grads_.erase(found);
      if (wanted_.count(node.get()) != 0) kept_[node.get()] = grad;
      if (limited_ && needed_.count(node.get()) == 0) continue;
      send(*node, node->backward(grad));
    }
  }

  Tensor gradient_of(const Tensor& target) const {
    const GradState* state = grad_state(target);
    if (state->node == nullptr) {
      const auto found = leaf_grads_.find(const_cast<GradState*>(state));
      return found == leaf_grads_.end() ? Tensor() : found->second;
    }
    const auto found = kept_.find(state->node.get());
    return found == kept_.end() ? Tensor() : found->second;
  }

  // Every leaf that was reached adds what came to what it has: all of them, or none if one fails.
  void gather() {
    static std::mutex mutex;  // leaves may be shared by graphs of several threads
    const std::lock_guard lock(mutex);
    std::vector<Tensor> sums;
    sums.reserve(leaves_.size());
    for (const std::shared_ptr<GradState>& leaf : leaves_) {
      Tensor grad = std::move(leaf_grads_[leaf.get()]);
      if (leaf->grad.defined()) {
        sums.push_back(add(leaf->grad, grad));
        continue;
      }
      // Nobody else may see a later change of it in place.
      const bool shared = grad.shared_impl().use_count() > 1 || !grad.is_contiguous() ||
                          (grad.impl()->storage && grad.impl()->storage.use_count() > 1);
      sums.push_back(shared ? grad.clone() : std::move(grad));
    }
    for (size_t i = 0; i < sums.size(); ++i) leaves_[i]->grad = std::move(sums[i]);
  }

 private:
  // All calls the roots depend on, latest first, and which of them lead to a target.
  void collect() {
    std::unordered_set<const Node*> seen;
    std::vector<std::shared_ptr<Node>> pending = std::move(roots_);
    while (!pending.empty()) {
      const std::shared_ptr<Node> node = std::move(pending.back());
      pending.pop_back();
      if (!seen.insert(node.get()).second) continue;
      order_.push_back(node);
      for (const Edge& edge : node->edges) {
        if (edge.node != nullptr && seen.count(edge.node.get()) == 0) pending.push_back(edge.node);
      }
    }
    std::sort(order_.begin(), order_.end(),
              [](const auto& a, const auto& b) { return a->sequence > b->sequence; });
    if (!limited_) return;
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      for (const Edge& edge : (*node)->edges) {
        const bool leads =
            edge.node ? leads_to_target(edge.node.get()) : wanted_.count(edge.leaf.get()) != 0;
        if (leads) needed_.insert(node->get());
      }
    }
  }

  bool leads_to_target(const Node* node) const {
    return wanted_.count(node) != 0 || needed_.count(node) != 0;
  }

  void send(const Node& node, TensorList gradients) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!edge || !gradients[i].defined()) continue;
      if (edge.leaf != nullptr) {
        add_leaf(edge.leaf, std::move(gradients[i]));
      } else if (!limited_ || leads_to_target(edge.node.get())) {
        add_to(node_grads_[edge.node.get()], std::move(gradients[i]));
      }
    }
  }

  void add_leaf(const std::shared_ptr<GradState>& leaf, Tensor grad) {
    if (limited_ && wanted_.count(leaf.get()) == 0) return;
    Tensor& sum = leaf_grads_[leaf.get()];
    if (!sum.defined()) leaves_.push_back(leaf);
    add_to(sum, std::move(grad));
  }

  bool limited_ = false;
  std::unordered_set<const void*> wanted_;  // nodes and leaves
  std::unordered_set<const Node*> needed_;
  std::vector<std::shared_ptr<Node>> roots_, order_;
  std::unordered_map<const Node*, Tensor> node_grads_, kept_;
  std::unordered_map<GradState*, Tensor> leaf_grads_;
  std::vector<std::shared_ptr<GradState>> leaves_;  // in the order they were reached
};

Tensor seed_for(const char* op, const Tensor& output, const Tensor& given) {
  if (!given.defined()) {
    if (output.numel() != 1 && output.impl()->symbolic == nullptr) {
      fail(
          ErrorKind::autograd,
          "{}: the output has shape {}; only an output of one element needs no gradient of its own",
          op, output.shape());
    }
    return full_like(output, true, output.dtype());
  }
  if (given.dtype() != output.dtype() || !(given.shape() == output.shape())) {
    fail(ErrorKind::shape, "{}: the gradient is {} {}, but the output is {} {}; they must be equal",
         op, given.dtype(), given.shape(), output.dtype(), output.shape());
  }
  return given;
}

void expect_in_graph(const char* op, const char* what, const Tensor& tensor) {
  if (tensor.defined() && tensor.impl()->autograd != nullptr) return;
  fail(ErrorKind::autograd,
       "{}: {} takes no part in a graph: nothing it was made of requires a "
       "gradient",
       op, what);
}

}  // namespace

TensorList run_backward(const char* op, const TensorList& outputs, const TensorList& grads,
                        const TensorList* targets, bool create_graph) {
  for (const Tensor& output : outputs) expect_in_graph(op, "the output", output);
  if (targets != nullptr) {
    for (const Tensor& target : *targets) {
      if (target.defined() && target.impl()->autograd != nullptr) continue;
      fail(ErrorKind::autograd, "{}: an input does not require a gradient", op);
    }
  }
  std::optional<EnableGrad> enable;
  std::optional<NoGrad> disable;
  if (create_graph) {
    enable.emplace();
  } else {
    disable.emplace();
  }
  Pass pass(targets);
  for (size_t i = 0; i < outputs.size(); ++i) {
    pass.seed(outputs[i], seed_for(op, outputs[i], i < grads.size() ? grads[i] : Tensor()));
  }
  pass.run();
  if (targets == nullptr) {
    pass.gather();
    return {};
  }
  TensorList out;
  for (const Tensor& target : *targets) {
    const Tensor gradient = pass.gradient_of(target);
    out.push_back(gradient.defined() ? gradient : zeros_like(target));
  }
  return out;
}

}  // namespace sow::detail
