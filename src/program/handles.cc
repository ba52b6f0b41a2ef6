// SPDX-License-Identifier: Apache-2.0
// A handle of a program stands for a place: an in-place form gives it a new value, writes through
// to what it is a view of, and views of that are made again when they are next read.
#include "program/handles.h"

#include "ops/defs.h"
#include "ops/families/views.h"
#include "ops/hooks.h"
#include "sow/autograd.h"

namespace sow::detail {
namespace {

using Link = std::shared_ptr<const SymbolicView>;

Link link_of(const Tensor& tensor) {
  const Symbol* symbol = symbol_of(tensor);
  return symbol == nullptr ? nullptr : symbol->view;
}

template <class F>
void change_symbol(const Tensor& tensor, F change) {
  auto symbol = std::make_shared<Symbol>(*symbol_of(tensor));
  change(*symbol);
  tensor.impl()->symbolic = std::move(symbol);
}

// From now on `handle` means `value`. As eagerly, a call that is not recorded leaves the state of
// its destination alone.
void rebind(const Tensor& handle, const Tensor& value) {
  TensorImpl& to = *handle.impl();
  const TensorImpl& from = *value.impl();
  to.symbolic = from.symbolic;
  to.shape = from.shape;
  to.strides = from.strides;
  to.numel = from.numel;
  if (from.autograd != nullptr) to.autograd = from.autograd;
}

Tensor made_again(const SymbolicView& view) {
  const Tensor parent = view.parent != nullptr ? made_again(*view.parent) : view.root;
  if (view.op == nullptr) return parent.detach();
  return apply({view.op, {parent}, view.attrs, false});
}

void remember_view(const Tensor& view, const Tensor& of, const OpDef* op, const Attrs& attrs) {
  auto link = std::make_shared<SymbolicView>();
  link->op = op;
  link->attrs = attrs;
  link->parent = link_of(of);
  link->root = link->parent != nullptr ? link->parent->root : of;
  link->root_value = symbol_of(link->root)->value;
  change_symbol(view, [&](Symbol& symbol) { symbol.view = std::move(link); });
}

// Whether what is written into a view reaches its base is known for every view but a reshaped one,
// which is a copy where the strides ask for it.
void expect_written_through(const Call& call, const SymbolicView& view) {
  for (const SymbolicView* step = &view; step != nullptr; step = step->parent.get()) {
    const bool reshaped = step->op == &kReshape || step->op == &kFlatten;
    const bool dense = step->parent == nullptr && symbol_of(step->root)->dense;
    if (step->op == &kBroadcastTo) {
      fail(ErrorKind::overlap,
           "{}: the destination is a broadcast view, which may overlap itself; use {}, or write "
           "into a copy",
           op_name(call), twin_name(call));
    }
    if (reshaped && !dense) {
      fail(ErrorKind::argument,
           "{}: the destination is a reshaped tensor of a program, and whether that is a view or a "
           "copy is not known while building; use {}, or reshape a clone",
           op_name(call), twin_name(call));
    }
  }
}

void expect_in_place(const Call& call) {
  const Tensor& destination = call.inputs[0];
  if (symbol_of(destination) == nullptr) {
    fail(ErrorKind::argument,
         "{}: the destination is a real tensor and another operand is symbolic; a program writes "
         "only what is its own: use {}, which returns a new tensor",
         op_name(call), twin_name(call));
  }
  const Link view = link_of(destination);
  if (view != nullptr) expect_written_through(call, *view);
  for (const Tensor& written : {destination, view != nullptr ? view->root : destination}) {
    if (!grad_enabled() || !written.requires_grad() || !written.is_leaf()) continue;
    fail(ErrorKind::autograd,
         "{}: the destination is a leaf that requires a gradient; use {}, or write into it under "
         "NoGrad",
         op_name(call), twin_name(call));
  }
}

// `value` becomes what `handle` means, and what it is a view of takes it in.
void write(const Tensor& handle, const Tensor& value) {
  const Link view = link_of(handle);
  const bool dense = symbol_of(handle)->dense;
  Tensor whole = value;
  for (const SymbolicView* step = view.get(); step != nullptr; step = step->parent.get()) {
    if (step->op == nullptr) continue;
    const Tensor parent = step->parent != nullptr ? made_again(*step->parent) : step->root;
    whole = write_back({step->op, {parent}, step->attrs, false}, whole);
  }
  if (view != nullptr) {
    const bool root_dense = symbol_of(view->root)->dense;
    rebind(view->root, whole);
    change_symbol(view->root, [&](Symbol& symbol) {
      symbol.view = nullptr;
      symbol.dense = root_dense;
    });
  }
  rebind(handle, value);
  change_symbol(handle, [&](Symbol& symbol) {
    symbol.dense = dense;
    symbol.view = nullptr;
    if (view == nullptr) return;
    auto link = std::make_shared<SymbolicView>(*view);
    link->root_value = symbol_of(view->root)->value;
    symbol.view = std::move(link);
  });
}

}  // namespace

void refresh(const Tensor& tensor) {
  const Link view = link_of(tensor);
  if (view == nullptr || symbol_of(view->root)->value == view->root_value) return;
  rebind(tensor, made_again(*view));
}

Tensor without_view(const Tensor& tensor) {
  if (link_of(tensor) != nullptr) {
    change_symbol(tensor, [](Symbol& symbol) { symbol.view = nullptr; });
  }
  return tensor;
}

void remember_alias(const Tensor& alias, const Tensor& of) {
  if (symbol_of(of) != nullptr) remember_view(alias, of, nullptr, {});
}

Tensor apply_in_program(Call&& call) {
  for (const Tensor& input : call.inputs) refresh(input);
  if (call.in_place && call.inputs[0].defined()) expect_in_place(call);
  const Tensor first = call.inputs[0];
  const OpDef* op = call.op;
  const Attrs attrs = call.attrs;
  const bool in_place = call.in_place;
  const Tensor result = infer_and_run(call);
  if (in_place) {
    write(first, result);
    return first;
  }
  if (op->view != nullptr && symbol_of(first) != nullptr) {
    remember_view(result, first, op, attrs);
  } else if (op->view == nullptr && !op->keeps_layout) {
    change_symbol(result, [](Symbol& symbol) { symbol.dense = true; });
  }
  return result;
}

}  // namespace sow::detail
