// SPDX-License-Identifier: Apache-2.0
// NumPy's arrays in and out, through its C structures. NumPy is imported when the first array
// leaves.
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string_view>

#include "calls/shortcut.h"

namespace sow::python {
namespace {

// Loads NumPy's function table; needed where arrays are made, hardly where they are read.
void need_numpy() {
  if (PyArray_API == nullptr && PyArray_ImportNumPyAPI() < 0) throw nb::python_error();
}

// A type that another package registered with NumPy, by its name and its size.
bool is_bfloat16(const PyArray_Descr* descr) {
  const std::string_view name = descr->typeobj->tp_name;
  if (descr->type_num < NPY_USERDEF || (name != "ml_dtypes.bfloat16" && name != "bfloat16"))
    return false;
  need_numpy();
  return PyDataType_ELSIZE(descr) == 2;
}

std::optional<DType> type_of(const PyArray_Descr* descr) {
  switch (descr->type_num) {
    case NPY_BOOL:
      return DType::bool_;
    case NPY_UBYTE:
      return DType::uint8;
    case NPY_USHORT:
      return DType::uint16;
    case NPY_UINT:
      return DType::uint32;
    case NPY_ULONG:
      return sizeof(long) == 8 ? DType::uint64 : DType::uint32;
    case NPY_ULONGLONG:
      return DType::uint64;
    case NPY_BYTE:
      return DType::int8;
    case NPY_SHORT:
      return DType::int16;
    case NPY_INT:
      return DType::int32;
    case NPY_LONG:
      return sizeof(long) == 8 ? DType::int64 : DType::int32;
    case NPY_LONGLONG:
      return DType::int64;
    case NPY_HALF:
      return DType::float16;
    case NPY_FLOAT:
      return DType::float32;
    case NPY_DOUBLE:
      return DType::float64;
    case NPY_CFLOAT:
      return DType::complex64;
    case NPY_CDOUBLE:
      return DType::complex128;
    default:
      break;
  }
  if (is_bfloat16(descr)) return DType::bfloat16;
  return {};
}

// What moves elements of a type that sow does not have; nothing for what is no such type.
std::optional<DType> carrier_of(const PyArray_Descr* descr) {
  if (descr->type_num == NPY_DATETIME || descr->type_num == NPY_TIMEDELTA) return DType::int64;
  const std::string_view name = descr->typeobj->tp_name;
  if (descr->type_num < NPY_USERDEF || name.find("float8") == std::string_view::npos) return {};
  need_numpy();
  return PyDataType_ELSIZE(descr) == 1 ? std::optional(DType::int8) : std::nullopt;
}

int type_number(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return NPY_BOOL;
    case DType::uint8:
      return NPY_UINT8;
    case DType::int8:
      return NPY_INT8;
    case DType::int16:
      return NPY_INT16;
    case DType::int32:
      return NPY_INT32;
    case DType::int64:
      return NPY_INT64;
    case DType::uint16:
      return NPY_UINT16;
    case DType::uint32:
      return NPY_UINT32;
    case DType::uint64:
      return NPY_UINT64;
    case DType::float16:
      return NPY_FLOAT16;
    case DType::float32:
      return NPY_FLOAT32;
    case DType::float64:
      return NPY_FLOAT64;
    case DType::complex64:
      return NPY_COMPLEX64;
    case DType::complex128:
      return NPY_COMPLEX128;
    case DType::bfloat16:
      break;
  }
  return NPY_NOTYPE;
}

PyArray_Descr* bfloat16_descr() {
  PyObject* module = PyImport_ImportModule("ml_dtypes");
  if (!module) {
    forget_error();
    raise(PyExc_TypeError,
          "a bfloat16 array of NumPy needs the package ml_dtypes, which is not installed");
  }
  nb::object type = nb::steal(module).attr("bfloat16");
  PyArray_Descr* descr = nullptr;
  if (PyArray_DescrConverter(type.ptr(), &descr) != NPY_SUCCEED) throw nb::python_error();
  return descr;
}

// The element type as a new reference; a bfloat16 destination lends its own.
PyArray_Descr* descr_for(DType dtype, nb::handle like) {
  if (dtype != DType::bfloat16) return PyArray_DescrFromType(type_number(dtype));
  if (like && info_of(like).kind == Kind::numpy) {
    PyArray_Descr* descr = PyArray_DESCR(reinterpret_cast<PyArrayObject*>(like.ptr()));
    if (is_bfloat16(descr)) {
      Py_INCREF(descr);
      return descr;
    }
  }
  return bfloat16_descr();
}

std::string dtype_text(const PyArray_Descr* descr) {
  nb::object text =
      nb::steal(PyObject_Str(reinterpret_cast<PyObject*>(const_cast<PyArray_Descr*>(descr))));
  if (!text) {
    forget_error();
    return "?";
  }
  return nb::borrow<nb::str>(text).c_str();
}

bool is_masked(PyTypeObject* type) {
  for (Py_ssize_t i = 0; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (std::string_view(base->tp_name) == "MaskedArray") return true;
  }
  return false;
}

DType checked_type(PyArrayObject* array, Site site, std::string* carried) {
  const std::string who = std::string(site.op) + ": " + site.argument;
  if (is_masked(Py_TYPE(array)))
    raise(PyExc_TypeError, who + " is a numpy.ma.MaskedArray; pass its data and mask");
  const PyArray_Descr* descr = PyArray_DESCR(array);
  std::optional<DType> dtype = type_of(descr);
  if (!dtype && carried != nullptr) {
    dtype = carrier_of(descr);
    if (dtype) *carried = dtype_text(descr);
  }
  if (!dtype) {
    raise(PyExc_TypeError,
          who + " is a numpy.ndarray of " + dtype_text(descr) +
              ", which is none of sow's types (bool, uint8 to uint64, int8 to int64, float16, "
              "bfloat16, float32, float64, complex64, complex128)");
  }
  if (descr->byteorder == NPY_OPPBYTE) {
    raise(PyExc_TypeError, who + " is a numpy.ndarray in swapped byte order (" + dtype_text(descr) +
                               "); take .astype(\"=" + dtype_text(descr).substr(1) + "\")");
  }
  return *dtype;
}

}  // namespace

