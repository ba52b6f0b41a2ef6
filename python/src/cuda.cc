// sow.cuda: whether there are devices, and when their errors are told.
#include "sow/cuda.h"

#include <nanobind/stl/string.h>

#include "bind.h"

namespace sow::python {

using namespace nb::literals;

void bind_cuda(nb::module_& module) {
  module.def("_cuda_available", cuda::available);
  module.def("_cuda_device_count", cuda::device_count);
  module.def("_cuda_status", cuda::status);
  module.def("_cuda_synchronize", cuda::synchronize, "device"_a = 0,
             nb::call_guard<nb::gil_scoped_release>());
  module.def("_cuda_check", cuda::check, "device"_a = 0, nb::call_guard<nb::gil_scoped_release>());
  module.def("_cuda_set_debug_checks", cuda::set_debug_checks, "on"_a);
}

}  // namespace sow::python
