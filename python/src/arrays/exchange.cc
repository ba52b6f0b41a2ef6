// SPDX-License-Identifier: Apache-2.0
// The table behind sow.Tensor.__dlpack_c_exchange_api__: DLPack between libraries without a call of
// Python. Each function returns 0, or -1 with a Python exception set.
#include "sow/cuda.h"
#include "sow/dlpack.h"

#include "arrays/arrays.h"

namespace sow::python {
namespace {

// Runs what may throw, for callers that are C.
template <class F>
int guarded(F&& body) noexcept {
  try {
    body();
    return 0;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

const Tensor& shown(void* object) {
  const Tensor& tensor = instance<Tensor>(nb::handle(static_cast<PyObject*>(object)));
  if (is_symbolic(tensor)) raise(PyExc_BufferError, "a symbolic tensor has no memory");
  return tensor;
}

DLManagedTensorVersioned* as_declared(DlVersioned* managed) {
  return reinterpret_cast<DLManagedTensorVersioned*>(managed);
}

int managed_from_object(void* object, DlVersioned** out) {
  return guarded([&] { *out = to_versioned(shown(object)); });
}

int object_from_managed(DlVersioned* managed, void** out) {
  return guarded([&] { *out = nb::cast(sow::from_dlpack(as_declared(managed))).release().ptr(); });
}

// The memory, its shape and its strides are the tensor's own, and live as long as the object.
int borrow_from_object(void* object, DlTensor* out) {
  return guarded([&] {
    const Tensor& tensor = shown(object);
    const bool cpu = tensor.device().type == DeviceType::cpu;
    out->data = tensor.data();
    out->device = {cpu ? kDlCpu : kDlCuda, tensor.device().index};
    out->ndim = tensor.dim();
    out->dtype = dl_type(tensor.dtype());
    out->shape = const_cast<int64_t*>(tensor.shape().data());
    out->strides = const_cast<int64_t*>(tensor.strides().data());
    out->byte_offset = 0;
  });
}

int allocate(DlTensor* like, DlVersioned** out, void* context,
             void (*report)(void*, const char*, const char*)) {
  try {
    const std::optional<DType> dtype = type_of(like->dtype);
    if (!dtype || like->ndim < 0 || (like->device.type != kDlCpu && like->device.type != kDlCuda)) {
      report(context, "TypeError", "allocate: sow has no such type or device");
      return -1;
    }
    Dims shape;
    for (int d = 0; d < like->ndim; ++d) shape.push_back(like->shape[d]);
    const Device device = like->device.type == kDlCpu
                              ? Device{}
                              : Device{DeviceType::cuda, static_cast<int>(like->device.id)};
    *out = to_versioned(Tensor::empty(shape, *dtype, device));
    return 0;
  } catch (const std::exception& error) {
    report(context, "MemoryError", error.what());
    return -1;
  }
}

int current_stream(int32_t device_type, int32_t device_id, void** out) {
  return guarded([&] {
    *out = device_type == kDlCuda ? cuda::current_stream(static_cast<int>(device_id)) : nullptr;
  });
}

}  // namespace

nb::object exchange_table() {
  static DlExchange table{
      {kDlpackMajor, 3},  nullptr,       allocate, managed_from_object, object_from_managed,
      borrow_from_object, current_stream};
  nb::object capsule = nb::steal(PyCapsule_New(&table, "dlpack_exchange_api", nullptr));
  if (!capsule) throw nb::python_error();
  return capsule;
}

}  // namespace sow::python