bool is_ndarray(PyObject* type) {
  need_numpy();
  return type == reinterpret_cast<PyObject*>(&PyArray_Type);
}

Tensor from_numpy(nb::handle object, Site site, Access access, std::string* carried) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  // An exact ndarray cannot be a masked one.
  const std::optional<DType> plain =
      info_of(object).exact ? type_of(PyArray_DESCR(array)) : std::nullopt;
  const DType dtype = plain && PyArray_DESCR(array)->byteorder != NPY_OPPBYTE
                          ? *plain
                          : checked_type(array, site, carried);
  const bool writeable = (PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE) != 0;
  if (access == Access::write && !writeable) {
    raise(PyExc_ValueError,
          std::string(site.op) + ": " + site.argument + " is a numpy.ndarray that is read-only");
  }

  const int rank = PyArray_NDIM(array);
  const int shift = std::countr_zero(size_of(dtype));  // divisions are dear
  const npy_intp* extents = PyArray_DIMS(array);
  const npy_intp* bytes = PyArray_STRIDES(array);
  Dims shape(reinterpret_cast<const int64_t*>(extents), static_cast<size_t>(rank));
  Dims strides;
  strides.resize(static_cast<size_t>(rank));
  bool regular = (PyArray_FLAGS(array) & NPY_ARRAY_ALIGNED) != 0;
  for (int i = 0; i < rank; ++i) {
    strides[i] = bytes[i] >> shift;
    regular = regular && (strides[i] << shift == bytes[i] || extents[i] < 2);
  }
  if (regular)
    return wrap_owned(PyArray_DATA(array), dtype, std::move(shape), strides, {}, !writeable,
                      object.ptr());
  if (access == Access::write) {
    raise(PyExc_ValueError, std::string(site.op) + ": " + site.argument +
                                " is a numpy.ndarray whose elements are not aligned in memory");
  }
  need_numpy();
  nb::object copy = nb::steal(PyArray_NewCopy(array, NPY_CORDER));
  if (!copy) throw nb::python_error();
  return wrap_owned(PyArray_DATA(reinterpret_cast<PyArrayObject*>(copy.ptr())), dtype, shape,
                    Tensor::empty(shape, DType::bool_).strides(), {}, false, copy.ptr());
}

