// SPDX-License-Identifier: Apache-2.0
// Walks the arguments of a call once and writes down what tells it apart from another.
#include "program/jit_key.h"

#include <algorithm>

namespace sow::python {
namespace {

PyObject* type_of(nb::handle object) { return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())); }

bool is_plain(PyObject* object) {
  return object == Py_None || object == Py_Ellipsis || PyBool_Check(object) ||
         PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyComplex_CheckExact(object) ||
         PyUnicode_CheckExact(object) || PyBytes_CheckExact(object);
}

// bytes are a value; any other buffer can change, so it is an array.
bool is_array(Kind kind, PyObject* object) {
  switch (kind) {
    case Kind::tensor:
    case Kind::numpy:
    case Kind::torch:
    case Kind::jax:
    case Kind::cupy:
    case Kind::paddle:
    case Kind::dlpack:
      return true;
    case Kind::buffer:
      return !PyBytes_Check(object);
    default:
      return false;
  }
}

}  // namespace

Form form_of(nb::handle object) {
  PyObject* pointer = object.ptr();
  if (is_plain(pointer)) return Form::plain;
  if (PyList_CheckExact(pointer)) return Form::list;
  if (PyTuple_CheckExact(pointer)) return Form::tuple;
  if (PyDict_CheckExact(pointer)) return Form::dict;
  if (is_array(info_of(object).kind, pointer)) return Form::array;
  if (PySlice_Check(pointer)) return Form::slice;
  if (PyAnySet_CheckExact(pointer)) return Form::set;
  if (PyType_Check(pointer)) return Form::object;
  if (is_numpy_scalar(Py_TYPE(pointer))) return Form::numpy_scalar;
  if (PyTuple_Check(pointer) && has_attribute(type_of(object), "_fields") &&
      has_attribute(type_of(object), "_make")) {
    return Form::named_tuple;
  }
  if (PyODict_CheckExact(pointer)) return Form::dict;
  if (has_attribute(type_of(object), "__dataclass_fields__")) return Form::dataclass;
  return Form::object;
}

std::vector<nb::object> fields_of(nb::handle object) {
  std::vector<nb::object> names;
  for (nb::handle field : nb::module_::import_("dataclasses").attr("fields")(object)) {
    names.push_back(field.attr("name"));
  }
  return names;
}

bool same_objects(const std::vector<nb::object>& a, const std::vector<nb::object>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].ptr() == b[i].ptr()) continue;
    const int same = PyObject_RichCompareBool(a[i].ptr(), b[i].ptr(), Py_EQ);
    if (same < 0) throw nb::python_error();
    if (same == 0) return false;
  }
  return true;
}

CallKey::CallKey(const nb::args& args, const nb::kwargs& kwargs, bool dynamic) : dynamic_(dynamic) {
  bits.reserve(256);
  feeds.reserve(args.size() + kwargs.size());
  for (nb::handle object : args) add(object);
  if (kwargs.size() == 0) return;
  for (auto [name, object] : kwargs) {
    bits += '=';
    add(name);
    add(object);
  }
}

void CallKey::add(nb::handle object) {
  const Form form = form_of(object);
  switch (form) {
    case Form::plain:
      return add_plain(object);
    case Form::array:
      return add_array(object);
    case Form::set:
      return add_set(object);
    case Form::object:
      return add_object(object);
    case Form::numpy_scalar: {
      add_type(object);
      const nb::object bytes = object.attr("tobytes")();
      return add_plain(bytes);
    }
    default:
      break;
  }
  const Depth depth;
  // The brackets say where a container ends, so that no count is needed that might be outdated.
  if (form == Form::slice) {
    bits += ':';
    for (const char* part : {"start", "stop", "step"}) add(nb::object(object.attr(part)));
  } else if (form == Form::dict) {
    if (!PyDict_CheckExact(object.ptr())) add_type(object);
    bits += '{';
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(object.ptr(), &at, &key, &value)) {
      const nb::object held_key = nb::borrow(key), held_value = nb::borrow(value);
      add(held_key);
      add(held_value);
    }
    bits += '}';
  } else if (form == Form::dataclass) {
    add_type(object);
    bits += '<';
    for (const nb::object& name : fields_of(object)) {
      add(name);
      add(nb::object(object.attr(nb::str(name))));
    }
    bits += '>';
  } else {
    if (form == Form::named_tuple) add_type(object);
    bits += form == Form::list ? '[' : '(';
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object.ptr()); ++i) {
      const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(object.ptr(), i));
      add(item);
    }
    bits += form == Form::list ? ']' : ')';
  }
}

