// SPDX-License-Identifier: Apache-2.0
// Objects of the buffer protocol, in: bytearray, array.array, memoryview, mmap; and out: tensors.
#include <memory>
#include <string_view>

#include "arrays/arrays.h"

namespace sow::python {
namespace {

std::optional<DType> type_of_format(const char* format, Py_ssize_t item_size) {
  if (!format) return DType::uint8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const std::string_view code(format);
  if (code == "?") return DType::bool_;
  if (code == "B" || code == "c") return DType::uint8;
  if (code == "b") return DType::int8;
  if (code == "e") return DType::float16;
  if (code == "f") return DType::float32;
  if (code == "d") return DType::float64;
  if (code == "Zf") return DType::complex64;
  if (code == "Zd") return DType::complex128;
  const bool is_unsigned = code == "H" || code == "I" || code == "L" || code == "Q" || code == "N";
  if (is_unsigned && item_size == 2) return DType::uint16;
  if (is_unsigned && item_size == 4) return DType::uint32;
  if (is_unsigned && item_size == 8) return DType::uint64;
  if (code != "h" && code != "i" && code != "l" && code != "q" && code != "n") return {};
  if (item_size == 2) return DType::int16;
  if (item_size == 4) return DType::int32;
  if (item_size == 8) return DType::int64;
  return {};
}

// Held by a capsule, so that the one way of letting go of Python objects serves here too.
void release_buffer(PyObject* capsule) {
  auto* view = static_cast<Py_buffer*>(PyCapsule_GetPointer(capsule, nullptr));
  PyBuffer_Release(view);
  delete view;
}

}  // namespace

Tensor from_buffer(nb::handle object, Site site, Access access) {
  const std::string who = std::string(site.op) + ": " + site.argument + " is " + describe(object);
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    forget_error();
    raise(PyExc_TypeError, who + ", whose buffer cannot be viewed");
  }
  Py_buffer* buffer = view.get();
  nb::object owner = nb::steal(PyCapsule_New(buffer, nullptr, release_buffer));
  if (!owner) throw nb::python_error();
  view.release();

  const std::optional<DType> dtype = type_of_format(buffer->format, buffer->itemsize);
  if (!dtype || static_cast<Py_ssize_t>(size_of(*dtype)) != buffer->itemsize) {
    raise(PyExc_TypeError, who + " of format '" + (buffer->format ? buffer->format : "") +
                               "', which is none of sow's types");
  }
  if (access == Access::write && buffer->readonly)
    raise(PyExc_ValueError, who + " that is read-only");

  Dims shape, strides;
  bool regular = is_aligned(buffer->buf, *dtype);
  if (buffer->ndim > 0 && (!buffer->shape || !buffer->strides))
    raise(PyExc_TypeError, who + ", whose buffer has no shape");
  for (int i = 0; i < buffer->ndim; ++i) {
    shape.push_back(buffer->shape[i]);
    strides.push_back(buffer->strides[i] / buffer->itemsize);
    regular = regular && (buffer->strides[i] % buffer->itemsize == 0 || buffer->shape[i] < 2);
  }
  if (regular)
    return wrap_owned(buffer->buf, *dtype, shape, strides, {}, buffer->readonly, owner.ptr());
  if (access == Access::write)
    raise(PyExc_ValueError, who + " whose elements are not aligned in memory");
  Tensor copy = Tensor::empty(shape, *dtype);
  if (PyBuffer_ToContiguous(copy.data(), buffer, buffer->len, 'C') != 0) throw nb::python_error();
  return copy;
}

namespace {

// What a view keeps: the memory, and its layout in bytes.
struct Export {
  Tensor tensor;
  Py_ssize_t shape[64], strides[64];
};

const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return "?";
    case DType::uint8:
      return "B";
    case DType::int8:
      return "b";
    case DType::int16:
      return "h";
    case DType::int32:
      return "i";
    case DType::int64:
      return "q";
    case DType::uint16:
      return "H";
    case DType::uint32:
      return "I";
    case DType::uint64:
      return "Q";
    case DType::float16:
      return "e";
    case DType::float32:
      return "f";
    case DType::float64:
      return "d";
    case DType::complex64:
      return "Zf";
    case DType::complex128:
      return "Zd";
    default:
      return nullptr;
  }
}

int refuse_export(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

}  // namespace

int export_buffer(PyObject* object, Py_buffer* view, int flags) {
  view->obj = nullptr;
  if (!nb::inst_ready(object)) return refuse_export("a Tensor that was never initialised");
  const Tensor& tensor = *nb::inst_ptr<Tensor>(object);
  if (is_symbolic(tensor)) return refuse_export("a symbolic tensor has no memory");
  if (tensor.device().type != DeviceType::cpu) {
    return refuse_export("the memory of a tensor on a GPU has no buffer; take x.to(\"cpu\")");
  }
  const char* format = format_of(tensor.dtype());
  const bool wants_strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  if (format == nullptr) return refuse_export("the buffer protocol has no format for bfloat16");
  if (tensor.dim() > 64) return refuse_export("the buffer protocol has 64 dimensions at most");
  bool frozen = tensor.read_only();  // as is what shows one element several times
  for (int d = 0; d < tensor.dim(); ++d) {
    const auto at = static_cast<size_t>(d);
    frozen = frozen || (tensor.strides()[at] == 0 && tensor.shape()[at] > 1);
  }
  if ((flags & PyBUF_WRITABLE) != 0 && frozen) {
    return refuse_export("the tensor is read-only");
  }
  Dims reversed;
  for (int d = tensor.dim(); d-- > 0;) reversed.push_back(d);
  const bool rows = tensor.is_contiguous();
  const bool columns = rows || (tensor.dim() > 1 && tensor.permute(reversed).is_contiguous());
  const bool asks_rows = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS;
  const bool asks_columns = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS;
  const bool asks_either = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
  if ((asks_rows || !wants_strides) && !rows) return refuse_export("the tensor is not row-major");
  if (asks_columns && (rows ? tensor.dim() > 1 : !columns)) {
    return refuse_export("the tensor is not column-major");
  }
  if (asks_either && !rows && !columns) return refuse_export("the tensor is not contiguous");
  try {
    auto held = std::make_unique<Export>(Export{tensor, {}, {}});
    const auto size = static_cast<Py_ssize_t>(size_of(tensor.dtype()));
    for (int d = 0; d < tensor.dim(); ++d) {
      held->shape[d] = tensor.shape()[static_cast<size_t>(d)];
      held->strides[d] = tensor.strides()[static_cast<size_t>(d)] * size;
    }
    view->buf = tensor.data();
    view->len = tensor.numel() * size;
    view->readonly = frozen ? 1 : 0;
    view->itemsize = size;
    view->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(format) : nullptr;
    view->ndim = tensor.dim();
    view->shape = (flags & PyBUF_ND) != 0 ? held->shape : nullptr;
    view->strides = wants_strides ? held->strides : nullptr;
    view->suboffsets = nullptr;
    view->internal = held.release();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return -1;
  }
  Py_INCREF(object);
  view->obj = object;
  return 0;
}

void release_export(PyObject*, Py_buffer* view) { delete static_cast<Export*>(view->internal); }

}  // namespace sow::python
