// SPDX-License-Identifier: Apache-2.0
// The door every operation goes through: checks, room for the result, lowering.
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "core/threads/float_state.h"
#include "core/threads/interrupt.h"
#include "ops/hooks.h"
#include "ops/op.h"
#include "sow/limits.h"

namespace sow::detail {

Meta meta_of(const Tensor& tensor) { return {tensor.dtype(), tensor.shape(), tensor.device()}; }

void expect_same_dtype(const char* op, const char* name_a, DType a, const char* name_b, DType b) {
  if (a == b) return;
  fail(ErrorKind::type, "{}: {} is {} but {} is {}; they must have the same type", op, name_a, a,
       name_b, b);
}

void expect_index_dtype(const char* op, DType dtype) {
  if (dtype == DType::int32 || dtype == DType::int64) return;
  fail(ErrorKind::type, "{}: the index is {}; an index must be of an integer type", op, dtype);
}

void expect_reducible(const char* op, Reduce reduce, DType dtype) {
  const bool ordered = reduce == Reduce::amax || reduce == Reduce::amin;
  if (ordered && is_complex(dtype)) {
    fail(ErrorKind::type, "{}: {} needs an order, and {} has none", op, name_of(reduce), dtype);
  }
  if (is_bitwise(reduce) && is_differentiable(dtype)) {
    fail(ErrorKind::type, "{}: {} needs an integer type or bool, and this is {}", op,
         name_of(reduce), dtype);
  }
  if (reduce == Reduce::mean && dtype == DType::bool_) {
    fail(ErrorKind::type, "{}: bool has no mean", op);
  }
}

void expect_same_device(const char* op, const Metas& inputs) {
  for (const Meta& meta : inputs) {
    if (meta.device == inputs[0].device) continue;
    fail(ErrorKind::device, "{}: operands are on {} and {}; they must be on one device", op,
         to_string(inputs[0].device), to_string(meta.device));
  }
}

namespace {

// What section 7 of the contract asks of a destination.
void expect_writable(const char* op, const Tensor& destination) {
  if (destination.read_only()) {
    fail(ErrorKind::overlap, "{}: the destination is read-only", op);
  }
  const SelfOverlap overlap = self_overlap(destination.shape(), destination.strides());
  if (overlap != SelfOverlap::no) {
    std::string strides;  // Dims print what is negative as unknown
    for (const int64_t stride : destination.strides()) {
      strides += (strides.empty() ? "" : ", ") + std::to_string(stride);
    }
    fail(ErrorKind::overlap,
         "{}: the destination of shape {} and strides [{}] {} itself; write into a copy", op,
         destination.shape(), strides, overlap == SelfOverlap::yes ? "overlaps" : "may overlap");
  }
}

Tensor fresh_result(const Call& call, const Meta& meta) {
  if (call.op->keeps_layout) {
    const Tensor& input = call.inputs[0];
    if (self_overlap(input.shape(), input.strides()) == SelfOverlap::no) {
      return empty_strided_like(meta.shape, input.strides(), meta.dtype, meta.device);
    }
  }
  return Tensor::empty(meta.shape, meta.dtype, meta.device);
}

Tensor run_in_place(Call& call) {
  const char* op = op_name(call);
  const Tensor destination = call.inputs[0];
  expect_writable(op, destination);
  // The result is as if inputs were read before anything is written.
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (may_share_bytes(destination, call.inputs[i])) call.inputs[i] = call.inputs[i].clone();
  }
  const KeepWhileExplaining keep(destination);
  look_for_interrupt();
  const Uninterrupted from_here;
  call.op->lower(call, destination);
  destination.impl()->storage->count_write();
  return destination;
}

}  // namespace

Tensor apply(Call&& call) {
  const FloatStateGuard guard;
  if (is_symbolic_call(call)) return apply_in_program(std::move(call));
  return infer_and_run(call);
}

Tensor infer_and_run(Call& call) {
  Metas metas;
  for (const Tensor& input : call.inputs) {
    metas.emplace_back(input.dtype(), input.shape(), input.device());
  }
  expect_same_device(op_name(call), metas);
  const Meta meta = call.op->infer(call, metas);
  if (takes_part(call)) return record(std::move(call), meta);
  return run_call(call, meta);
}

// A tile shape is meant for destinations of its own rank.
void expect_tiles_fit(const char* op, const Meta& meta) {
  if (!has_tile_shape()) return;
  const Dims tiles = tile_shape();
  if (tiles.empty() || tiles.size() == meta.shape.size()) return;
  fail(ErrorKind::shape, "{}: the tile shape {} has {} axes, the destination {} has {}", op, tiles,
       tiles.size(), meta.shape, meta.shape.size());
}

Tensor run_call(Call& call, const Meta& meta) {
  if (Rehearsal* rehearsal = current_rehearsal()) {
    if (!rehearsal->met && rehearsal->op == op_name(call)) {
      return rehearse_call(*rehearsal, call, meta);
    }
  }
  if (is_symbolic_call(call)) return record_in_program(call, meta);
  if (call.op->view != nullptr) return call.op->view(call);
  expect_tiles_fit(op_name(call), meta);
  if (call.in_place) return run_in_place(call);
  if (call.op->dynamic != nullptr) return call.op->dynamic(call);
  const Tensor out = fresh_result(call, meta);
  call.op->lower(call, out);
  return out;
}

Transfer transfer_for(const Call& call, const Tensor& out, const Dims& shape) {
  Transfer transfer;
  transfer.op = op_name(call);
  transfer.dtype = out.dtype();
  transfer.shape = shape;
  transfer.dst.data = static_cast<char*>(out.data());
  transfer.bounds = call.attrs.bounds;
  transfer.order = call.attrs.order.get();
  transfer.reduce = call.attrs.reduce;
  transfer.include_self = call.attrs.include_self;
  return transfer;
}

void set_source(Transfer& transfer, const Call& call, const Tensor* source, const Dims& strides) {
  if (source == nullptr) {
    call.attrs.scalar->write_as(transfer.dtype, transfer.scalar, transfer.op);
    return;
  }
  transfer.src.data = static_cast<char*>(source->data());
  transfer.src.strides = strides;
}

void copy_into(const Tensor& out, const Tensor& x, const char* op) {
  if (out.same_object(x)) return;
  Transfer transfer;
  transfer.op = op;
  transfer.dtype = out.dtype();
  transfer.shape = out.shape();
  transfer.dst = {static_cast<char*>(out.data()), out.strides()};
  transfer.src = {static_cast<char*>(x.data()),
                  broadcast_strides(x.shape(), x.strides(), out.shape())};
  execute(transfer, out.device());
}

}  // namespace sow::detail