void CallKey::add_array(nb::handle object) {
  Tensor tensor = to_tensor(object, {"jit", "an argument"}, Access::read);
  if (!like.is_valid()) like = nb::borrow(object);
  inside_another = inside_another || is_symbolic(tensor) || tensor.requires_grad();
  bits += 'a';
  put(tensor.dtype());
  put(tensor.device().type);
  put(tensor.device().index);
  put(tensor.shape().size());
  if (!dynamic_) {
    for (const int64_t extent : tensor.shape()) put(extent);
  }
  feeds.push_back(std::move(tensor));
}

void CallKey::put_text(char tag, const char* text, size_t size) {
  bits += tag;
  put(size);
  bits.append(text, size);
}

void CallKey::add_plain(nb::handle object) {
  PyObject* pointer = object.ptr();
  if (PyBool_Check(pointer)) {
    bits += pointer == Py_True ? 'T' : 'F';
  } else if (PyFloat_CheckExact(pointer)) {
    bits += 'f';
    put(PyFloat_AS_DOUBLE(pointer));
  } else if (PyLong_CheckExact(pointer)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(pointer, &overflow);
    if (overflow == 0) {
      bits += 'i';
      put(value);
      return;
    }
    const nb::object digits = nb::steal(PyNumber_ToBase(pointer, 16));
    if (!digits) throw nb::python_error();
    bits += 'I';
    add_plain(digits);
  } else if (PyUnicode_CheckExact(pointer)) {
    Py_ssize_t size = 0;
    if (const char* text = PyUnicode_AsUTF8AndSize(pointer, &size)) {
      put_text('s', text, static_cast<size_t>(size));
      return;
    }
    PyErr_Clear();  // lone surrogates
    const nb::object bytes =
        nb::steal(PyUnicode_AsEncodedString(pointer, "utf-8", "surrogatepass"));
    if (!bytes) throw nb::python_error();
    bits += 'S';
    add_plain(bytes);
  } else if (PyBytes_CheckExact(pointer)) {
    put_text('y', PyBytes_AS_STRING(pointer), static_cast<size_t>(PyBytes_GET_SIZE(pointer)));
  } else if (PyComplex_CheckExact(pointer)) {
    bits += 'c';
    put(PyComplex_RealAsDouble(pointer));
    put(PyComplex_ImagAsDouble(pointer));
  } else {
    bits += pointer == Py_None ? 'N' : '.';
  }
}

void CallKey::add_type(nb::handle object) {
  bits += 't';
  put(type_of(object));
  objects.push_back(nb::borrow(type_of(object)));
}

void CallKey::add_object(nb::handle object) {
  const Py_hash_t hash = PyObject_Hash(object.ptr());
  if (hash == -1) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    raise(PyExc_TypeError,
          "jit: an argument is " + describe(object) +
              ", which has no hash, so a later call could not be told from this one; pass arrays, "
              "numbers, strings, lists, tuples, dicts, dataclasses, or an object with __hash__ and "
              "__eq__");
  }
  bits += 'o';
  put(type_of(object));
  put(hash);
  // Of a number or text in a class of its own the bits count as well: 0.0 == -0.0.
  if (PyFloat_Check(object.ptr())) put(PyFloat_AS_DOUBLE(object.ptr()));
  objects.push_back(nb::borrow(object));
}

// Where all of it is plain, by its elements' bits, in an order of their own.
void CallKey::add_set(nb::handle object) {
  const nb::object snapshot = nb::steal(PyFrozenSet_New(object.ptr()));
  if (!snapshot) throw nb::python_error();
  std::vector<std::string> parts;
  for (nb::handle item : snapshot) {
    CallKey part(dynamic_);
    part.add(item);
    if (!part.objects.empty() || !part.feeds.empty()) {
      bits += PyFrozenSet_CheckExact(object.ptr()) ? 'Q' : 'q';
      return add_object(snapshot);
    }
    parts.push_back(std::move(part.bits));
  }
  std::sort(parts.begin(), parts.end());
  bits += PyFrozenSet_CheckExact(object.ptr()) ? 'E' : 'e';
  for (const std::string& part : parts) put_text('-', part.data(), part.size());
  bits += 'z';
}

}  // namespace sow::python
