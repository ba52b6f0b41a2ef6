// SPDX-License-Identifier: Apache-2.0
// sow.cuda: whether there are devices, and when their errors are told.
#include "sow/cuda.h"

#include <nanobind/stl/string.h>

#include "calls/bind.h"

namespace sow::python {

using namespace nb::literals;

void bind_cuda(nb::module_& module) {
  module.def("_cuda_available", cuda::available);
  module.def("_cuda_device_count", cuda::device_count);
  module.def("_cuda_status", cuda::status);
  module.def("_cuda_synchronize", cuda::synchronize, "device"_a = 0, nb::call_guard<Unlocked>());
  module.def("_cuda_check", cuda::check, "device"_a = 0, nb::call_guard<Unlocked>());
  module.def("_cuda_set_debug_checks", cuda::set_debug_checks, "on"_a);
  nb::class_<cuda::Graph>(module, "CudaGraph", "Calls that were captured; see sow.cuda.capture.")
      .def("launch", &cuda::Graph::launch, nb::call_guard<Unlocked>(),
           "Runs the captured calls once more, on this thread's stream.");
  module.def("_cuda_capture", [](nb::object function, int device) {
    return cuda::Graph::capture(
        [&] {
          // Tensors of other libraries follow the captured stream, not their library's.
          nb::object module = nb::module_::import_("sow._core");
          module.attr("_cuda_push_stream")(
              reinterpret_cast<uintptr_t>(cuda::current_stream(device)), device);
          try {
            function();
          } catch (...) {
            module.attr("_cuda_pop_stream")();
            throw;
          }
          module.attr("_cuda_pop_stream")();
        },
        device);
  });
  bind_streams(module);
}

}  // namespace sow::python
