// SPDX-License-Identifier: Apache-2.0
// Sorts arguments by kind and sends each through its door.
#include "arrays/arrays.h"

#include <atomic>
#include <cstring>
#include <vector>

namespace sow::python {
namespace {

// Types of arrays that were met. The libraries' own classes are kept for ever, a handful in any
// process. Of a class that is derived from one there is a weak reference, `guard`, which takes the
// entry away when the class dies. Guarded by the GIL.
struct KnownType {
  PyTypeObject* type;
  TypeInfo info;
  PyObject* guard;
};
constexpr size_t kMostTypes = 64;  // those beyond are looked at anew each time

std::vector<KnownType>& known_types() {
  static auto* types = new std::vector<KnownType>();
  return *types;
}

PyObject* forget_type(PyObject*, PyObject* guard) {
  std::vector<KnownType>& types = known_types();
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].guard != guard) continue;
    types[i] = types.back();
    types.pop_back();
    Py_DECREF(guard);
    break;
  }
  Py_RETURN_NONE;
}

void remember(PyTypeObject* type, const TypeInfo& info) {
  if (info.exact) {
    Py_INCREF(type);
    return known_types().push_back({type, info, nullptr});
  }
  if (known_types().size() >= kMostTypes) return;
  static PyMethodDef forget{"forget_type", forget_type, METH_O, nullptr};
  static PyObject* const callback = PyCFunction_New(&forget, nullptr);
  PyObject* guard = PyWeakref_NewRef(reinterpret_cast<PyObject*>(type), callback);
  if (!guard) return forget_error();
  known_types().push_back({type, info, guard});
}

std::string text_of(PyObject* object) {
  const char* text = object ? PyUnicode_AsUTF8(object) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "";
}

std::string attribute(PyObject* object, const char* name) {
  const nb::object value = attribute_of(object, name);
  return value.is_valid() && PyUnicode_Check(value.ptr()) ? text_of(value.ptr()) : "";
}

// Classes whose objects stand for arrays of a program that is still being written.
bool stands_for_later(const std::string& root, const std::string& name) {
  if (root == "jax") return name == "Tracer";
  return root == "paddle" && (name == "Value" || name == "Variable");
}

// Whether this is the class that the library, imported by now, has under that name: anybody may
// write a class that only says so.
bool is_class_of(const char* library, const std::string& name, PyObject* base) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), library);
  return module && attribute_of(module, name.c_str()).ptr() == base;
}

Kind kind_of_class(PyObject* base) {
  const std::string module = attribute(base, "__module__");
  const std::string name = attribute(base, "__name__");
  const std::string root = module.substr(0, module.find('.'));
  if (root == "numpy" && name == "ndarray") return is_ndarray(base) ? Kind::numpy : Kind::other;
  const Kind claimed = root == "torch" && name == "Tensor"    ? Kind::torch
                       : root == "paddle" && name == "Tensor" ? Kind::paddle
                       : root == "cupy" && name == "ndarray"  ? Kind::cupy
                                                              : Kind::other;
  if (claimed != Kind::other) return is_class_of(root.c_str(), name, base) ? claimed : Kind::other;
  if (root == "paddle" && stands_for_later(root, name)) return Kind::paddle;
  if ((root == "jax" || root == "jaxlib") &&
      (stands_for_later(root, name) || has_attribute(base, "__dlpack__"))) {
    return Kind::jax;
  }
  return Kind::other;
}

// Tracers and static values, and classes of torch that handle every operation themselves.
bool is_traced(PyTypeObject* type, Kind kind) {
  const Py_ssize_t count = type->tp_mro ? PyTuple_GET_SIZE(type->tp_mro) : 0;
  PyObject* last = nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    const std::string module = attribute(base, "__module__");
    if (stands_for_later(module.substr(0, module.find('.')), attribute(base, "__name__"))) {
      return true;
    }
    if (kind == Kind::torch && kind_of_class(base) == Kind::torch) last = base;
  }
  if (last == nullptr) return false;
  nb::object own =
      nb::getattr(nb::handle(reinterpret_cast<PyObject*>(type)), "__torch_dispatch__", nb::none());
  nb::object plain = nb::getattr(nb::handle(last), "__torch_dispatch__", nb::none());
  return own.ptr() != plain.ptr();
}

const DlExchange* exchange_of(PyTypeObject* type) {
  const nb::object capsule =
      attribute_of(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  const DlExchange* table = nullptr;
  if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) {
    table =
        static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  }
  while (table && table->version.major > kDlpackMajor) table = table->previous;
  return table && table->version.major == kDlpackMajor && table->borrow_from_object ? table
                                                                                    : nullptr;
}

TypeInfo classify(PyTypeObject* type) {
  TypeInfo info;
  for (Py_ssize_t i = 0;
       type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro) && info.kind == Kind::other; ++i) {
    info.kind = kind_of_class(PyTuple_GET_ITEM(type->tp_mro, i));
    info.exact = i == 0;
  }
  if (info.kind == Kind::torch || info.kind == Kind::jax || info.kind == Kind::paddle) {
    info.traced = is_traced(type, info.kind);
  }
  // Both libraries run their CPU work in the caller's thread, so a borrowed pointer is ready to be
  // read.
  if (info.kind == Kind::torch || info.kind == Kind::paddle) {
    if (!info.traced) info.exchange = exchange_of(type);
  }
  return info;
}

