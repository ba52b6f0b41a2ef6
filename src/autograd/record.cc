// SPDX-License-Identifier: Apache-2.0
// Records calls: what a rule will need, where gradients go, and what in-place forms must not do.
#include "ops/hooks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "autograd/node.h"
#include "core/tensor/layout.h"
#include "sow/autograd.h"

namespace sow {
namespace detail {
namespace {

thread_local bool recording = true;
constinit thread_local Rehearsal* rehearsal = nullptr;

std::atomic<uint64_t> next_sequence{1};

// Type and shape without data.
Tensor hollow(const Tensor& tensor) {
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  impl->storage.reset();
  impl->data = nullptr;
  impl->autograd.reset();
  return Tensor(std::move(impl));
}

Saved save(const Tensor& tensor, bool with_data) {
  Saved saved;
  saved.has_data = with_data;
  saved.tensor = without_view(with_data ? alias_of(tensor) : hollow(tensor));
  const auto& storage = saved.tensor.impl()->storage;
  if (storage != nullptr) saved.version = storage->version.load(std::memory_order_relaxed);
  return saved;
}

// A view shows its base's memory: once the base was written to in place, with the graph moving on,
// the view's own node no longer says where its values come from.
void expect_fresh(const Call& call, const GradState& state) {
  if (!state.is_view) return;
  const std::shared_ptr<TensorImpl> base = state.base.lock();
  if (base == nullptr || base->autograd == state.base_state) return;
  fail(ErrorKind::autograd,
       "{}: an operand is a view whose base was changed in place since; take the view again",
       op_name(call));
}

void expect_in_place_allowed(const Call& call) {
  const Tensor& destination = call.inputs[0];
  const TensorImpl& impl = *destination.impl();
  if (impl.symbolic != nullptr) return;  // checked where its handle gets the new value
  const GradState* state = grad_state(destination);
  if (state != nullptr && state->node == nullptr) {
    fail(ErrorKind::autograd,
         "{}: the destination is a leaf that requires a gradient; use {}, or write into it under "
         "NoGrad",
         op_name(call), twin_name(call));
  }
  const bool recorded_view = state != nullptr && state->is_view;
  if (recorded_view || (impl.is_view && impl.storage.use_count() > 1)) {
    fail(ErrorKind::autograd,
         "{}: the destination is a view whose base takes part in the graph; use {}, which returns "
         "a new tensor",
         op_name(call), twin_name(call));
  }
}

Edge edge_to(const Tensor& tensor) {
  Edge edge;
  if (tensor.impl()->autograd == nullptr) return edge;
  std::shared_ptr<GradState> state = shared_grad_state(tensor);
  if (state->node != nullptr) {
    edge.node = state->node;
  } else {
    edge.leaf = std::move(state);
  }
  return edge;
}

std::shared_ptr<Node> make_node(const Call& call) {
  auto node = std::make_shared<Node>();
  node->op = call.op;
  node->in_place = call.in_place;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    node->edges.push_back(edge_to(call.inputs[i]));
    if (node->edges.back()) node->needs |= uint64_t{1} << i;
  }
  return node;
}

void save_inputs(Node& node, const Call& call, uint64_t saves) {
  const Tensor& destination = call.inputs[0];
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    const bool with_data = (saves >> i & 1) != 0;
    const bool overwritten = call.in_place && with_data && destination.impl()->storage != nullptr &&
                             input.same_storage(destination);
    node.inputs.push_back(save(overwritten ? input.clone() : input, with_data));
  }
}

std::shared_ptr<GradState> state_for(const std::shared_ptr<Node>& node, const Tensor& result,
                                     const Tensor& first) {
  auto state = std::make_shared<GradState>();
  state->node = node;
  const bool shares =
      node->op->view != nullptr && result.impl()->storage != nullptr && result.same_storage(first);
  if (!shares) return state;
  state->is_view = true;
  const GradState* of = grad_state(first);
  if (of != nullptr && of->is_view) {
    state->base = of->base;
    state->base_state = of->base_state;
  } else {
    state->base = first.shared_impl();
    state->base_state = first.impl()->autograd;
  }
  return state;
}

struct Rehearsing {
  explicit Rehearsing(Rehearsal* with) : previous(std::exchange(rehearsal, with)) {}
  ~Rehearsing() { rehearsal = previous; }
  Rehearsing(const Rehearsing&) = delete;
  Rehearsing& operator=(const Rehearsing&) = delete;
  Rehearsal* previous;
};

}  // namespace

Rehearsal* current_rehearsal() { return rehearsal; }

