// Objects of the buffer protocol: bytearray, array.array, memoryview, mmap.
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

}  // namespace sow::python
