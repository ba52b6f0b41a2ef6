// SPDX-License-Identifier: Apache-2.0
// Finds libsow_cuda.so, checks that it belongs to this build, and fills the device table from it.
#include "transfer/device/cuda_backend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "core/fail.h"
#include "sow/cuda.h"
#include "sow/limits.h"
#include "sow/version.h"
#include "transfer/index/check.h"
#include "transfer/plan/plan_cache.h"
#include "transfer/plan/tiles.h"

namespace sow {

namespace detail {

namespace {

constexpr int kMaxDevices = 64;
thread_local void* streams[kMaxDevices] = {};
std::atomic<bool> debug_checks{false};

// The folder of the library or program this code is in, never the working folder: others may write
// there. A program that was found through PATH has no folder in its name.
std::string own_folder() {
  static const char anchor = 0;
  Dl_info info;
  const bool named = dladdr(&anchor, &info) != 0 && info.dli_fname != nullptr &&
                     std::strchr(info.dli_fname, '/') != nullptr;
  char* real = realpath(named ? info.dli_fname : "/proc/self/exe", nullptr);
  const std::string path = real != nullptr ? real : "";
  std::free(real);
  return path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
}

std::string library_path() {
#if defined(__linux__)
  // secure_getenv: a program that runs with rights its caller has not (setuid) loads no library
  // that the caller names.
  const char* given = secure_getenv("SOW_CUDA_LIBRARY");
  if (given != nullptr && *given != 0) return given;
#endif
  // Beside us or, where it came as a wheel of its own (sow-cuda), in the folder beside ours.
  const std::string folder = own_folder(), beside = folder + "/libsow_cuda.so";
  const std::string wheel = folder.substr(0, folder.rfind('/')) + "/sow_cuda/libsow_cuda.so";
  return access(beside.c_str(), F_OK) != 0 && access(wheel.c_str(), F_OK) == 0 ? wheel : beside;
}

void load_into(CudaBackend& backend) {
  const std::string path = library_path();
  if (path[0] != '/') {  // anything else would be looked for in places that others may write to
    backend.status = detail::text(
        "no CUDA backend: SOW_CUDA_LIBRARY is '{}'; it must be an absolute path", path);
    return;
  }
  if (access(path.c_str(), F_OK) != 0) {
    backend.status = detail::text(
        "no CUDA backend: there is no {}; for Python the package sow-cuda brings it", path);
    return;
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    backend.status = detail::text("no CUDA backend: {}", why != nullptr ? why : path);
    return;
  }
  const auto function = reinterpret_cast<CudaTableFunction>(dlsym(library, kCudaTableSymbol));
  const CudaTable* table = function != nullptr ? function() : nullptr;
  if (table == nullptr || table->version != kCudaTableVersion || table->size != sizeof(CudaTable) ||
      std::string(table->build) != SOW_VERSION) {
    backend.status = detail::text("no CUDA backend: {} was built for another version of sow", path);
    return;
  }
  CudaText text = {};
  if (table->device_count(&backend.devices, &text) != CudaStatus::ok || backend.devices == 0) {
    backend.devices = 0;
    backend.status =
        detail::text("no CUDA device: {}", text.text[0] != 0 ? text.text : "none was found");
    return;
  }
  backend.table = table;
  for (int device = 0; device < backend.devices; ++device) {
    text = {};
    table->describe_device(device, &text);
    backend.status += detail::text("{}cuda:{} {}", device == 0 ? "" : "; ", device, text.text);
  }
}

CudaContext context_of(int device, const char* forced = nullptr) {
  const CudaBackend& backend = cuda_backend();
  if (backend.table == nullptr) fail(ErrorKind::device, "device: {}", backend.status);
  if (device < 0 || device >= std::min(backend.devices, kMaxDevices)) {
    fail(ErrorKind::device, "device: there is no cuda:{}; {} found", device, backend.devices);
  }
  return {device, streams[device], forced};
}

void expect_ok(CudaStatus status, const CudaText& text) {
  if (status == CudaStatus::ok) return;
  fail(status == CudaStatus::no_memory ? ErrorKind::memory : ErrorKind::device, "{}", text.text);
}

// Calls a function of the table with a text for what may go wrong.
template <class F>
void call(int device, F&& f) {
  const CudaContext context = context_of(device, forced_strategy());
  CudaText text = {};
  expect_ok(f(*cuda_backend().table, &context, &text), text);
}

void* allocate_cuda(size_t bytes, int device) {
  void* data = nullptr;
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.allocate(context, bytes, &data, text);
  });
  return data;
}

// From destructors: nothing may be thrown, and at the end of the process the driver may be gone.
void deallocate_cuda(void* data, size_t, int device) {
  const CudaContext context{device, streams[device], nullptr};
  CudaText text;
  cuda_backend().table->deallocate(&context, data, &text);
}

void copy_cuda(void* to, const void* from, size_t bytes, int device) {
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.copy(context, to, from, bytes, text);
  });
  raise_cuda_failure(device);
}

