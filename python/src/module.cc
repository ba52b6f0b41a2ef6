// SPDX-License-Identifier: Apache-2.0
// The extension module sow._core.
#include <typeinfo>

#include "calls/bind.h"
#include "sow/memory.h"

namespace sow::python {
namespace {

PyObject* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::argument:
    case ErrorKind::shape:
    case ErrorKind::overlap:
      return PyExc_ValueError;
    case ErrorKind::type:
      return PyExc_TypeError;
    case ErrorKind::index:
      return PyExc_IndexError;
    case ErrorKind::memory:
      return PyExc_MemoryError;
    case ErrorKind::device:
    case ErrorKind::autograd:
      return PyExc_RuntimeError;
  }
  return PyExc_RuntimeError;
}

// What nanobind's functions show as their signature: their types have no attributes that Python
// could set, and inspect looks for this one.
void describe_functions(nb::handle function, nb::handle signature) {
  PyTypeObject* type = Py_TYPE(function.ptr());
  if (PyDict_SetItemString(type->tp_dict, "__signature__", signature.ptr()) != 0)
    throw nb::python_error();
  PyType_Modified(type);
}

}  // namespace
}  // namespace sow::python

NB_MODULE(_core, module) {
  using namespace sow::python;
  nb::set_leak_warnings(false);  // arrays of other libraries may outlive us and hold our memory
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const sow::Error& error) {
      PyErr_SetString(class_of(error.kind()), error.what());
    } catch (const std::bad_cast&) {  // nanobind's, from casts of what an argument holds
      PyErr_SetString(PyExc_TypeError,
                      "an argument holds an object of a type that is not taken there");
    }
  });
  watch_interpreter_end();
  // Makes the memory pool: a child that is forked while another thread makes it would wait for
  // ever.
  (void)sow::memory_stats();
  bind_dtypes(module);
  nb::class_<sow::Tensor> tensor = bind_tensor(module);
  bind_indexing(tensor);
  bind_index(module);
  bind_factories(module);
  bind_operations(module, tensor);
  bind_groups(module, tensor);
  bind_math(module, tensor);
  bind_autograd(module, tensor);
  bind_runtime(module);
  module.def("_describe", describe_functions);
  bind_cuda(module);
  bind_program(module);
  bind_jit(module);
  bind_distributed(module);
  bind_dispatch(module);
}
