// SPDX-License-Identifier: Apache-2.0
// The table of functions that libsow calls: each catches what is thrown, and answers with a status.
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "cuda/backward/backward.h"
#include "cuda/map/map.h"
#include "cuda/mask/count_true.h"
#include "cuda/plan/plan.h"
#include "cuda/plan/tile_keys.h"
#include "cuda/runtime/failure.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/runtime.h"
#include "cuda/runtime/scalar.h"
#include "sow/version.h"
#include "transfer/device/cuda_table.h"
#include "transfer/map.h"

namespace sow::detail::cuda {

namespace {

void say(CudaText* text, const char* what) {
  std::snprintf(text->text, sizeof(text->text), "%s", what);
}

template <class F>
CudaStatus guarded(CudaText* text, F&& f) noexcept {
  try {
    f();
    return CudaStatus::ok;
  } catch (const BackendError& failed) {
    say(text, failed.text.c_str());
    return failed.status;
  } catch (const std::bad_alloc&) {
    say(text, "cuda: no memory on the host");
    return CudaStatus::no_memory;
  } catch (const std::exception& error) {
    say(text, error.what());
    return CudaStatus::device_error;
  }
}

template <class F>
CudaStatus on_device(const CudaContext* context, CudaText* text, F&& f) noexcept {
  return guarded(text, [&] {
    const DeviceGuard guard(context->device);
    f();
  });
}

CudaStatus device_count(int* count, CudaText* text) {
  *count = 0;
  return guarded(text, [&] {
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "cuda driver");
    if (driver == 0)
      throw BackendError{CudaStatus::device_error, "cuda: there is no NVIDIA driver"};
    check(cudaGetDeviceCount(count), "cuda");
  });
}

CudaStatus describe_device(int device, CudaText* text) {
  return guarded(text, [&] {
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "cuda");
    std::snprintf(text->text, sizeof(text->text), "%.120s, sm_%d%d, %.0f GiB", properties.name,
                  properties.major, properties.minor,
                  static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  });
}

CudaStatus allocate_table(const CudaContext* context, size_t bytes, void** out, CudaText* text) {
  return on_device(context, text, [&] { *out = allocate(*context, bytes); });
}

CudaStatus deallocate_table(const CudaContext* context, void* data, CudaText* text) {
  return on_device(context, text, [&] { deallocate(*context, data); });
}

CudaStatus copy(const CudaContext* context, void* to, const void* from, size_t bytes,
                CudaText* text) {
  return on_device(context, text, [&] {
    const cudaStream_t stream = stream_of(*context);
    expect_not_captured(stream);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cuda copy");
    check(cudaStreamSynchronize(stream), "cuda copy");
  });
}

const Plan& plan_of(const DevicePlan* plan) { return *reinterpret_cast<const Plan*>(plan); }

CudaStatus make_plan_table(const CudaContext* context, const Transfer* transfer,
                           const DevicePlan** out, CudaText* text) {
  return on_device(context, text, [&] {
    *out = reinterpret_cast<const DevicePlan*>(new Plan(make_plan(*context, *transfer)));
  });
}

void destroy_plan(const DevicePlan* plan) { delete &plan_of(plan); }

bool same_plan(const DevicePlan* a, const DevicePlan* b) { return plan_of(a) == plan_of(b); }

void describe_plan(const DevicePlan* plan, CudaText* text) {
  guarded(text, [&] { say(text, describe(plan_of(plan)).c_str()); });
}

CudaStatus run(const CudaContext* context, const Transfer* transfer, const DevicePlan* plan,
               CudaText* text) {
  return on_device(context, text, [&] { run_plan(*context, *transfer, plan_of(plan)); });
}

static_assert(sizeof(Flag) == kCudaFlagBytes);

CudaStatus mark_bad_keys_table(const CudaContext* context, const Transfer* transfer, void* flag,
                               CudaText* text) {
  return on_device(context, text, [&] {
    check(cudaMemsetAsync(flag, 0, sizeof(Flag), stream_of(*context)), "cuda check");
    mark_bad_keys(*context, *transfer, static_cast<Flag*>(flag));
  });
}

CudaStatus copy_keys_table(const CudaContext* context, const IndexOperand* index, int32_t bounds,
                           int64_t first, int64_t last, const void* flag, void* out,
                           CudaText* text) {
  return on_device(context, text, [&] {
    copy_keys(*context, *index, static_cast<Bounds>(bounds), first, last,
              static_cast<const Flag*>(flag), static_cast<int64_t*>(out));
  });
}

CudaStatus report_bad_keys_table(const CudaContext* context, const Transfer* transfer, void* flag,
                                 CudaText* text) {
  return on_device(context, text,
                   [&] { report_bad_keys(*context, *transfer, static_cast<Flag*>(flag), false); });
}

CudaStatus count_true_table(const CudaContext* context, const void* mask, int64_t count,
                            void* ranks, int64_t* out, CudaText* text) {
  return on_device(context, text, [&] { *out = count_true(*context, mask, count, ranks); });
}

CudaStatus true_coordinates_table(const CudaContext* context, void* ranks, const int64_t* shape,
                                  int rank, int64_t* out, CudaText* text) {
  return on_device(context, text, [&] { true_coordinates(*context, ranks, shape, rank, out); });
}

CudaStatus backward(const CudaContext* context, const IndexedBackward* work, const Transfer* places,
                    int64_t elements, bool* done, CudaText* text) {
  *done = false;
  return on_device(context, text,
                   [&] { *done = run_backward(*context, *work, *places, elements); });
}

CudaStatus count_up_table(const CudaContext* context, void* out, int64_t count, CudaText* text) {
  return on_device(context, text,
                   [&] { count_up(static_cast<int64_t*>(out), count, stream_of(*context)); });
}

CudaStatus map(const CudaContext* context, const Map* given, CudaText* text) {
  return on_device(context, text, [&] {
    expect_aligned("map", given->out, width_of(given->out_dtype));
    for (int k = 0; k < given->arity; ++k)
      expect_aligned("map", given->in[k].data, width_of(given->in[k].dtype));
    run_map(*context, *given);
  });
}

CudaStatus synchronize(const CudaContext* context, bool whole_device, CudaText* text) {
  return on_device(context, text, [&] {
    expect_not_captured(stream_of(*context));
    check(whole_device ? cudaDeviceSynchronize() : cudaStreamSynchronize(stream_of(*context)),
          "cuda");
    if (whole_device) device_state(context->device).pool->release_graph_memory();
  });
}

CudaStatus take_failure_table(const CudaContext* context, CudaFailure* out, CudaText* text) {
  out->kind = CudaFailure::none;
  return on_device(context, text, [&] { take_failure(*context, *out); });
}

CudaStatus begin_capture_table(int device, void** stream, CudaText* text) {
  return guarded(text, [&] {
    const DeviceGuard guard(device);
    *stream = begin_capture(device);
  });
}

CudaStatus end_capture_table(int device, void* stream, bool wanted, void** graph, CudaText* text) {
  return guarded(text, [&] {
    const DeviceGuard guard(device);
    *graph = end_capture(device, stream, wanted);
  });
}

CudaStatus launch_graph_table(const CudaContext* context, void* graph, CudaText* text) {
  return on_device(context, text, [&] { launch_graph(*context, graph); });
}

CudaStatus wait_stream(const CudaContext* context, void* stream, CudaText* text) {
  return on_device(context, text,
                   [&] { wait_for(static_cast<cudaStream_t>(stream), stream_of(*context)); });
}

const char* strategy_names() {
  static const std::string* names = [] {
    auto* all = new std::string;
    for (const Strategy* strategy : strategies()) all->append(strategy->name).push_back('\0');
    return all;
  }();
  return names->c_str();
}

bool supports(const CudaContext* context, const Transfer* transfer) {
  bool answer = false;
  CudaText text;
  on_device(context, &text, [&] { answer = forced_supports(*context, *transfer); });
  return answer;
}

}  // namespace

}  // namespace sow::detail::cuda

