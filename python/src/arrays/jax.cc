// SPDX-License-Identifier: Apache-2.0
// JAX's arrays of the host in and out by quicker ways than its public DLPack functions, which take
// 4 us to lend an array and 33 us to take one (jax 0.10.2, 2 cores of a Zen 4 class EPYC,
// 2026-11-16); those are the way for every other array, and for every jax that lacks these.
#include "arrays/arrays.h"

namespace sow::python {
namespace {

// jaxlib's own function behind jax.dlpack.from_dlpack, and the device it is asked to use.
struct Taker {
  nb::handle function, device;

  static Taker find() {
    Taker taker;
    for (const char* module : {"jaxlib._jax", "jaxlib.xla_extension"}) {
      nb::object found = nb::steal(PyImport_ImportModule(module));
      if (!found.is_valid()) forget_error();
      if (found.is_valid()) found = attribute_of(found, "dlpack_managed_tensor_to_buffer");
      if (!found.is_valid()) continue;
      taker.function = found.release();
      taker.device =
          nb::object(nb::module_::import_("jax").attr("devices")("cpu")[nb::int_(0)]).release();
      break;
    }
    return taker;
  }
};

}  // namespace

Tensor from_jax(nb::handle object, const TypeInfo& info, Site site) {
  if (PyObject_CheckBuffer(object.ptr())) {
    try {
      return from_buffer(object, site, Access::read);
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;  // KeyboardInterrupt
      // On another device, spread over several, or of a type without a format: bfloat16.
    }
  }
  return from_dlpack(object, info, site, Access::read);
}

// It takes no strides that leave gaps. What is read-only may be memory of another array of JAX's,
// and one of the two may be donated: then the result is a copy.
nb::object to_jax(const Tensor& tensor) {
  const Tensor dense = tensor.read_only() ? tensor.clone() : tensor.contiguous();
  static Taker taker = Taker::find();
  if (taker.function.is_valid() && dense.device().type == DeviceType::cpu) {
    nb::object capsule = to_capsule(dense, false);
    PyObject* given[] = {capsule.ptr(), taker.device.ptr(), Py_None};
    nb::object taken = nb::steal(PyObject_Vectorcall(taker.function.ptr(), given, 3, nullptr));
    if (taken) return taken;
    forget_error();  // another signature, or memory it does not take
    taker.function = {};
  }
  static nb::handle convert =
      nb::object(nb::module_::import_("jax.dlpack").attr("from_dlpack")).release();
  return convert(dense);
}

}  // namespace sow::python
