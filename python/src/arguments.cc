// Reads arguments that are neither plain numbers nor plain arrays: indices, names, shapes.
#include "arguments.h"

#include "elements.h"

namespace sow::python {
namespace {

std::string prefix(const char* op) { return std::string(op) + ": "; }

// A tuple holds one index an axis, and so does a list that holds anything but numbers.
bool is_one_an_axis(nb::handle object) {
  if (PyTuple_Check(object.ptr())) return true;
  if (!PyList_Check(object.ptr())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object.ptr()); ++i) {
    if (!number_of(PyList_GET_ITEM(object.ptr(), i))) return true;
  }
  return false;
}

}  // namespace

Bounds parse_bounds(nb::handle object, const char* op) {
  const char* text = PyUnicode_Check(object.ptr()) ? PyUnicode_AsUTF8(object.ptr()) : nullptr;
  if (!text) {
    PyErr_Clear();
    raise(PyExc_TypeError, prefix(op) + "bounds is " + describe(object) + "; it must be a name");
  }
  const std::string_view name(text);
  if (name == "error") return Bounds::error;
  if (name == "drop") return Bounds::drop;
  if (name == "clip") return Bounds::clip;
  if (name == "promise") return Bounds::promise;
  raise(PyExc_ValueError,
        prefix(op) + "bounds '" + text + "' is unknown (known: error, drop, clip, promise)");
}

Reduce parse_reduce(nb::handle object, const char* op) {
  if (object.is_none()) return Reduce::assign;
  const char* text = PyUnicode_Check(object.ptr()) ? PyUnicode_AsUTF8(object.ptr()) : nullptr;
  if (!text) {
    PyErr_Clear();
    raise(PyExc_TypeError, prefix(op) + "reduce is " + describe(object) + "; it must be a name");
  }
  try {
    return ReduceName(std::string_view(text)).value();
  } catch (const Error& error) {
    throw Error(error.kind(), prefix(op) + error.what());
  }
}

Device parse_device(nb::handle object, const char* op) {
  if (object.is_none()) return {};
  const std::string text = std::string(nb::str(object).c_str());
  if (text == "cpu" || text == "cpu:0") return {};
  if (text == "cuda") return {DeviceType::cuda, 0};
  if (text.rfind("cuda:", 0) == 0 && text.size() > 5 && text.size() < 9 &&
      text.find_first_not_of("0123456789", 5) == std::string::npos) {
    return {DeviceType::cuda, std::stoi(text.substr(5))};
  }
  raise(PyExc_ValueError,
        std::string(op) + ": device '" + text + "' is unknown (known: cpu, cuda, cuda:0)");
}

std::string parse_name(nb::handle object, const char* op) {
  const char* text = PyUnicode_Check(object.ptr()) ? PyUnicode_AsUTF8(object.ptr()) : nullptr;
  if (text) return text;
  PyErr_Clear();
  raise(PyExc_TypeError, prefix(op) + "name is " + describe(object) + "; it must be a str");
}

int64_t parse_integer(nb::handle object, const char* op, const char* argument) {
  if (!PyIndex_Check(object.ptr())) {
    raise(PyExc_TypeError,
          prefix(op) + argument + " is " + describe(object) + "; it must be an int");
  }
  nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number) throw nb::python_error();
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) raise(PyExc_ValueError, prefix(op) + argument + " does not fit 64 bits");
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

Dims parse_shape(nb::handle object, const char* op) {
  if (PyIndex_Check(object.ptr()) && !nb::isinstance<Tensor>(object))
    return {parse_integer(object, op, "shape")};
  if (PyUnicode_Check(object.ptr()) || !PySequence_Check(object.ptr())) {
    raise(PyExc_TypeError, prefix(op) + "shape is " + describe(object) + "; it must be ints");
  }
  Dims shape;
  const Py_ssize_t size = PySequence_Size(object.ptr());
  if (size < 0) throw nb::python_error();
  for (Py_ssize_t i = 0; i < size; ++i) {
    nb::object item = nb::steal(PySequence_GetItem(object.ptr(), i));
    if (!item) throw nb::python_error();
    shape.push_back(parse_integer(item, op, "shape"));
  }
  return shape;
}

Tensor Arguments::count(Tensor tensor) {
  work_ += tensor.numel();
  return tensor;
}

Tensor Arguments::destination(nb::handle object, Access access) {
  Tensor tensor = to_tensor(object, {op_, next()}, access);
  dtype_ = tensor.dtype();
  device_ = tensor.device();
  return count(std::move(tensor));
}

// Lists and numbers have no device of their own: they follow the destination.
Tensor Arguments::read_array(nb::handle object, const char* name, std::optional<DType> hint) {
  Tensor tensor = to_tensor(object, {op_, name}, Access::read, hint);
  if (!(device_ == Device{})) {
    const Kind kind = info_of(object).kind;
    if (kind == Kind::sequence || kind == Kind::number) tensor = on_device(tensor, device_);
  }
  return count(std::move(tensor));
}

Tensor Arguments::array(nb::handle object) { return read_array(object, next(), dtype_); }

Source Arguments::values(nb::handle object) {
  const char* name = next();
  if (info_of(object).kind == Kind::number) return Source(*number_of(object));
  return Source(read_array(object, name, dtype_));
}

Index Arguments::keys(nb::handle object, const char* name) {
  // Arrays first: asking for an Index costs a look into a table of types.
  if (info_of(object).kind != Kind::other || !nb::isinstance<Index>(object)) {
    return Index(read_array(object, name, DType::int64), bounds_);
  }
  const Index& index = *nb::inst_ptr<Index>(object);
  if (bounds_ != Bounds::error && bounds_ != index.bounds()) {
    raise(PyExc_ValueError,
          prefix(op_) + name + " is an Index with bounds of its own; leave bounds= out");
  }
  work_ += index.keys().numel();
  return index;
}

std::vector<Index> Arguments::keys_list(nb::handle object) {
  const char* name = next();
  std::vector<Index> all;
  if (!is_one_an_axis(object)) {
    all.push_back(keys(object, name));
    return all;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object.ptr()); ++i) {
    nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(object.ptr(), i));
    all.push_back(keys(item, name));
  }
  return all;
}

}  // namespace sow::python