void add_numpy(nb::handle object, Fingerprint& print) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  const PyArray_Descr* descr = PyArray_DESCR(array);
  // Types that others define may be given any number.
  if (descr->type_num > NPY_HALF || descr->byteorder == NPY_OPPBYTE || carrier_of(descr)) {
    return print.spoil();
  }
  const int flags = PyArray_FLAGS(array) & (NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED);
  const int rank = PyArray_NDIM(array);
  print.add_layout(int64_t{1} << 62 | int64_t{flags} << 16 | descr->type_num << 8 | rank, rank,
                   reinterpret_cast<const int64_t*>(PyArray_DIMS(array)),
                   reinterpret_cast<const int64_t*>(PyArray_STRIDES(array)), PyArray_DATA(array));
}

nb::object new_numpy(DType dtype, const Dims& shape, Fingerprint& print) {
  need_numpy();
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  nb::object array = nb::steal(PyArray_NewFromDescr(
      &PyArray_Type, PyArray_DescrFromType(type_number(dtype)), shape.rank(),
      reinterpret_cast<const npy_intp*>(shape.data()), nullptr, nullptr, 0, nullptr));
  if (!array) throw nb::python_error();
  print.add_memory(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr())));
  return array;
}

namespace {

// A capsule that keeps the tensor's memory: lighter than a sow.Tensor, which nobody would look at.
nb::object keeper_of(const Tensor& tensor) {
  auto kept = std::make_unique<Tensor>(tensor);
  nb::object capsule = nb::steal(PyCapsule_New(kept.get(), nullptr, [](PyObject* self) {
    delete static_cast<Tensor*>(PyCapsule_GetPointer(self, nullptr));
  }));
  if (!capsule) throw nb::python_error();
  kept.release();
  return capsule;
}

}  // namespace

nb::object to_numpy(const Tensor& tensor, nb::handle like) {
  need_numpy();
  if (tensor.device().type != DeviceType::cpu) {
    raise(PyExc_RuntimeError,
          "a tensor on " + to_string(tensor.device()) + " has no NumPy array; copy it first");
  }
  const size_t rank = tensor.shape().size();
  if (rank > NPY_MAXDIMS) raise(PyExc_ValueError, "NumPy holds no array of so many dimensions");
  const auto size = static_cast<npy_intp>(size_of(tensor.dtype()));
  npy_intp extents[NPY_MAXDIMS], strides[NPY_MAXDIMS];
  for (size_t i = 0; i < rank; ++i) {
    extents[i] = tensor.shape()[i];
    strides[i] = tensor.strides()[i] * size;
  }
  bool writeable = !tensor.read_only();
  for (size_t i = 0; i < rank; ++i) {  // what overlaps itself is for reading, as NumPy's own
    if (strides[i] == 0 && extents[i] > 1) writeable = false;
  }
  nb::object owner = keeper_of(tensor);
  nb::object array = nb::steal(PyArray_NewFromDescr(
      &PyArray_Type, descr_for(tensor.dtype(), like), static_cast<int>(rank), extents, strides,
      tensor.data(), writeable ? NPY_ARRAY_WRITEABLE : 0, nullptr));
  if (!array) throw nb::python_error();
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()), owner.release().ptr()) <
      0) {
    throw nb::python_error();
  }
  return array;
}

}  // namespace sow::python