// A message names the position in the index as it was given; beyond this rank it is composed here,
// at once, because the device cannot carry the shape along.
bool needs_check_now(const Transfer& transfer) {
  for (const auto* side : {&transfer.dst_index, &transfer.src_index}) {
    for (const IndexOperand& index : *side) {
      if (index.own_shape.rank() > CudaFailure::kMaxRank) return true;
    }
  }
  return false;
}

std::shared_ptr<const DevicePlan> make_plan_cuda(const Transfer& transfer, int device) {
  const DevicePlan* plan = nullptr;
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.make_plan(context, &transfer, &plan, text);
  });
  return {plan, [](const DevicePlan* made) { cuda_backend().table->destroy_plan(made); }};
}

std::string describe_plan_cuda(const DevicePlan& plan) {
  CudaText text;
  cuda_backend().table->describe_plan(&plan, &text);
  return text.text;
}

bool same_plan_cuda(const DevicePlan& a, const DevicePlan& b) {
  return cuda_backend().table->same_plan(&a, &b);
}

// The failure of a call that says so at once.
void check_now_if_wanted(const Transfer& transfer, int device) {
  if (!debug_checks && !needs_check_now(transfer)) return;
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.synchronize(context, false, text);
  });
  raise_cuda_failure(device, &transfer);
}

void run_plan_cuda(const Transfer& transfer, const DevicePlan& plan, int device) {
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.run(context, &transfer, &plan, text);
  });
  check_now_if_wanted(transfer, device);
}

// The indices of a tile as copies on the device, which the caller keeps: keys that count from its
// first place, all of them dropped where the flag of the call says that one is bad.
Transfer with_own_keys(const TransferPart& tile, Bounds bounds, const Tensor& flag, Device on,
                       std::vector<Tensor>& copies) {
  Transfer part = from_first_place(tile);
  for (IndexOperands* side : {&part.dst_index, &part.src_index}) {
    for (IndexOperand& index : *side) {
      const bool window = tile.by_place && side == &part.dst_index;
      const int64_t first = window ? tile.first : 0, last = window ? tile.last : index.extent;
      copies.push_back(Tensor::empty({describe_own_keys(part.shape, index)}, DType::int64, on));
      call(on.index, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
        return table.copy_keys(context, &index, static_cast<int32_t>(bounds), first, last,
                               flag.defined() ? flag.data() : nullptr, copies.back().data(), text);
      });
      replace_keys(index, copies.back().data(), last - first);
    }
  }
  return part;
}

