// SPDX-License-Identifier: Apache-2.0
// How each family of indexed operations uses the shared gradient rules, and the gathers' rules.
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "core/text.h"
#include "ops/defs.h"
#include "ops/gradients/indexed_grad.h"
#include "ops/gradients/rules.h"
#include "ops/like.h"
#include "sow/math.h"
#include "transfer/plan/plan.h"

namespace sow::detail {

namespace {

void axis_items(const Call& call, int rank, int64_t& first, int64_t& last) {
  first = wrap_axis(op_name(call), call.attrs.axis, rank);
  last = first + 1;
}

void outer_items(const Call& call, int, int64_t& first, int64_t& last) {
  first = 0;
  last = call.inputs[1].dim() - 1;
}

void index_put_items(const Call& call, int rank, int64_t& first, int64_t& last) {
  const size_t indices = call.inputs.size() - 1 - (call.attrs.scalar ? 0 : 1);
  int64_t addressed = 0;
  for (size_t i = 1; i <= indices; ++i) {
    const bool mask = call.inputs[i].dtype() == DType::bool_;
    addressed += mask ? std::max(call.inputs[i].dim(), 1) : 1;
  }
  first = 0;
  last = rank - (std::max(call.inputs[0].dim(), 1) - addressed);
}

extern const IndexedFamily kAlongAxis, kRows, kNd;

template <const IndexedFamily& family>
constexpr OpDef walk_source{
    .name = "source_gradient",
    .in_place_name = nullptr,
    .infer = [](const Call& call,
                const Metas& inputs) { return infer_walk_source(call, inputs, family); },
    .lower = [](const Call& call, const Tensor& out) { lower_walk_source(call, out, family); }};
template <const IndexedFamily& family>
constexpr OpDef walk_destination{.name = "destination_gradient",
                                 .in_place_name = nullptr,
                                 .infer = infer_walk_destination,
                                 .lower = [](const Call& call, const Tensor& out) {
                                   lower_walk_destination(call, out, family);
                                 }};

const IndexedFamily kAlongAxis{&kTakeAlongAxis,          &kPutAlongAxis,
                               &kPutAlongAxis,           axis_items,
                               &walk_source<kAlongAxis>, &walk_destination<kAlongAxis>};
const IndexedFamily kRows{&kIndexSelect, &kIndexReduce,       &kIndexFill,
                          axis_items,    &walk_source<kRows>, &walk_destination<kRows>};
const IndexedFamily kNd{&kGatherNd,  &kTensorScatterNdAdd, &kTensorScatterNdAdd,
                        outer_items, &walk_source<kNd>,    &walk_destination<kNd>};
const IndexedFamily kPut{&kIndexGet, &kIndexPut, &kIndexPut, index_put_items};

// Adds g to zeros at the places that a gather read; on a fresh tensor, so in place.
TensorList scatter_back(const Backward& b, const OpDef& scatter) {
  Call call;
  call.op = &scatter;
  call.attrs = b.call.attrs;
  call.attrs.reduce = Reduce::add;
  call.attrs.include_self = true;
  call.attrs.accumulate = true;
  call.inputs = b.call.inputs;
  call.inputs[0] = zeros_like(b.input(0));
  call.in_place = may_write(call.inputs[0], b.grad);
  call.inputs.push_back(b.grad);
  TensorList out(b.call.inputs.size());
  out[0] = apply(std::move(call));
  return out;
}

constexpr int64_t kWorthHolding = 1 << 13;  // keys; fewer are ordered in no time

void hold_order(Call& call, uint64_t needs, int64_t size) {
  Attrs& attrs = call.attrs;
  const Tensor& index = call.inputs[1];
  const bool wants_source = !attrs.scalar && (needs & 4) != 0;
  if (!wants_source || attrs.order != nullptr || attrs.reduce == Reduce::add) return;
  if (attrs.bounds == Bounds::promise || index.numel() < kWorthHolding) return;
  if (index.impl()->symbolic != nullptr || index.device().type != DeviceType::cpu) return;
  try {
    attrs.order = Index::hold(index, size, attrs.bounds).order();
    attrs.held_size = size;
    if (std::string* words = current_explanation()) {
      *words += text("{}: its {} keys are ordered here, for the scatter and its gradient\n",
                     op_name(call), index.numel());
    }
  } catch (const Error&) {
    // A bad key: the call itself says so, in its own words.
  }
}

}  // namespace

void prepare_along_axis(Call& call, uint64_t needs) {
  if (call.inputs[0].dim() == 1) hold_order(call, needs, call.inputs[0].shape()[0]);
}

void prepare_rows(Call& call, uint64_t needs) {
  hold_order(call, needs, call.inputs[0].size(call.attrs.axis));
}

void prepare_nd(Call& call, uint64_t needs) {
  if (call.inputs[1].shape().back() == 1) hold_order(call, needs, call.inputs[0].shape()[0]);
}

TensorList grad_along_axis(const Backward& b) { return indexed_gradient(b, kAlongAxis); }
TensorList grad_rows(const Backward& b) { return indexed_gradient(b, kRows); }
TensorList grad_index_put(const Backward& b) { return indexed_gradient(b, kPut); }

TensorList grad_tensor_scatter_nd(const Backward& b) {
  TensorList out = indexed_gradient(b, kNd);
  const bool subtracts = b.call.op == &kTensorScatterNdSub;
  if (subtracts && out.back().defined()) out.back() = neg(out.back());
  return out;
}

TensorList grad_scatter_nd(const Backward& b) {
  Call call;
  call.op = &kGatherNd;
  call.attrs = b.call.attrs;
  call.attrs.reduce = Reduce::assign;
  call.inputs = {b.grad, b.input(0)};
  return {{}, apply(std::move(call))};
}

TensorList grad_take_along_axis(const Backward& b) { return scatter_back(b, kPutAlongAxis); }
TensorList grad_index_select(const Backward& b) { return scatter_back(b, kIndexAdd); }
TensorList grad_gather_nd(const Backward& b) { return scatter_back(b, kTensorScatterNdAdd); }
TensorList grad_index_get(const Backward& b) { return scatter_back(b, kIndexPut); }

uint64_t saves_index(const Call& call, uint64_t) { return (uint64_t{1} << call.inputs.size()) - 2; }

uint64_t saves_scatter_nd(const Call&, uint64_t) { return 1; }

}  // namespace sow::detail
