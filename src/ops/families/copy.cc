// SPDX-License-Identifier: Apache-2.0
// Copies and fills: clone, copy_, fill_, and to another device.
#include "core/device_table.h"
#include "core/fail.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/gradients/rules.h"
#include "sow/limits.h"

namespace sow {

namespace detail {

namespace {

Meta infer_clone(const Call&, const Metas& in) { return in[0]; }

void lower_clone(const Call& call, const Tensor& out) {
  copy_into(out, call.inputs[0], op_name(call));
}

Meta infer_copy(const Call& call, const Metas& in) {
  const char* op = op_name(call);
  expect_same_dtype(op, "the destination", in[0].dtype, "the source", in[1].dtype);
  if (!broadcasts_to(in[1].shape, in[0].shape)) {
    fail(ErrorKind::shape, "{}: the source {} does not broadcast to the destination {}", op,
         in[1].shape, in[0].shape);
  }
  return in[0];
}

void lower_copy(const Call& call, const Tensor& out) {
  copy_into(out, call.inputs[1], op_name(call));
}

void lower_fill(const Call& call, const Tensor& out) {
  Transfer transfer = transfer_for(call, out, out.shape());
  transfer.dst.strides = out.strides();
  set_source(transfer, call, nullptr, {});
  execute(transfer, out.device());
}

// -- to another device, which attrs.start and attrs.stop name

Device target_of(const Call& call) {
  return {static_cast<DeviceType>(call.attrs.start), static_cast<int>(call.attrs.stop)};
}

Meta infer_move(const Call& call, const Metas& in) {
  Meta out = in[0];
  out.device = target_of(call);
  return out;
}

void lower_move(const Call& call, const Tensor& out) {
  const Tensor dense = call.inputs[0].contiguous();
  if (out.numel() == 0) return;
  // One of the two is the host, or the table of either knows how to reach the other.
  const Device by = out.device().type == DeviceType::cpu ? dense.device() : out.device();
  device_table(by.type).copy_bytes(out.data(), dense.data(), out.nbytes(), by.index);
}

TensorList grad_move(const Backward& b) { return {b.grad.to(b.input(0).device())}; }

const OpDef kToDevice{.name = "to_device",
                      .in_place_name = nullptr,
                      .infer = infer_move,
                      .lower = lower_move,
                      .gradient = grad_move};

}  // namespace

const OpDef kClone{.name = "clone",
                   .in_place_name = nullptr,
                   .infer = infer_clone,
                   .lower = lower_clone,
                   .gradient = grad_clone};
const OpDef kCopy{.name = "copy",
                  .in_place_name = "copy_",
                  .infer = infer_copy,
                  .lower = lower_copy,
                  .gradient = grad_copy,
                  .shape_only = 1};
const OpDef kFill{.name = "fill",
                  .in_place_name = "fill_",
                  .infer = infer_clone,
                  .lower = lower_fill,
                  .gradient = grad_fill,
                  .shape_only = 1};

const char* twin_name(const Call& call) {
  if (call.op == &kCopy) return "slice_scatter";
  return call.op == &kFill ? "masked_fill" : call.op->name;
}

}  // namespace detail

Tensor Tensor::clone() const { return detail::apply({&detail::kClone, {*this}, {}, false}); }

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  if (impl_->symbolic != nullptr) {
    detail::fail(ErrorKind::device, "to: a program stays on {}, the device of its inputs",
                 sow::to_string(this->device()));
  }
  const Tiles none({});  // a copy to another device is no scatter
  detail::Attrs attrs;
  attrs.start = static_cast<int64_t>(device.type);
  attrs.stop = device.index;
  return detail::apply({&detail::kToDevice, {*this}, attrs, false});
}

Tensor Tensor::copy_(const Tensor& source) const {
  if (!(source.device() == device())) return copy_(source.to(device()));
  return detail::apply({&detail::kCopy, {*this, source}, {}, true});
}

Tensor Tensor::fill_(const Scalar& value) const {
  detail::Attrs attrs;
  attrs.scalar = value;
  return detail::apply({&detail::kFill, {*this}, attrs, true});
}

}  // namespace sow