// In parts, one after the other. All keys are looked at first, and nobody waits for that: where one
// is bad, every part finds that its keys are dropped.
void run_in_tiles(const Transfer& transfer, const Dims& tiles, int device) {
  const Device on{DeviceType::cuda, device};
  std::string* said = current_explanation();
  const bool runs = said == nullptr || !is_kept_while_explaining(transfer);
  const bool checked = transfer.bounds == Bounds::error &&
                       !(transfer.dst_index.empty() && transfer.src_index.empty());
  Tensor flag;
  if (checked) {
    flag = Tensor::empty({static_cast<int64_t>(kCudaFlagBytes)}, DType::uint8, on);
    call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
      return table.mark_bad_keys(context, &transfer, flag.data(), text);
    });
  }
  if (said != nullptr) *said += describe_tiles(transfer, tiles);
  for_each_tile_of(transfer, tiles, [&](const TransferPart& tile) {
    if (!runs && said == nullptr) return;
    std::vector<Tensor> copies;
    const Transfer part = checked || tile.by_place
                              ? with_own_keys(tile, transfer.bounds, flag, on, copies)
                              : tile.part;
    const Planned& planned = planned_for(part, on);
    if (planned.canonical.empty) return;
    if (said != nullptr) *said += describe(part, planned.canonical, planned.plan, on);
    said = nullptr;
    if (runs) run_plan_cuda(part, *planned.plan.on_device, device);
  });
  if (!checked || !runs) return;
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.report_bad_keys(context, &transfer, flag.data(), text);
  });
  check_now_if_wanted(transfer, device);
}

void run_cuda(const Transfer& transfer, int device) {
  if (has_tile_shape()) {
    const Dims tiles = tiles_by_shape(transfer);
    if (!tiles.empty()) return run_in_tiles(transfer, tiles, device);
  }
  const Device on{DeviceType::cuda, device};
  const Planned& planned = planned_for(transfer, on);
  if (std::string* text = current_explanation()) {
    *text += describe(transfer, planned.canonical, planned.plan, on);
    if (is_kept_while_explaining(transfer)) return;
  }
  run_plan_cuda(transfer, *planned.plan.on_device, device);
}

int64_t count_true_cuda(const void* mask, int64_t count, void* ranks, int device) {
  int64_t out = 0;
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.count_true(context, mask, count, ranks, &out, text);
  });
  raise_cuda_failure(device);
  return out;
}

size_t mask_ranks_bytes_cuda(int64_t count) {
  return cuda_backend().table->mask_ranks_bytes(count);
}

void true_coordinates_cuda(void* ranks, const Dims& shape, int64_t* out, int device) {
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.true_coordinates(context, ranks, shape.data(), static_cast<int>(shape.size()), out,
                                  text);
  });
}

void map_cuda(const Map& map, int device) {
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.map(context, &map, text);
  });
}

bool backward_cuda(const IndexedBackward& work, const Transfer& places, int64_t elements,
                   int device) {
  bool done = false;
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.backward(context, &work, &places, elements, &done, text);
  });
  return done;
}

void count_up_cuda(void* out, int64_t count, int device) {
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.count_up(context, out, count, text);
  });
}

}  // namespace

const CudaBackend& cuda_backend() {
  // Never destroyed: tensors may be let go of after static objects are gone.
  static const CudaBackend* backend = [] {
    auto* made = new CudaBackend;
    load_into(*made);
    return made;
  }();
  return *backend;
}

const DeviceTable& cuda_table() {
  if (cuda_backend().table == nullptr) fail(ErrorKind::device, "device: {}", cuda_backend().status);
  static const DeviceTable table = {
      .version = kDeviceTableVersion,
      .name = "cuda",
      .allocate = allocate_cuda,
      .deallocate = deallocate_cuda,
      .copy_bytes = copy_cuda,
      .run = run_cuda,
      .make_plan = make_plan_cuda,
      .run_plan = run_plan_cuda,
      .describe_plan = describe_plan_cuda,
      .same_plan = same_plan_cuda,
      .count_true = count_true_cuda,
      .mask_ranks_bytes = mask_ranks_bytes_cuda,
      .true_coordinates = true_coordinates_cuda,
      .map = map_cuda,
      .backward = backward_cuda,
      .count_up = count_up_cuda,
  };
  return table;
}

