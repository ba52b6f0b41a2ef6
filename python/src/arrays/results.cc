// SPDX-License-Identifier: Apache-2.0
// Results as the kind of array that the destination is.
#include "arrays/arrays.h"
#include "calls/gil.h"
#include "sow/dlpack.h"

namespace sow::python {
namespace {

// A function of another library, looked up once. The library is there: an array of it was given.
nb::handle function_of(const char* module, const char* name) {
  return nb::object(nb::module_::import_(module).attr(name)).release();
}

// The same for a function that may not be there: then null.
nb::handle function_if_any(const char* module, const char* name) {
  nb::object found = nb::getattr(nb::module_::import_(module), name, nb::object());
  return found.release();
}

nb::object through_exchange(const Tensor& tensor, const DlExchange& exchange) {
  DlVersioned* managed = to_versioned(tensor);
  void* object = nullptr;
  if (exchange.object_from_managed(managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

nb::object to_torch(const Tensor& tensor, const TypeInfo& info) {
  if (info.exchange) return through_exchange(tensor, *info.exchange);
  static nb::handle convert = function_of("torch", "from_dlpack");
  return convert(tensor);
}

// Paddle takes no strides that leave gaps, and hangs when it lets go of memory that was lent to
// sow, by itself or by others: it gets a copy.
nb::object to_paddle(const Tensor& tensor) {
  static nb::handle convert = function_of("paddle.utils.dlpack", "from_dlpack");
  return convert(to_capsule(owns_memory(tensor) ? tensor.contiguous() : tensor.clone(), false));
}

nb::object to_cupy(const Tensor& tensor) {
  static nb::handle convert = function_of("cupy", "from_dlpack");
  return convert(tensor);
}

// Libraries of the array API standard take arrays back through their namespace; others get a
// Tensor.
nb::object to_namespace(const Tensor& tensor, nb::handle like) {
  if (!has_attribute(like, "__array_namespace__")) return nb::cast(tensor);
  return like.attr("__array_namespace__")().attr("from_dlpack")(tensor);
}

}  // namespace

nb::object from_tensor(const Tensor& tensor, nb::handle like, const TypeInfo& info) {
  if (is_symbolic(tensor)) return nb::cast(tensor);  // no other library has such a thing
  switch (info.kind) {
    case Kind::numpy:
      return to_numpy(tensor, like);
    case Kind::torch:
      return to_torch(tensor, info);
    case Kind::jax:
      return to_jax(tensor);
    case Kind::cupy:
      return to_cupy(tensor);
    case Kind::paddle:
      return to_paddle(tensor);
    case Kind::dlpack:
      return to_namespace(tensor, like);
    default:
      return nb::cast(tensor);
  }
}

void mark_written(nb::handle object, const TypeInfo& info) {
  if (info.kind == Kind::torch) {
    // The public function is a few lines of Python around this one.
    static nb::handle increment = function_if_any("torch._C", "_increment_version");
    static nb::handle slow = function_of("torch.autograd.graph", "increment_version");
    nb::object argument = increment ? nb::steal(PyTuple_Pack(1, object.ptr())) : nb::borrow(object);
    PyObject* given = argument.ptr();
    nb::object done =
        nb::steal(PyObject_Vectorcall((increment ? increment : slow).ptr(), &given, 1, nullptr));
    if (!done) throw nb::python_error();
    return;
  }
  if (info.kind == Kind::paddle && has_attribute(object, "_bump_inplace_version")) {
    object.attr("_bump_inplace_version")();
  }
}

void note_written(nb::handle object, const TypeInfo& info) noexcept {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE state = taking_gil([] { return PyGILState_Ensure(); });
  try {
    mark_written(object, info);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(object);
  }
  PyGILState_Release(state);
}

}  // namespace sow::python
