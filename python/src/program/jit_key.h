// SPDX-License-Identifier: Apache-2.0
// What sow.jit knows a call by: the structure of its arguments, the bits of plain values, and the
// arrays in them, which are inputs.
#pragma once

#include <string>
#include <vector>

#include "arrays/arrays.h"

namespace sow::python {

// Containers are told apart from what they hold; everything else is an array or a leaf.
enum class Form : uint8_t {
  array,
  list,
  tuple,
  named_tuple,
  dict,
  dataclass,
  slice,
  set,
  plain,         // None, a bool, number, string or bytes: known by its type and its bits
  numpy_scalar,  // the same of NumPy
  object,        // known by its type, its hash and ==
};
Form form_of(nb::handle object);

// The arguments of one call. Two calls with equal keys are the same to a traced function.
struct CallKey {
  std::string bits;                 // structure, types, plain values, and the layouts of arrays
  std::vector<nb::object> objects;  // compared with ==; types that `bits` names are kept alive too
  TensorList feeds;                 // the arrays, in order
  nb::object like;                  // the first of them
  bool inside_another = false;      // one is symbolic, or recorded by autograd

  CallKey(const nb::args& args, const nb::kwargs& kwargs, bool dynamic);

 private:
  void add(nb::handle object);
  void add_array(nb::handle object);
  void add_plain(nb::handle object);
  void add_object(nb::handle object);
  void add_set(nb::handle object);
  void add_type(nb::handle object);
  template <class T>
  void put(const T& value) {
    bits.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_text(char tag, const char* text, size_t size);

  explicit CallKey(bool dynamic) : dynamic_(dynamic) {}
  bool dynamic_;
};

// May run Python code.
bool same_objects(const std::vector<nb::object>& a, const std::vector<nb::object>& b);

// The fields of a dataclass's instance, as their names.
std::vector<nb::object> fields_of(nb::handle object);

// Ends a container that contains itself with a RecursionError.
class Depth {
 public:
  Depth() {
    if (Py_EnterRecursiveCall(" in the arguments or results of sow.jit") != 0)
      throw nb::python_error();
  }
  ~Depth() { Py_LeaveRecursiveCall(); }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
};

// The same structure, with leaf(object, form) in the place of everything that is no container.
// Containers are copied, so that nobody else's change is seen in them.
template <class F>
nb::object rebuild(nb::handle object, F&& leaf) {
  const Form form = form_of(object);
  const Depth depth;
  const auto items = [&] {
    nb::list out;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object.ptr()); ++i) {
      const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(object.ptr(), i));
      out.append(rebuild(item, leaf));
    }
    return out;
  };
  switch (form) {
    case Form::list:
      return items();
    case Form::tuple:
      return nb::steal(PyList_AsTuple(items().ptr()));
    case Form::named_tuple:
      return nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("_make")(items());
    case Form::dict: {
      nb::object out = nb::steal(PyObject_CallNoArgs(
          reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))));  // dict or OrderedDict
      if (!out) throw nb::python_error();
      for (nb::handle pair : nb::steal<nb::list>(PyDict_Items(object.ptr()))) {
        const nb::object value = rebuild(PyTuple_GET_ITEM(pair.ptr(), 1), leaf);
        if (PyObject_SetItem(out.ptr(), PyTuple_GET_ITEM(pair.ptr(), 0), value.ptr()) != 0) {
          throw nb::python_error();
        }
      }
      return out;
    }
    case Form::dataclass: {
      nb::object out = nb::module_::import_("copy").attr("copy")(object);
      for (const nb::object& name : fields_of(object)) {
        const nb::object value = rebuild(nb::object(object.attr(nb::str(name))), leaf);
        if (PyObject_GenericSetAttr(out.ptr(), name.ptr(), value.ptr()) != 0) {
          throw nb::python_error();
        }
      }
      return out;
    }
    case Form::slice: {
      const nb::object start = rebuild(nb::object(object.attr("start")), leaf);
      const nb::object stop = rebuild(nb::object(object.attr("stop")), leaf);
      const nb::object step = rebuild(nb::object(object.attr("step")), leaf);
      return nb::steal(PySlice_New(start.ptr(), stop.ptr(), step.ptr()));
    }
    default:
      return leaf(object, form);
  }
}

}  // namespace sow::python