extern "C" __attribute__((visibility("default"))) const sow::detail::CudaTable* sow_cuda_table() {
  using namespace sow::detail;
  static const CudaTable table = {
      .version = kCudaTableVersion,
      .size = sizeof(CudaTable),
      .build = SOW_VERSION,
      .device_count = cuda::device_count,
      .describe_device = cuda::describe_device,
      .allocate = cuda::allocate_table,
      .deallocate = cuda::deallocate_table,
      .copy = cuda::copy,
      .make_plan = cuda::make_plan_table,
      .destroy_plan = cuda::destroy_plan,
      .same_plan = cuda::same_plan,
      .describe_plan = cuda::describe_plan,
      .run = cuda::run,
      .mark_bad_keys = cuda::mark_bad_keys_table,
      .copy_keys = cuda::copy_keys_table,
      .report_bad_keys = cuda::report_bad_keys_table,
      .count_true = cuda::count_true_table,
      .mask_ranks_bytes = cuda::kept_ranks_bytes,
      .true_coordinates = cuda::true_coordinates_table,
      .count_up = cuda::count_up_table,
      .backward = cuda::backward,
      .map = cuda::map,
      .synchronize = cuda::synchronize,
      .take_failure = cuda::take_failure_table,
      .begin_capture = cuda::begin_capture_table,
      .end_capture = cuda::end_capture_table,
      .launch_graph = cuda::launch_graph_table,
      .destroy_graph = cuda::destroy_graph,
      .wait_stream = cuda::wait_stream,
      .strategy_names = cuda::strategy_names,
      .supports = cuda::supports,
  };
  return &table;
}
