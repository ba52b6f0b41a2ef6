// Results as the kind of array that the destination is.
#include "arrays.h"

namespace sow::python {
namespace {

// A function of another library, looked up once. The library is there: an array of it was given.
nb::handle function_of(const char* module, const char* name) {
  return nb::object(nb::module_::import_(module).attr(name)).release();
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

// Neither JAX nor Paddle takes strides that leave gaps.
nb::object to_jax(const Tensor& tensor) {
  static nb::handle convert = function_of("jax.dlpack", "from_dlpack");
  return convert(tensor.contiguous());
}

nb::object to_paddle(const Tensor& tensor) {
  static nb::handle convert = function_of("paddle.utils.dlpack", "from_dlpack");
  return convert(to_capsule(tensor.contiguous(), false));
}

nb::object to_cupy(const Tensor& tensor) {
  static nb::handle convert = function_of("cupy", "from_dlpack");
  return convert(tensor);
}

// Libraries of the array API standard take arrays back through their namespace; others get a
// Tensor.
nb::object to_namespace(const Tensor& tensor, nb::handle like) {
  if (!nb::hasattr(like, "__array_namespace__")) return nb::cast(tensor);
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
    static nb::handle increment = function_of("torch.autograd.graph", "increment_version");
    if (PyObject* done = PyObject_CallOneArg(increment.ptr(), object.ptr())) {
      Py_DECREF(done);
      return;
    }
    throw nb::python_error();
  }
  if (info.kind == Kind::paddle && nb::hasattr(object, "_bump_inplace_version")) {
    object.attr("_bump_inplace_version")();
  }
}

}  // namespace sow::python
