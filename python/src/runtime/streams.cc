// SPDX-License-Identifier: Apache-2.0
// Finds the streams of other libraries, and keeps those that users choose.
#include "runtime/streams.h"

#include <memory>
#include <vector>

namespace sow::python {
namespace {

thread_local std::vector<std::unique_ptr<cuda::StreamGuard>> chosen;

void* pointer_of(nb::handle number) { return reinterpret_cast<void*>(nb::cast<uintptr_t>(number)); }

}  // namespace

bool stream_is_chosen() { return !chosen.empty(); }

std::optional<void*> library_stream(nb::handle object, const TypeInfo& info, int device) {
  if (info.exchange) {
    void* stream = nullptr;
    if (info.exchange->current_stream(kDlCuda, device, &stream) != 0) throw nb::python_error();
    return stream;
  }
  if (info.kind == Kind::torch) {
    nb::object cuda = nb::module_::import_("torch").attr("cuda");
    return pointer_of(cuda.attr("current_stream")(object.attr("device")).attr("cuda_stream"));
  }
  if (info.kind == Kind::cupy) {
    nb::object cuda = nb::module_::import_("cupy").attr("cuda");
    return pointer_of(cuda.attr("get_current_stream")(device).attr("ptr"));
  }
  return {};
}

void GivenStream::choose(nb::handle stream, const Tensor& x, const char* op) {
  const nb::object number = nb::module_::import_("sow.cuda").attr("_number")(stream, op);
  if (x.device().type == DeviceType::cpu) {
    raise(PyExc_ValueError,
          std::string(op) + ": stream is for arrays on a CUDA device; the first one is on the CPU");
  }
  chosen.push_back(std::make_unique<cuda::StreamGuard>(pointer_of(number), x.device().index));
}

void GivenStream::forget() { chosen.pop_back(); }

void OwnersStream::follow(nb::handle object, const TypeInfo& info, int device) {
  if (stream_is_chosen()) return;
  if (const std::optional<void*> stream = library_stream(object, info, device))
    guard_.emplace(*stream, device);
}

int64_t stream_number(int device) {
  const auto number = reinterpret_cast<int64_t>(cuda::current_stream(device));
  return number == 0 ? 1 : number;  // DLPack calls the default stream 1
}

void let_consumer_wait(nb::handle stream, int device) {
  int64_t number = stream.is_none() ? 1 : nb::cast<int64_t>(stream);
  if (number == -1 || number == stream_number(device)) return;
  cuda::let_wait(reinterpret_cast<void*>(number == 0 ? 1 : number), device);
}

void bind_streams(nb::module_& module) {
  module.def("_cuda_push_stream", [](uintptr_t stream, int device) {
    chosen.push_back(std::make_unique<cuda::StreamGuard>(reinterpret_cast<void*>(stream), device));
  });
  module.def("_cuda_pop_stream", [] {
    if (!chosen.empty()) chosen.pop_back();
  });
  module.def("_cuda_current_stream",
             [](int device) { return reinterpret_cast<uintptr_t>(cuda::current_stream(device)); });
  // (stream, device) of a CUDA array, None for anything else or inside of sow.cuda.stream.
  module.def("_cuda_stream_of", [](nb::handle object) -> nb::object {
    const TypeInfo info = info_of(object);
    if (stream_is_chosen() ||
        (info.kind != Kind::torch && info.kind != Kind::cupy && info.kind != Kind::paddle)) {
      return nb::none();
    }
    const nb::tuple place = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
    if (nb::cast<int>(nb::int_(place[0])) != kDlCuda) return nb::none();
    const int device = nb::cast<int>(nb::int_(place[1]));
    const std::optional<void*> stream = library_stream(object, info, device);
    if (!stream) return nb::none();
    return nb::make_tuple(reinterpret_cast<uintptr_t>(*stream), device);
  });
}

}  // namespace sow::python
