// SPDX-License-Identifier: Apache-2.0
// Python numbers and nested lists of them: the arguments that are typed by hand.
#include <complex>
#include <vector>

#include "arrays/arrays.h"
#include "arrays/dtype.h"

namespace sow::python {
namespace {

constexpr int kMaxDepth = 64;  // also what ends a list that contains itself

Scalar integer_of(PyObject* object) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) return Scalar(value);
  if (overflow > 0) {
    const uint64_t natural = PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return Scalar(natural);
    PyErr_Clear();
  }
  const double real = PyLong_AsDouble(object);
  if (real == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    raise(PyExc_ValueError, "an integer beyond the range of every element type");
  }
  return Scalar(real);
}

struct Leaves {
  Site site;
  Dims shape;
  std::vector<Scalar> values;

  [[noreturn]] void fail(PyObject* type, const std::string& rule) const {
    raise(type, std::string(site.op) + ": " + site.argument + " " + rule);
  }

  void collect(PyObject* object, size_t depth) {
    if (!PyList_Check(object) && !PyTuple_Check(object)) {
      if (depth != shape.size())
        fail(PyExc_ValueError, "is a nested list whose rows differ in depth");
      std::optional<Scalar> value = number_of(object);
      if (!value)
        fail(PyExc_TypeError, "is a list that holds " + describe(object) + ", which is no number");
      if (PyLong_Check(object) && value->kind() == Scalar::Kind::real) {
        fail(PyExc_ValueError, "is a list that holds an integer beyond 64 bits");
      }
      values.push_back(*value);
      return;
    }
    if (depth == kMaxDepth) fail(PyExc_ValueError, "is a list nested too deeply");
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
    if (depth == shape.size()) {
      if (!values.empty()) fail(PyExc_ValueError, "is a nested list whose rows differ in depth");
      shape.push_back(size);
    } else if (shape[depth] != size) {
      fail(PyExc_ValueError, "is a nested list whose rows differ in length");
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(object, i));
      collect(item.ptr(), depth + 1);
    }
  }
};

}  // namespace

// numpy.float32(2) and the like, told by their base class, without importing NumPy.
bool is_numpy_scalar(PyTypeObject* type) {
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
    const char* name = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i))->tp_name;
    if (std::string_view(name) == "numpy.generic") return true;
  }
  return false;
}

DType natural_type(const Scalar& number) {
  switch (number.kind()) {
    case Scalar::Kind::boolean:
      return DType::bool_;
    case Scalar::Kind::integer:
      return number.beyond_int64() ? DType::uint64 : DType::int64;
    case Scalar::Kind::real:
      return DType::float32;
    case Scalar::Kind::complex:
      return DType::complex64;
  }
  return DType::float32;
}

std::optional<Scalar> number_of(nb::handle handle) {
  PyObject* object = handle.ptr();
  if (PyBool_Check(object)) return Scalar(object == Py_True);
  if (PyLong_Check(object)) return integer_of(object);
  if (PyFloat_Check(object)) return Scalar(PyFloat_AS_DOUBLE(object));
  if (PyComplex_Check(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    return Scalar(std::complex<double>(value.real, value.imag));
  }
  if (!is_numpy_scalar(Py_TYPE(object))) return {};
  // Types that other packages add to NumPy are numbers only where they are sow's as well: a float8
  // is refused as its arrays are.
  nb::object dtype = handle.attr("dtype");
  const bool is_bfloat16 = dtype_of(dtype) == DType::bfloat16;
  if (!is_bfloat16 && nb::cast<int>(dtype.attr("isbuiltin")) != 1) return {};
  nb::object item = handle.attr("item")();
  if (PyBool_Check(item.ptr()) || PyLong_Check(item.ptr()) || PyFloat_Check(item.ptr()) ||
      PyComplex_Check(item.ptr())) {
    return number_of(item);
  }
  if (!is_bfloat16) return {};  // a long double or a date, which is its own item
  const double value = PyFloat_AsDouble(item.ptr());
  if (value == -1.0 && PyErr_Occurred()) {
    forget_error();
    return {};
  }
  return Scalar(value);
}

namespace {

Tensor tensor_of(const Leaves& leaves, DType dtype) {
  Tensor result = Tensor::empty(leaves.shape, dtype);
  if (result.numel() != static_cast<int64_t>(leaves.values.size()))
    leaves.fail(PyExc_ValueError, "is a list that changed while it was read");
  char* out = static_cast<char*>(result.data());
  for (const Scalar& value : leaves.values) {
    value.write_as(dtype, out, leaves.site.op);
    out += size_of(dtype);
  }
  return result;
}

}  // namespace

Tensor list_as(nb::handle object, Site site, DType dtype) {
  if (const std::optional<Scalar> number = number_of(object)) return Tensor::scalar(*number, dtype);
  Leaves leaves{site, {}, {}};
  leaves.collect(object.ptr(), 0);
  if (leaves.values.empty()) return Tensor::empty(leaves.shape, dtype);
  return tensor_of(leaves, dtype);
}

Tensor from_sequence(nb::handle object, Site site, std::optional<DType> hint) {
  if (std::optional<Scalar> number = number_of(object)) {
    if (!hint && is_numpy_scalar(Py_TYPE(object.ptr()))) hint = dtype_of(object.attr("dtype"));
    return Tensor::scalar(*number, hint.value_or(natural_type(*number)));
  }
  Leaves leaves{site, {}, {}};
  leaves.collect(object.ptr(), 0);
  if (leaves.values.empty()) return Tensor::empty(leaves.shape, hint.value_or(DType::float32));
  // Of the widest kind there is, and among integers uint64 only for what int64 has not.
  const Scalar* widest = &leaves.values[0];
  for (const Scalar& value : leaves.values) {
    const bool wider = value.kind() > widest->kind();
    if (wider || (value.kind() == widest->kind() && value.beyond_int64())) widest = &value;
  }
  return tensor_of(leaves, natural_type(*widest));
}

}  // namespace sow::python
