// SPDX-License-Identifier: Apache-2.0
// Tensors: making, looking, copying. Views and operations are in src/ops.
#include "sow/tensor.h"

#include <cstring>
#include <numeric>
#include <ostream>
#include <utility>

#include "core/device_table.h"
#include "core/dtype_switch.h"
#include "core/fail.h"
#include "core/tensor/address_source.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"

namespace sow {

using detail::fail;
using detail::Storage;
using detail::TensorImpl;

namespace detail {

Storage::~Storage() {
  if (deleter) {
    deleter();
  } else if (base != nullptr) {
    device_table(device.type).deallocate(base, bytes, device.index);
  }
}

namespace {

constinit thread_local AddressSource* address_source = nullptr;

Tensor make_tensor(const Dims& shape, Dims strides, DType dtype, Device device) {
  auto impl = std::make_shared<TensorImpl>();
  impl->numel = checked_numel(shape, size_of(dtype), "tensor");
  auto storage = std::make_shared<Storage>();
  storage->bytes = static_cast<size_t>(impl->numel) * size_of(dtype);
  storage->device = device;
  if (address_source != nullptr) {  // planning: an address will do
    storage->deleter = [] {};
    storage->base = address_source->reserve(storage->bytes);
  } else {
    storage->base = device_table(device.type).allocate(storage->bytes, device.index);
  }
  impl->data = static_cast<char*>(storage->base);
  impl->storage = std::move(storage);
  impl->dtype = dtype;
  impl->device = device;
  impl->shape = shape;
  impl->strides = std::move(strides);
  return Tensor(std::move(impl));
}

}  // namespace

AddressSource* current_address_source() { return address_source; }
AddressSource* set_address_source(AddressSource* source) {
  return std::exchange(address_source, source);
}

Tensor empty_strided_like(const Dims& shape, const Dims& like, DType dtype, Device device) {
  return make_tensor(shape, dense_strides_like(shape, like), dtype, device);
}

Tensor make_view(const Tensor& base, int64_t offset, Dims shape, Dims strides) {
  const TensorImpl& from = *base.impl();
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = from.storage;
  impl->is_view = true;
  impl->dtype = from.dtype;
  impl->device = from.device;
  impl->numel = checked_numel(shape, 1, "view");
  // An empty view may have an offset past the end: keep the pointer inside the block. A tensor that
  // only stands for a shape has no data.
  impl->data = from.data;
  if (impl->numel != 0 && from.data != nullptr) {
    impl->data += offset * static_cast<int64_t>(size_of(from.dtype));
  }
  impl->shape = std::move(shape);
  impl->strides = std::move(strides);
  return Tensor(std::move(impl));
}

}  // namespace detail

std::string to_string(Device device) {
  if (device.type == DeviceType::cpu) return "cpu";
  return "cuda:" + std::to_string(device.index);
}

namespace {

// An error if the elements span more than 2^63 - 1 bytes. Strides that no element follows (an
// extent of 1, an empty array) may be anything; those beyond 48 bits become 0.
void check_span(const Dims& shape, Dims& strides, size_t item_size, int64_t numel, const char* op) {
  constexpr int64_t kFar = int64_t{1} << 48;
  int64_t below = 0, above = static_cast<int64_t>(item_size);
  for (int d = 0; d < shape.rank(); ++d) {
    if (numel == 0 || shape[d] < 2) {
      if (strides[d] > kFar || strides[d] < -kFar) strides[d] = 0;
      continue;
    }
    int64_t reach;
    int64_t& end = strides[d] < 0 ? below : above;
    if (__builtin_mul_overflow(strides[d], shape[d] - 1, &reach) ||
        __builtin_mul_overflow(reach, static_cast<int64_t>(item_size), &reach) ||
        __builtin_add_overflow(end, reach, &end)) {
      fail(ErrorKind::argument, "{}: strides {} of shape {} span more than 2^63 - 1 bytes", op,
           strides, shape);
    }
  }
}

const TensorImpl& state(const std::shared_ptr<TensorImpl>& impl) {
  if (!impl) fail(ErrorKind::argument, "tensor: this Tensor is undefined (default-constructed)");
  return *impl;
}

}  // namespace

Tensor Tensor::empty(const Dims& shape, DType dtype, Device device) {
  return detail::make_tensor(shape, detail::row_major_strides(shape), dtype, device);
}

Tensor Tensor::zeros(const Dims& shape, DType dtype, Device device) {
  return full(shape, Scalar(false), dtype, device);
}

Tensor Tensor::ones(const Dims& shape, DType dtype, Device device) {
  return full(shape, Scalar(true), dtype, device);
}

Tensor Tensor::full(const Dims& shape, const Scalar& value, DType dtype, Device device) {
  return empty(shape, dtype, device).fill_(value);
}

Tensor Tensor::arange(int64_t count, DType dtype, Device device) {
  if (!is_integer(dtype) && !is_floating(dtype)) {
    fail(ErrorKind::type, "arange: {} has no counting order; use an integer or floating type",
         dtype);
  }
  if (count < 0) fail(ErrorKind::argument, "arange: count is {}, but must not be negative", count);
  if (!(device == Device{})) {
    Tensor out = empty({count}, dtype, device);
    if (dtype != DType::int64) return out.copy_(arange(count, dtype));
    detail::device_table(device.type).count_up(out.data(), count, device.index);
    return out;
  }
  Tensor out = empty({count}, dtype);
  if (dtype == DType::int64) {
    std::iota(out.data<int64_t>(), out.data<int64_t>() + count, int64_t{0});
    return out;
  }
  char* at = static_cast<char*>(out.data());
  for (int64_t i = 0; i < count; ++i) {
    Scalar(i).write_as(dtype, at + i * static_cast<int64_t>(size_of(dtype)), "arange");
  }
  return out;
}

Tensor Tensor::scalar(const Scalar& value, DType dtype) { return full({}, value, dtype); }

Tensor Tensor::copy_of(const void* data, size_t count, DType dtype, const Dims& shape) {
  Tensor out = empty(shape, dtype);
  if (out.numel() != static_cast<int64_t>(count)) {
    fail(ErrorKind::shape, "tensor: shape {} needs {} values, but {} were given", shape,
         out.numel(), count);
  }
  if (count != 0) std::memcpy(out.data(), data, out.nbytes());
  return out;
}

Tensor Tensor::wrap(Foreign foreign) {
  // Whatever goes wrong from here on, the storage's destructor gives the memory back.
  auto storage = std::make_shared<Storage>();
  storage->deleter = foreign.deleter ? std::move(foreign.deleter) : [] {};
  storage->base = foreign.data;
  storage->device = foreign.device;
  storage->read_only = foreign.read_only;
  auto impl = std::make_shared<TensorImpl>();
  impl->numel = detail::checked_numel(foreign.shape, size_of(foreign.dtype), "tensor");
  impl->strides = foreign.strides ? *foreign.strides : detail::row_major_strides(foreign.shape);
  if (impl->strides.size() != foreign.shape.size()) {
    fail(ErrorKind::shape, "tensor: shape {} needs as many strides, but got {}", foreign.shape,
         impl->strides);
  }
  check_span(foreign.shape, impl->strides, size_of(foreign.dtype), impl->numel, "tensor");
  if (foreign.data == nullptr && impl->numel != 0) {
    fail(ErrorKind::argument, "tensor: the data pointer of shape {} is null", foreign.shape);
  }
  impl->storage = std::move(storage);
  impl->data = static_cast<char*>(foreign.data);
  impl->dtype = foreign.dtype;
  impl->device = foreign.device;
  impl->shape = std::move(foreign.shape);
  return Tensor(std::move(impl));
}

Tensor Tensor::wrap_span(Foreign foreign, size_t count) {
  Tensor out = wrap(std::move(foreign));
  if (out.numel() == 0) return out;
  int64_t first = 0, last = 0;  // check_span() has seen that they can be counted
  for (int d = 0; d < out.dim(); ++d) {
    const int64_t reach = out.strides()[d] * (out.shape()[d] - 1);
    (reach < 0 ? first : last) += reach;
  }
  if (first < 0 || static_cast<uint64_t>(last) >= count) {
    fail(ErrorKind::shape,
         "tensor: shape {} with strides {} reaches from element {} to {} of a span of {}",
         out.shape(), out.strides(), first, last, static_cast<int64_t>(count));
  }
  return out;
}

DType Tensor::dtype() const { return state(impl_).dtype; }
Device Tensor::device() const { return state(impl_).device; }
const Dims& Tensor::shape() const { return state(impl_).shape; }
const Dims& Tensor::strides() const { return state(impl_).strides; }
int Tensor::dim() const { return state(impl_).shape.rank(); }
int64_t Tensor::numel() const { return state(impl_).numel; }
size_t Tensor::nbytes() const { return static_cast<size_t>(numel()) * size_of(dtype()); }

void* Tensor::data() const {
  const TensorImpl& impl = state(impl_);
  if (impl.symbolic != nullptr) {
    fail(ErrorKind::argument,
         "data: the tensor is symbolic: it has a type and a shape, and data only where its program "
         "runs");
  }
  return impl.data;
}

int64_t Tensor::size(int64_t axis) const {
  const int64_t d = detail::wrap_axis("size", axis, dim());
  return dim() == 0 ? 1 : shape()[d];
}

bool Tensor::is_contiguous() const { return detail::is_row_major(shape(), strides()); }

bool Tensor::read_only() const {
  const TensorImpl& impl = state(impl_);
  return impl.storage && impl.storage->read_only;
}

bool Tensor::same_storage(const Tensor& other) const {
  return state(impl_).storage == state(other.impl_).storage;
}

void Tensor::expect_dtype(DType dtype) const {
  if (this->dtype() != dtype) {
    fail(ErrorKind::type, "data: the tensor is {}, but {} was asked for", this->dtype(), dtype);
  }
}

void Tensor::expect_writable() const {
  if (read_only()) {
    const char* name = name_of(dtype());
    fail(ErrorKind::argument, "data: the tensor is read-only; ask for const {}, as data<const T>()",
         name);
  }
}

void Tensor::copy_out(void* out, DType dtype) const {
  expect_dtype(dtype);
  const Tensor dense = contiguous();
  if (dense.numel() == 0) return;
  detail::device_table(device().type).copy_bytes(out, dense.data(), nbytes(), device().index);
}

void Tensor::item_as(DType dtype, void* out) const {
  data();  // refuses a symbolic tensor, which has none
  if (numel() != 1) fail(ErrorKind::shape, "item: the tensor has {} elements, not one", numel());
  if (dtype == this->dtype()) return copy_out(out, dtype);
  detail::with_dtype(this->dtype(), [&](auto tag) {
    typename decltype(tag)::type value;
    copy_out(&value, this->dtype());
    Scalar(value).write_as(dtype, out, "item");
  });
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

}  // namespace sow
