// SPDX-License-Identifier: Apache-2.0
// The shape rules and call builders that the families of operations share.
#include "ops/shapes.h"

#include "sow/math.h"

namespace sow::detail {

Call make_call(const OpDef& op, bool in_place, const Tensor& first) {
  Call call;
  call.op = &op;
  call.in_place = in_place;
  call.inputs.reserve(3);
  call.inputs.push_back(first);
  return call;
}

Tensor apply_to(const OpDef& op, const Tensor& x, const Tensor& second) {
  Call call = make_call(op, false, x);
  call.inputs.push_back(second);
  return apply(std::move(call));
}

Tensor index_keys(const Tensor& keys) {
  if (!keys.defined() || !is_integer(keys.dtype())) return keys;
  if (size_of(keys.dtype()) < 4) return to(keys, DType::int32);
  if (!is_unsigned(keys.dtype())) return keys;
  if (keys.dtype() == DType::uint32) return to(keys, DType::int64);
  return to(where(gt(keys, INT64_MAX), INT64_MAX, keys), DType::int64);  // which is out of range
}

void add_index(Call& call, const Index& index) {
  call.inputs.push_back(index_keys(index.keys()));
  // A held index was checked when it was made, against the size that infer compares.
  const bool checked = index.held() && index.bounds() == Bounds::error;
  call.attrs.bounds = checked ? Bounds::promise : index.bounds();
  call.attrs.order = index.order();
  call.attrs.held_size = index.held() ? index.size() : -1;
}

bool widens(DType from, DType to) {
  const auto digits = [](DType dtype) {  // of whole numbers that it has all of
    switch (dtype) {
      case DType::bool_:
        return 1;
      case DType::float16:
        return 11;
      case DType::bfloat16:
        return 8;
      case DType::float32:
        return 24;
      case DType::float64:
        return 53;
      default:
        return 8 * static_cast<int>(size_of(dtype)) - (is_unsigned(dtype) ? 0 : 1);
    }
  };
  if (from == to) return true;
  if (to == DType::bool_ || is_complex(from) != is_complex(to)) return false;
  if (is_differentiable(from)) return is_differentiable(to) && size_of(from) < size_of(to);
  const bool negative = from != DType::bool_ && !is_unsigned(from);
  return digits(from) <= digits(to) && !(negative && is_unsigned(to));
}

void add_source(Call& call, const Tensor& source) {
  const Reduce reduce = call.attrs.reduce;
  if (source.defined() && call.inputs[0].defined() &&
      (reduce == Reduce::add || reduce == Reduce::mean)) {
    const DType dtype = call.inputs[0].dtype();
    if (source.dtype() != dtype && widens(source.dtype(), dtype)) {
      call.inputs.push_back(to(source, dtype));
      return;
    }
  }
  call.inputs.push_back(source);
}

Source fill_source(const Source& value) {
  const bool one = value.is_tensor() && value.tensor().defined() && value.tensor().dim() == 1 &&
                   value.tensor().shape()[0] == 1;
  return one ? Source(select(value.tensor(), 0, 0)) : value;
}

Index flat_keys(const Index& index) {
  const Tensor& keys = index.keys();
  if (!keys.defined() || index.held() || keys.dim() != 2 || keys.shape()[1] != 1) return index;
  return Index(select(keys, 1, 0), index.bounds());
}

void add_source(Call& call, const Source& source) {
  if (source.is_tensor()) {
    add_source(call, source.tensor());
  } else {
    call.attrs.scalar = source.scalar();
  }
}

bool may_equal(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    if (!may_equal(a[d], b[d])) return false;
  }
  return true;
}

Dims concat(const Dims& a, const Dims& b) {
  Dims out = a;
  for (const int64_t value : b) out.push_back(value);
  return out;
}

void expect_source_dtype(const Call& call, const char* destination, const char* source,
                         const Metas& inputs, size_t at) {
  const DType dtype = inputs[0].dtype;
  if (call.attrs.scalar) {
    alignas(16) std::byte unused[16];
    call.attrs.scalar->write_as(dtype, unused, op_name(call));
  } else {
    expect_same_dtype(op_name(call), destination, dtype, source, inputs[at].dtype);
  }
}

void expect_fill_value(const Call& call, const char* destination, const Metas& inputs, size_t at) {
  expect_source_dtype(call, destination, "value", inputs, at);
  if (!call.attrs.scalar && !inputs[at].shape.empty()) {
    fail(ErrorKind::shape,
         "{}: value has shape {}; it must be a scalar, or a tensor of shape [] or [1]",
         op_name(call), inputs[at].shape);
  }
}

void expect_mask_dtype(const char* op, DType dtype) {
  if (dtype != DType::bool_) {
    fail(ErrorKind::type, "{}: mask is {}; a mask must be bool", op, dtype);
  }
}

void expect_held_size(const char* op, int64_t held_size, int64_t axis, int64_t extent) {
  if (held_size >= 0 && !may_equal(held_size, extent)) {
    fail(ErrorKind::argument,
         "{}: the index is held for an axis of size {}, but axis {} has size {}; hold it for that",
         op, held_size, axis, extent);
  }
}

IndexOperand index_operand(const Tensor& index, const Dims& strides, int64_t axis, int64_t extent,
                           int64_t scale) {
  IndexOperand out;
  out.data = static_cast<const char*>(index.data());
  out.dtype = index.dtype();
  out.strides = strides;
  out.extent = extent;
  out.scale = scale;
  out.own_shape = index.shape();
  out.own_strides = index.strides();
  out.axis = static_cast<int>(axis);
  return out;
}

void set_fill_value(Transfer& transfer, const Call& call, size_t at) {
  set_source(transfer, call, source_of(call, at), Dims(transfer.shape.size(), 0));
}

Dims expanded_strides(const Tensor* tensor, const Dims& shape) {
  if (tensor == nullptr) return Dims(shape.size(), 0);
  return broadcast_strides(tensor->shape(), tensor->strides(), shape);
}

}  // namespace sow::detail