// What NumPy makes of an object that says how: pandas', polars' and xarray's arrays among them. A
// view of its memory where there is one.
nb::object as_numpy_reads_it(nb::handle object) {
  // A NumPy scalar of a type that is no number's here is refused, and a class is no array.
  if (PyType_Check(object.ptr()) || is_numpy_scalar(Py_TYPE(object.ptr()))) return {};
  if (!has_attribute(object, "__array__") && !has_attribute(object, "__array_interface__"))
    return {};
  nb::object numpy = nb::steal(PyImport_ImportModule("numpy"));
  if (!numpy) {
    forget_error();
    return {};
  }
  nb::object array = numpy.attr("asarray")(object);
  return info_of(array).kind == Kind::numpy ? array : nb::object();
}

std::atomic<bool>& interpreter_ended() {
  static std::atomic<bool> ended{false};
  return ended;
}

}  // namespace

TypeInfo info_of(nb::handle object) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  for (const KnownType& known : known_types()) {
    if (known.type == type) return known.info;
  }
  if (PyLong_CheckExact(object.ptr()) || PyFloat_CheckExact(object.ptr())) return {Kind::number};
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) return {Kind::sequence};
  const bool ours = nb::isinstance<Tensor>(object);
  const TypeInfo info = ours ? TypeInfo{Kind::tensor, nullptr,
                                        nb::type<Tensor>().is(reinterpret_cast<PyObject*>(type))}
                             : classify(type);
  if (info.kind != Kind::other) {
    remember(type, info);
    return info;
  }
  if (number_of(object)) return {Kind::number};
  if (has_attribute(reinterpret_cast<PyObject*>(type), "__dlpack__")) return {Kind::dlpack};
  // A NumPy scalar that is no number (a date, a text) has a buffer of bytes, but is no array of
  // them.
  if (PyObject_CheckBuffer(object.ptr()) && !is_numpy_scalar(type)) return {Kind::buffer};
  return info;
}

std::string describe(nb::handle object) {
  switch (info_of(object).kind) {
    case Kind::numpy:
      return "a numpy.ndarray";
    case Kind::torch:
      return "a torch.Tensor";
    case Kind::jax:
      return "a jax.Array";
    case Kind::cupy:
      return "a cupy.ndarray";
    case Kind::paddle:
      return "a paddle.Tensor";
    case Kind::tensor:
      return "a sow.Tensor";
    default:
      break;
  }
  if (object.is_none()) return "None";
  const std::string name =
      attribute(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())), "__name__");
  return std::string(std::strchr("aeiouAEIOU", name.empty() ? 'x' : name[0]) ? "an " : "a ") + name;
}

Tensor to_tensor(nb::handle object, Site site, Access access, std::optional<DType> hint,
                 std::string* carried) {
  const TypeInfo info = info_of(object);
  switch (info.kind) {
    case Kind::tensor:
      return instance<Tensor>(object);
    case Kind::numpy:
      return from_numpy(object, site, access, carried);
    case Kind::torch:
    case Kind::paddle:
    case Kind::cupy:
    case Kind::dlpack:
      return from_dlpack(object, info, site, access, carried);
    case Kind::buffer:
      return from_buffer(object, site, access);
    case Kind::jax:
      if (access == Access::read) return from_jax(object, info, site);
      raise(PyExc_TypeError, std::string(site.op) + ": " + site.argument +
                                 " is a jax.Array, which is immutable; use the out-of-place form");
    case Kind::sequence:
    case Kind::number:
      if (access == Access::read) return from_sequence(object, site, hint);
      break;
    case Kind::other:
      if (access == Access::write) break;
      if (const nb::object array = as_numpy_reads_it(object)) {
        return from_numpy(array, site, access, carried);
      }
      break;
  }
  const std::string given = std::string(site.op) + ": " + site.argument + " is " + describe(object);
  if (access == Access::write) raise(PyExc_TypeError, given + ", which cannot be written in place");
  raise(PyExc_TypeError, given + ", which is no array, list or number");
}

Tensor wrap_owned(void* data, DType dtype, Dims shape, const Dims& strides, Device device,
                  bool read_only, PyObject* owner) {
  Tensor::Foreign foreign;
  foreign.data = data;
  foreign.dtype = dtype;
  foreign.shape = std::move(shape);
  foreign.strides = strides;
  foreign.device = device;
  foreign.read_only = read_only;
  Py_INCREF(owner);
  foreign.deleter = [owner] { release_object(owner); };  // fits a std::function
  return Tensor::wrap(std::move(foreign));
}

void release_object(PyObject* object) noexcept {
  if (interpreter_ended().load(std::memory_order_acquire) || !Py_IsInitialized()) return;
  if (PyGILState_Check()) return Py_DECREF(object);
  const PyGILState_STATE state = taking_gil(PyGILState_Ensure);
  Py_DECREF(object);
  PyGILState_Release(state);
}

void watch_interpreter_end() {
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { interpreter_ended().store(true, std::memory_order_release); }));
}

void raise_uninitialised(nb::handle object) {
  const std::string name = nb::type_name(object.type()).c_str();
  raise(PyExc_TypeError, name + " object that was never initialised: its __init__ was not called");
}

void forget_error() {
  if (PyErr_Occurred() == nullptr) return;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
  PyErr_Clear();
}

nb::object attribute_of(nb::handle object, const char* name) {
  nb::object value = nb::steal(PyObject_GetAttrString(object.ptr(), name));
  if (!value.is_valid()) forget_error();
  return value;
}

void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

}  // namespace sow::python