void raise_cuda_failure(int device, const Transfer* last) {
  CudaFailure failure = {};
  call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.take_failure(context, &failure, text);
  });
  if (failure.kind == CudaFailure::mask) {
    report_too_few(failure.op, failure.trues, failure.limit, failure.source_side != 0);
  }
  if (failure.kind != CudaFailure::index) return;
  IndexOperand index;
  index.own_shape =
      Dims(failure.shape, static_cast<size_t>(std::min(failure.rank, CudaFailure::kMaxRank)));
  for (size_t side = 0; last != nullptr && failure.rank > CudaFailure::kMaxRank && side < 2;
       ++side) {
    for (const IndexOperand& given : side == 0 ? last->dst_index : last->src_index) {
      if (given.own_shape.rank() == failure.rank) index.own_shape = given.own_shape;
    }
  }
  index.axis = failure.axis;
  index.component = failure.component;
  index.separate = failure.separate != 0;
  index.extent = failure.extent;
  report_bad_index(failure.op, index, failure.position, failure.key);
}

std::vector<std::string> cuda_strategies() {
  std::vector<std::string> names;
  if (cuda_backend().table == nullptr) return names;
  for (const char* at = cuda_backend().table->strategy_names(); *at != 0;
       at += names.back().size() + 1) {
    names.emplace_back(at);
  }
  return names;
}

bool cuda_supports(const char* strategy, const Transfer& transfer, int device) {
  const CudaContext context = context_of(device, strategy);
  return cuda_backend().table->supports(&context, &transfer);
}

}  // namespace detail

namespace cuda {

using detail::CudaContext;
using detail::CudaTable;
using detail::CudaText;

bool available() { return detail::cuda_backend().table != nullptr; }
int device_count() { return detail::cuda_backend().devices; }
std::string status() { return detail::cuda_backend().status; }

void synchronize(int device) {
  detail::call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.synchronize(context, true, text);
  });
  detail::raise_cuda_failure(device);
}

void check(int device) {
  detail::call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.synchronize(context, false, text);
  });
  detail::raise_cuda_failure(device);
}

StreamGuard::StreamGuard(void* stream, int device) : device_(device) {
  if (device < 0 || device >= detail::kMaxDevices) {
    detail::fail(ErrorKind::device, "stream: there is no cuda:{}", device);
  }
  previous_ = detail::streams[device];
  detail::streams[device] = stream;
}

StreamGuard::~StreamGuard() { detail::streams[device_] = previous_; }

void* current_stream(int device) {
  return device >= 0 && device < detail::kMaxDevices ? detail::streams[device] : nullptr;
}

void let_wait(void* stream, int device) {
  detail::call(device, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    const CudaContext waiting{device, stream, nullptr};
    return table.wait_stream(&waiting, context->stream, text);
  });
}

Graph Graph::capture(const std::function<void()>& calls, int device) {
  detail::context_of(device);  // refuses a device that is not there
  const CudaTable& table = *detail::cuda_backend().table;
  CudaText text = {};
  void* stream = nullptr;
  detail::expect_ok(table.begin_capture(device, &stream, &text), text);
  void* made = nullptr;
  try {
    const StreamGuard guard(stream, device);
    calls();
  } catch (...) {
    CudaText ignored = {};
    table.end_capture(device, stream, false, &made, &ignored);
    throw;
  }
  detail::expect_ok(table.end_capture(device, stream, true, &made, &text), text);
  Graph graph;
  graph.device_ = device;
  graph.graph_ = std::shared_ptr<void>(made, table.destroy_graph);
  return graph;
}

void Graph::launch() const {
  detail::call(device_, [&](const CudaTable& table, const CudaContext* context, CudaText* text) {
    return table.launch_graph(context, graph_.get(), text);
  });
}

void set_debug_checks(bool on) { detail::debug_checks = on; }

}  // namespace cuda

}  // namespace sow
