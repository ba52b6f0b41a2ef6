// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime as the backend uses it: devices, their pools, memory.
#include "cuda/runtime/runtime.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "cuda/runtime/failure.h"

namespace sow::detail::cuda {

void check(cudaError_t code, const char* doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a later call must not meet this error again
  const CudaStatus status =
      code == cudaErrorMemoryAllocation ? CudaStatus::no_memory : CudaStatus::device_error;
  throw BackendError{status, std::string(doing) + ": " + cudaGetErrorString(code)};
}

DeviceGuard::DeviceGuard(int device) {
  int current = 0;
  check(cudaGetDevice(&current), "cuda");
  if (current == device) return;
  check(cudaSetDevice(device), "cuda");
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

namespace {

// Never destroyed: tensors may be let go of after static objects are gone.
struct Devices {
  std::mutex mutex;
  std::atomic<DeviceState*> state[kMaxDevices] = {};
};

Devices& devices() {
  static Devices* all = new Devices;
  return *all;
}

uint64_t pool_limit(uint64_t otherwise) {
  const char* text = std::getenv("SOW_CUDA_POOL_LIMIT");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Lets this thread do what is forbidden while a stream is captured but harms no capture.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

std::unique_ptr<DeviceState> open_device(int device) {
  const RelaxedCapture relaxed;
  auto state = std::make_unique<DeviceState>();
  state->index = device;
  int value = 0;
  check(cudaDeviceGetAttribute(&state->processors, cudaDevAttrMultiProcessorCount, device), "cuda");
  check(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cuda");
  state->shared_bytes = value;
  check(cudaDeviceGetAttribute(&value, cudaDevAttrL2CacheSize, device), "cuda");
  state->l2_bytes = static_cast<size_t>(value);
  check(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, device), "cuda");
  state->starts_dependents = value >= 9;
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cuda");
  state->pool = new Pool(device, pool_limit(total / 2));
  open_failures(*state);
  return state;
}

}  // namespace

const DeviceState& device_state(int device) {
  if (device < 0 || device >= kMaxDevices) {
    throw BackendError{CudaStatus::device_error,
                       "cuda: there is no device " + std::to_string(device)};
  }
  Devices& all = devices();
  DeviceState* state = all.state[device].load(std::memory_order_acquire);
  if (state != nullptr) return *state;
  const std::lock_guard lock(all.mutex);
  state = all.state[device].load(std::memory_order_acquire);
  if (state == nullptr) {
    state = open_device(device).release();
    all.state[device].store(state, std::memory_order_release);
  }
  return *state;
}

void allow_most_shared_memory(const void* kernel, const DeviceState& device) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel), "cuda shared memory");
  const int most = device.shared_bytes - static_cast<int>(attributes.sharedSizeBytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
        "cuda shared memory");
}

uint64_t capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo(stream, &status, &id) != cudaSuccess) {
    cudaGetLastError();  // the default stream, while another thread captures
    return 0;
  }
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

void expect_not_captured(cudaStream_t stream) {
  if (capture_of(stream) == 0) return;
  throw BackendError{CudaStatus::device_error,
                     "cuda: this waits for the device, which a stream that is captured cannot"};
}

void wait_for(cudaStream_t earlier, cudaStream_t later) {
  if (earlier == later) return;
  cudaEvent_t event;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cuda stream");
  const cudaError_t recorded = cudaEventRecord(event, earlier);
  const cudaError_t waiting =
      recorded == cudaSuccess ? cudaStreamWaitEvent(later, event, 0) : recorded;
  cudaEventDestroy(event);
  check(waiting, "cuda stream");
}

void* allocate(const CudaContext& context, size_t bytes) {
  return device_state(context.device).pool->take(bytes, stream_of(context));
}

void deallocate(const CudaContext& context, void* data) {
  device_state(context.device).pool->give(data, stream_of(context));
}

Scratch::Scratch(const CudaContext& context, size_t bytes) : context_(context) {
  if (bytes == 0) return;
  data_ = static_cast<char*>(device_state(context.device).pool->take(bytes, stream_of(context)));
}

ZeroedScratch::ZeroedScratch(const CudaContext& context, size_t bytes) : context_(context) {
  if (bytes == 0) return;
  data_ =
      static_cast<char*>(device_state(context.device).pool->take_zeroed(bytes, stream_of(context)));
}

ZeroedScratch::~ZeroedScratch() {
  if (data_ != nullptr)
    device_state(context_.device).pool->give_zeroed(data_, stream_of(context_), clean_);
}

Scratch::~Scratch() {
  if (data_ != nullptr) device_state(context_.device).pool->give(data_, stream_of(context_));
}

}  // namespace sow::detail::cuda
