// SPDX-License-Identifier: Apache-2.0
// The public face of gradients: what tensors can be asked, grad() and vjp().
#include "sow/autograd.h"

#include "autograd/node.h"
#include "ops/hooks.h"
#include "ops/like.h"

namespace sow {

using detail::fail;

namespace {

detail::TensorImpl& state_of(const char* op, const Tensor& tensor) {
  if (!tensor.defined()) fail(ErrorKind::argument, "{}: the tensor is undefined", op);
  return *tensor.impl();
}

bool is_leaf_state(const detail::TensorImpl& impl) {
  const auto* state = static_cast<const detail::GradState*>(impl.autograd.get());
  return state == nullptr || state->node == nullptr;
}

}  // namespace

bool Tensor::requires_grad() const { return state_of("requires_grad", *this).autograd != nullptr; }

bool Tensor::is_leaf() const { return is_leaf_state(state_of("is_leaf", *this)); }

Tensor Tensor::set_requires_grad(bool on) const {
  detail::TensorImpl& impl = state_of("set_requires_grad", *this);
  if (on && !is_differentiable(impl.dtype)) {
    fail(ErrorKind::type, "set_requires_grad: {} has no gradients; floating and complex types have",
         impl.dtype);
  }
  if (!is_leaf_state(impl)) {
    if (on) return *this;
    fail(ErrorKind::autograd,
         "set_requires_grad: the tensor is the result of a recorded operation; use detach()");
  }
  if (!on) {
    impl.autograd.reset();
  } else if (impl.autograd == nullptr) {
    impl.autograd = std::make_shared<detail::GradState>();
  }
  return *this;
}

Tensor Tensor::grad() const {
  const detail::TensorImpl& impl = state_of("grad", *this);
  return impl.autograd == nullptr ? Tensor() : detail::grad_state(*this)->grad;
}

void Tensor::set_grad(const Tensor& grad) const {
  const detail::TensorImpl& impl = state_of("set_grad", *this);
  if (impl.autograd == nullptr || !is_leaf_state(impl)) {
    fail(ErrorKind::autograd, "set_grad: only a leaf that requires a gradient has one to set");
  }
  if (grad.defined() && (grad.dtype() != impl.dtype || !(grad.shape() == impl.shape))) {
    fail(ErrorKind::shape, "set_grad: the gradient is {} {}, but the tensor is {} {}", grad.dtype(),
         grad.shape(), impl.dtype, impl.shape);
  }
  detail::grad_state(*this)->grad = grad;
}

void Tensor::zero_grad() const {
  if (state_of("zero_grad", *this).autograd != nullptr) detail::grad_state(*this)->grad = Tensor();
}

Tensor Tensor::detach() const {
  state_of("detach", *this);
  const Tensor alias = detail::alias_of(*this);
  detail::remember_alias(alias, *this);
  return alias;
}

void Tensor::backward(const Tensor& grad, bool create_graph) const {
  state_of("backward", *this);
  detail::run_backward("backward", {*this}, {grad}, nullptr, create_graph);
}

TensorList grad(const TensorList& outputs, const TensorList& inputs, const TensorList& grad_outputs,
                bool create_graph) {
  if (!grad_outputs.empty() && grad_outputs.size() != outputs.size()) {
    fail(ErrorKind::argument, "grad: {} outputs but {} grad_outputs; there must be one for each",
         outputs.size(), grad_outputs.size());
  }
  return detail::run_backward("grad", outputs, grad_outputs, &inputs, create_graph);
}

Vjp vjp(const std::function<Tensor(const TensorList&)>& function, const TensorList& inputs) {
  TensorList leaves;
  for (const Tensor& input : inputs) {
    const Tensor leaf = input.detach();
    leaves.push_back(is_differentiable(leaf.dtype()) ? leaf.set_requires_grad() : leaf);
  }
  Vjp out;
  Tensor result;
  {
    const EnableGrad guard;
    result = function(leaves);
  }
  out.result = result.detach();
  out.pullback = [leaves, result](const Tensor& gradient) {
    TensorList wanted, gradients(leaves.size());
    for (const Tensor& leaf : leaves) {
      if (leaf.requires_grad()) wanted.push_back(leaf);
    }
    TensorList found;
    if (result.requires_grad()) {
      found = grad({result}, wanted, {gradient});
    } else {
      for (const Tensor& leaf : wanted) found.push_back(detail::zeros_like(leaf));
    }
    size_t at = 0;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].requires_grad()) gradients[i] = found[at++];
    }
    return gradients;
  };
  return out;
}

}  // namespace sow