Tensor rehearse_call(Rehearsal& from, const Call& call, const Meta& meta) {
  from.met = true;
  const bool known =
      std::none_of(meta.shape.begin(), meta.shape.end(), [](int64_t extent) { return extent < 0; });
  if (!from.result.defined()) {
    auto impl = std::make_shared<TensorImpl>();
    impl->dtype = meta.dtype;
    impl->device = meta.device;
    impl->shape = meta.shape;
    impl->strides = row_major_strides(meta.shape);
    impl->numel = known ? checked_numel(meta.shape, 1, op_name(call)) : 0;
    return from.made = Tensor(std::move(impl));
  }
  // A call that is one of several: what it gives is not the result, and is worked out.
  if (from.result.dtype() != meta.dtype || (known && !(from.result.shape() == meta.shape))) {
    Call own = call;
    return run_call(own, meta);
  }
  return from.made = alias_of(from.result);
}

std::shared_ptr<GradState> shared_grad_state(const Tensor& tensor) {
  return std::static_pointer_cast<GradState>(tensor.impl()->autograd);
}

Tensor alias_of(const Tensor& tensor) {
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  impl->autograd.reset();
  return Tensor(std::move(impl));
}

Tensor record(Call call, const Meta& meta) {
  if (!recording) return run_call(call, meta);
  for (const Tensor& input : call.inputs) {
    if (const GradState* state = grad_state(input)) expect_fresh(call, *state);
  }
  if (call.in_place) expect_in_place_allowed(call);
  if (call.op->gradient == nullptr || !is_differentiable(meta.dtype)) {
    const NoGrad guard;
    return run_call(call, meta);
  }
  if (call.inputs.size() > 62) {
    fail(ErrorKind::autograd, "{}: gradients are for calls of at most 62 tensors", op_name(call));
  }
  const NoGrad guard;
  const std::shared_ptr<Node> node = make_node(call);
  if (call.op->prepare != nullptr) call.op->prepare(call, node->needs);
  node->attrs = call.attrs;
  const uint64_t saves = call.op->saves ? call.op->saves(call, node->needs) : 0;
  if (rehearsal != nullptr && rehearsal->op == op_name(call)) rehearsal->saves = saves;
  save_inputs(*node, call, saves);
  const Tensor first = call.inputs[0];
  const bool saves_result = (saves & kSaveResult) != 0;
  if (call.in_place && first.impl()->symbolic == nullptr) {
    // Once it is written to nothing may fail any more.
    node->result = save(first, saves_result);
    std::shared_ptr<GradState> state = state_for(node, first, first);
    const Tensor result = run_call(call, meta);
    node->result.version = first.impl()->storage->version.load(std::memory_order_relaxed);
    node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
    result.impl()->autograd = std::move(state);
    return result;
  }
  const Tensor result = run_call(call, meta);
  node->result = save(result, saves_result);
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  result.impl()->autograd = state_for(node, result, first);
  return result;
}

}  // namespace detail

Rehearsed rehearse(const char* op, const std::function<Tensor()>& call, const Tensor& result) {
  detail::Rehearsal rehearsal;
  rehearsal.op = op;
  rehearsal.result = result;
  const detail::Rehearsing guard(&rehearsal);
  Tensor recorded = call();
  // An operation that is made of others ran in full, and any data may be read by their gradients.
  if (!rehearsal.met) rehearsal.saves = ~detail::kSaveResult;
  // What was made of the call's result cannot be known without it.
  if (result.defined() && !recorded.same_object(rehearsal.made)) {
    const detail::Rehearsing made_in_full(nullptr);
    if (rehearsal.met) recorded = call();
    if (recorded.dtype() != result.dtype() || !(recorded.shape() == result.shape())) {
      detail::fail(ErrorKind::argument, "{}: a result of type {} and shape {} is none of this call",
                   op, result.dtype(), result.shape());
    }
  }
  return {std::move(recorded), rehearsal.saves & ~detail::kSaveResult,
          (rehearsal.saves & detail::kSaveResult) != 0};
}

bool grad_enabled() { return detail::recording; }

bool set_grad_enabled(bool on) { return std::exchange(detail::recording, on); }

NoGrad::NoGrad() : previous_(detail::recording) { detail::recording = false; }
NoGrad::~NoGrad() { detail::recording = previous_; }

EnableGrad::EnableGrad() : previous_(detail::recording) { detail::recording = true; }
EnableGrad::~EnableGrad() { detail::recording = previous_; }

}  // namespace sow
