// SPDX-License-Identifier: Apache-2.0
// Elements one at a time; never on the way of an operation.
#include "arrays/elements.h"

#include <complex>
#include <cstring>

namespace sow::python {
namespace {

template <class T>
T load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

nb::object list_of(const char* data, const Tensor& tensor, size_t axis) {
  if (axis == tensor.shape().size()) return object_at(data, tensor.dtype());
  nb::list out;
  const int64_t step = tensor.strides()[axis] * static_cast<int64_t>(size_of(tensor.dtype()));
  for (int64_t i = 0; i < tensor.shape()[axis]; ++i)
    out.append(list_of(data + i * step, tensor, axis + 1));
  return out;
}

}  // namespace

Scalar scalar_at(const void* data, DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return Scalar(load<uint8_t>(data) != 0);
    case DType::uint8:
      return Scalar(load<uint8_t>(data));
    case DType::int8:
      return Scalar(load<int8_t>(data));
    case DType::int16:
      return Scalar(load<int16_t>(data));
    case DType::int32:
      return Scalar(load<int32_t>(data));
    case DType::int64:
      return Scalar(load<int64_t>(data));
    case DType::uint16:
      return Scalar(load<uint16_t>(data));
    case DType::uint32:
      return Scalar(load<uint32_t>(data));
    case DType::uint64:
      return Scalar(load<uint64_t>(data));
    case DType::float16:
      return Scalar(load<float16>(data));
    case DType::bfloat16:
      return Scalar(load<bfloat16>(data));
    case DType::float32:
      return Scalar(load<float>(data));
    case DType::float64:
      return Scalar(load<double>(data));
    case DType::complex64:
      return Scalar(load<std::complex<float>>(data));
    case DType::complex128:
      return Scalar(load<std::complex<double>>(data));
  }
  return Scalar(0);
}

nb::object object_at(const void* data, DType dtype) {
  if (dtype == DType::bool_) return nb::bool_(load<uint8_t>(data) != 0);
  alignas(16) char wide[16];
  const Scalar value = scalar_at(data, dtype);
  if (dtype == DType::uint64) return nb::int_(load<uint64_t>(data));
  if (is_integer(dtype)) {
    value.write_as(DType::int64, wide, "item");
    return nb::int_(load<int64_t>(wide));
  }
  if (!is_complex(dtype)) {
    value.write_as(DType::float64, wide, "item");
    return nb::float_(load<double>(wide));
  }
  value.write_as(DType::complex128, wide, "item");
  const auto number = load<std::complex<double>>(wide);
  return nb::steal(PyComplex_FromDoubles(number.real(), number.imag()));
}

Tensor on_device(const Tensor& tensor, Device device) { return tensor.to(device); }

void expect_real(const Tensor& tensor, const char* op) {
  if (!is_symbolic(tensor)) return;
  raise(PyExc_ValueError, std::string(op) + ": the tensor is symbolic: it has a type and a shape " +
                              to_string(tensor.shape()) + ", and data only where its program runs");
}

namespace {

[[noreturn]] void refuse_unknown(const Tensor& tensor, const char* op) {
  raise(PyExc_ValueError, std::string(op) + ": the tensor is symbolic, and of its shape " +
                              to_string(tensor.shape()) +
                              " what is ? is known only where its program runs");
}

}  // namespace

int64_t known_extent(const Tensor& tensor, int axis, const char* op) {
  const int64_t extent = tensor.shape()[static_cast<size_t>(axis)];
  if (extent < 0) refuse_unknown(tensor, op);
  return extent;
}

int64_t known_size(const Tensor& tensor, const char* op) {
  if (tensor.numel() < 0) refuse_unknown(tensor, op);
  return tensor.numel();
}

nb::object to_list(const Tensor& tensor) {
  expect_real(tensor, "tolist");
  const Tensor host = on_host(tensor);
  return list_of(static_cast<const char*>(host.data()), host, 0);
}

Tensor converted(const Tensor& tensor, DType dtype, const char* op) {
  if (tensor.dtype() == dtype) return tensor.clone();
  if (is_symbolic(tensor)) {
    raise(PyExc_ValueError, std::string(op) + ": the tensor is symbolic, and whether " +
                                name_of(dtype) +
                                " holds its elements is known only where its program runs; use "
                                "cast, which rounds");
  }
  const Tensor source = on_host(tensor).contiguous();
  Tensor out = Tensor::empty(tensor.shape(), dtype);
  const auto* from = static_cast<const char*>(source.data());
  auto* to = static_cast<char*>(out.data());
  for (int64_t i = 0; i < source.numel(); ++i) {
    scalar_at(from, source.dtype()).write_as(dtype, to, op);
    from += size_of(source.dtype());
    to += size_of(dtype);
  }
  return on_device(out, tensor.device());
}

}  // namespace sow::python
