// SPDX-License-Identifier: Apache-2.0
// DLPack both ways, without a copy.
#include "sow/dlpack.h"

#include "core/fail.h"
#include "core/tensor/dlpack_abi.h"
#include "core/tensor/tensor_impl.h"

namespace sow {

using detail::fail;
namespace dlpack = detail::dlpack;

namespace {

struct TypeRow {
  DType dtype;
  uint8_t code;
  uint8_t bits;
};

constexpr TypeRow kTypes[] = {
    {DType::bool_, dlpack::kBool, 8},         {DType::uint8, dlpack::kUInt, 8},
    {DType::int8, dlpack::kInt, 8},           {DType::int16, dlpack::kInt, 16},
    {DType::int32, dlpack::kInt, 32},         {DType::int64, dlpack::kInt, 64},
    {DType::float16, dlpack::kFloat, 16},     {DType::bfloat16, dlpack::kBfloat, 16},
    {DType::float32, dlpack::kFloat, 32},     {DType::float64, dlpack::kFloat, 64},
    {DType::complex64, dlpack::kComplex, 64}, {DType::complex128, dlpack::kComplex, 128},
    {DType::uint16, dlpack::kUInt, 16},       {DType::uint32, dlpack::kUInt, 32},
    {DType::uint64, dlpack::kUInt, 64},
};

DType dtype_from(dlpack::DataType type) {
  for (const TypeRow& row : kTypes) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  fail(ErrorKind::type,
       "from_dlpack: type code {} with {} bits and {} lanes is none of sow's element types",
       type.code, type.bits, type.lanes);
}

dlpack::DataType dtype_to(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return {row.code, row.bits, 1};
  }
  fail(ErrorKind::type, "to_dlpack: {} has no DLPack type", dtype);
}

Device device_from(dlpack::Device device) {
  switch (device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      return {DeviceType::cpu, 0};
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      return {DeviceType::cuda, device.index};
    default:
      fail(ErrorKind::device, "from_dlpack: device type {} is neither a CPU nor a CUDA device",
           device.type);
  }
}

// All that can be wrong with the array, before anything is taken over.
Tensor::Foreign foreign_from(const dlpack::Array& array) {
  constexpr int kMostDimensions = 64;  // as in NumPy and PyTorch
  if (array.ndim < 0 || array.ndim > kMostDimensions ||
      (array.ndim > 0 && array.shape == nullptr)) {
    fail(ErrorKind::shape, "from_dlpack: the array has {} dimensions and {} shape", array.ndim,
         array.shape == nullptr ? "no" : "a");
  }
  Tensor::Foreign out;
  out.dtype = dtype_from(array.dtype);
  out.device = device_from(array.device);
  out.shape = Dims(array.shape, static_cast<size_t>(array.ndim));
  if (reinterpret_cast<uintptr_t>(array.data) + array.byte_offset < array.byte_offset)
    fail(ErrorKind::argument, "from_dlpack: byte_offset {} leads out of memory", array.byte_offset);
  if (array.data != nullptr) out.data = static_cast<char*>(array.data) + array.byte_offset;
  const size_t alignment = size_of(out.dtype) / (is_complex(out.dtype) ? 2 : 1);
  if (reinterpret_cast<uintptr_t>(out.data) % alignment != 0) {
    fail(ErrorKind::argument, "from_dlpack: the data of type {} is not aligned to {} bytes",
         out.dtype, alignment);
  }
  if (array.strides != nullptr) out.strides = Dims(array.strides, static_cast<size_t>(array.ndim));
  return out;
}

template <class Managed>
Tensor take(Managed* managed, bool read_only) {
  Tensor::Foreign foreign = foreign_from(managed->array);
  foreign.read_only = read_only;
  // Not ours before wrap() has returned.
  const auto ours = std::make_shared<bool>(false);
  foreign.deleter = [managed, ours] {
    if (*ours && managed->deleter != nullptr) managed->deleter(managed);
  };
  const Tensor out = Tensor::wrap(std::move(foreign));
  *ours = true;
  return out;
}

// What an exported array points into.
template <class Managed>
struct Holder {
  Managed managed{};
  std::shared_ptr<detail::Storage> storage;
  std::vector<int64_t> shape, strides;
};

template <class Managed>
Managed* give(const Tensor& tensor) {
  auto holder = std::make_unique<Holder<Managed>>();
  holder->shape = tensor.shape().to_vector();
  holder->strides = tensor.strides().to_vector();
  holder->storage = tensor.impl()->storage;
  const Device device = tensor.device();
  dlpack::Array& array = holder->managed.array;
  array.data = tensor.data();
  array.device = {device.type == DeviceType::cpu ? dlpack::kCpu : dlpack::kCuda, device.index};
  array.ndim = tensor.dim();
  array.dtype = dtype_to(tensor.dtype());
  array.shape = holder->shape.data();
  array.strides = holder->strides.data();
  holder->managed.context = holder.get();
  holder->managed.deleter = [](Managed* self) {
    delete static_cast<Holder<Managed>*>(self->context);
  };
  return &holder.release()->managed;
}

void expect_memory(const Tensor& tensor, const char* op) {
  if (!tensor.defined() || tensor.impl()->storage == nullptr) {
    fail(ErrorKind::argument, "{}: the tensor is undefined or has no memory", op);
  }
}

}  // namespace

Tensor from_dlpack(DLManagedTensor* managed) {
  if (managed == nullptr) fail(ErrorKind::argument, "from_dlpack: the array is null");
  return take(reinterpret_cast<dlpack::Managed*>(managed), false);
}

Tensor from_dlpack(DLManagedTensorVersioned* managed) {
  if (managed == nullptr) fail(ErrorKind::argument, "from_dlpack: the array is null");
  auto* array = reinterpret_cast<dlpack::ManagedVersioned*>(managed);
  if (array->version.major != dlpack::kVersion.major) {
    fail(ErrorKind::argument, "from_dlpack: the array has DLPack version {}.{}; sow knows {}.x",
         array->version.major, array->version.minor, dlpack::kVersion.major);
  }
  return take(array, (array->flags & dlpack::kReadOnly) != 0);
}

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  expect_memory(tensor, "to_dlpack");
  if (tensor.read_only()) {
    fail(ErrorKind::overlap,
         "to_dlpack: the tensor is read-only, which this form cannot say; use to_dlpack_versioned");
  }
  return reinterpret_cast<DLManagedTensor*>(give<dlpack::Managed>(tensor));
}

DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor) {
  expect_memory(tensor, "to_dlpack_versioned");
  dlpack::ManagedVersioned* out = give<dlpack::ManagedVersioned>(tensor);
  out->version = dlpack::kVersion;
  out->flags = tensor.read_only() ? dlpack::kReadOnly : 0;
  return reinterpret_cast<DLManagedTensorVersioned*>(out);
}

void on_write(const Tensor& tensor, std::function<void()> written) {
  if (tensor.impl()->storage != nullptr) tensor.impl()->storage->written = std::move(written);
}

bool owns_memory(const Tensor& tensor) {
  const detail::TensorImpl* impl = tensor.impl();
  return impl != nullptr && impl->storage != nullptr && !impl->storage->deleter;
}

}  // namespace sow
