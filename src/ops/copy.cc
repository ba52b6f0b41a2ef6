// Copies and fills: clone, copy_, fill_.
#include "core/device_table.h"
#include "core/layout.h"
#include "ops/defs.h"
#include "ops/rules.h"

namespace sow {

namespace detail {

namespace {

Meta infer_clone(const Call&, const std::vector<Meta>& in) { return in[0]; }

void lower_clone(const Call& call, const Tensor& out) { copy_into(out, call.inputs[0], op_name(call)); }

Meta infer_copy(const Call& call, const std::vector<Meta>& in) {
  const char* op = op_name(call);
  expect_same_dtype(op, "the destination", in[0].dtype, "the source", in[1].dtype);
  if (!broadcasts_to(in[1].shape, in[0].shape)) {
    fail(ErrorKind::shape, "{}: the source {} does not broadcast to the destination {}", op,
         in[1].shape, in[0].shape);
  }
  return in[0];
}

void lower_copy(const Call& call, const Tensor& out) { copy_into(out, call.inputs[1], op_name(call)); }

void lower_fill(const Call& call, const Tensor& out) {
  Transfer transfer = transfer_for(call, out, out.shape());
  transfer.dst.strides = out.strides();
  set_source(transfer, call, nullptr, {});
  execute(transfer, out.device());
}

}  // namespace

const OpDef kClone{.name = "clone", .in_place_name = nullptr, .infer = infer_clone,
                   .lower = lower_clone, .gradient = grad_clone};
const OpDef kCopy{.name = "copy", .in_place_name = "copy_", .infer = infer_copy,
                  .lower = lower_copy, .gradient = grad_copy, .shape_only = 1};
const OpDef kFill{.name = "fill", .in_place_name = "fill_", .infer = infer_clone,
                  .lower = lower_fill, .gradient = grad_fill, .shape_only = 1};

}  // namespace detail

Tensor Tensor::clone() const { return detail::apply({&detail::kClone, {*this}, {}, false}); }

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  const Tensor dense = contiguous();
  const Tensor out = empty(shape(), dtype(), device);
  if (numel() == 0) return out;
  // One of the two is the host, or the table of either knows how to reach the other.
  const Device by = device.type == DeviceType::cpu ? this->device() : device;
  detail::device_table(by.type).copy_bytes(out.data(), dense.data(), nbytes(), by.index);
  return out;
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
