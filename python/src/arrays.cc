// Sorts arguments by kind and sends each through its door.
#include "arrays.h"

#include <atomic>
#include <cstring>
#include <vector>

namespace sow::python {
namespace {

struct KnownType {
  PyTypeObject* type;
  TypeInfo info;
};
// Only types of arrays are remembered: a handful in any process. Guarded by the GIL.
std::vector<KnownType>& known_types() {
  static auto* types = new std::vector<KnownType>();
  return *types;
}

std::string text_of(PyObject* object) {
  const char* text = object ? PyUnicode_AsUTF8(object) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "";
}

std::string attribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (!value) {
    PyErr_Clear();
    return "";
  }
  std::string text = PyUnicode_Check(value) ? text_of(value) : "";
  Py_DECREF(value);
  return text;
}

bool has(PyObject* type, const char* name) {
  const int found = PyObject_HasAttrString(type, name);
  return found == 1;
}

Kind kind_of_class(PyObject* base) {
  const std::string module = attribute(base, "__module__");
  const std::string name = attribute(base, "__name__");
  const std::string root = module.substr(0, module.find('.'));
  if (root == "numpy") return name == "ndarray" ? Kind::numpy : Kind::other;
  if (root == "torch") return name == "Tensor" ? Kind::torch : Kind::other;
  if (root == "paddle") return name == "Tensor" ? Kind::paddle : Kind::other;
  if (root == "cupy") return name == "ndarray" ? Kind::cupy : Kind::other;
  if ((root == "jax" || root == "jaxlib") && has(base, "__dlpack__")) return Kind::jax;
  return Kind::other;
}

const DlExchange* exchange_of(PyTypeObject* type) {
  PyObject* capsule =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__");
  const DlExchange* table = nullptr;
  if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
    table = static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  }
  Py_XDECREF(capsule);
  PyErr_Clear();
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
  // Both libraries run their CPU work in the caller's thread, so a borrowed pointer is ready to be
  // read.
  if (info.kind == Kind::torch || info.kind == Kind::paddle) info.exchange = exchange_of(type);
  return info;
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
  const TypeInfo info = nb::isinstance<Tensor>(object) ? TypeInfo{Kind::tensor} : classify(type);
  if (info.kind != Kind::other) {
    Py_INCREF(type);
    known_types().push_back({type, info});
    return info;
  }
  if (number_of(object)) return {Kind::number};
  if (has(reinterpret_cast<PyObject*>(type), "__dlpack__")) return {Kind::dlpack};
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

Tensor to_tensor(nb::handle object, Site site, Access access, std::optional<DType> hint) {
  const TypeInfo info = info_of(object);
  switch (info.kind) {
    case Kind::tensor:
      return *nb::inst_ptr<Tensor>(object);
    case Kind::numpy:
      return from_numpy(object, site, access);
    case Kind::torch:
    case Kind::paddle:
    case Kind::cupy:
    case Kind::dlpack:
      return from_dlpack(object, info, site, access);
    case Kind::buffer:
      return from_buffer(object, site, access);
    case Kind::jax:
      if (access == Access::read) return from_dlpack(object, info, site, access);
      raise(PyExc_TypeError, std::string(site.op) + ": " + site.argument +
                                 " is a jax.Array, which is immutable; use the out-of-place form");
    case Kind::sequence:
    case Kind::number:
      if (access == Access::read) return from_sequence(object, site, hint);
      break;
    case Kind::other:
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
  foreign.strides = &strides;
  foreign.device = device;
  foreign.read_only = read_only;
  Py_INCREF(owner);
  foreign.deleter = [owner] { release_object(owner); };  // fits a std::function
  return Tensor::wrap(std::move(foreign));
}

void release_object(PyObject* object) noexcept {
  if (interpreter_ended().load(std::memory_order_acquire) || !Py_IsInitialized()) return;
  if (PyGILState_Check()) return Py_DECREF(object);
  const PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF(object);
  PyGILState_Release(state);
}

void watch_interpreter_end() {
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { interpreter_ended().store(true, std::memory_order_release); }));
}

void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

}  // namespace sow::python
