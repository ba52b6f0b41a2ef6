// The CUDA runtime as the backend uses it: devices, their pools, memory.
#include "cuda/runtime.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cuda/failure.h"

namespace sow::detail::cuda {

void check(cudaError_t code, const char* doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // a later call must not meet this error again
  const CudaStatus status =
      code == cudaErrorMemoryAllocation ? CudaStatus::no_memory : CudaStatus::device_error;
  throw Trouble{status, std::string(doing) + ": " + cudaGetErrorString(code)};
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

constexpr int kMaxDevices = 64;

struct Owned {
  cudaStream_t stream;
  uint64_t capture;  // it belongs to the graph that this capture makes; 0: to the pool
};

// Never destroyed: tensors may be let go of after static objects are gone.
struct Devices {
  std::mutex mutex;
  std::atomic<DeviceState*> state[kMaxDevices] = {};
  std::unordered_map<void*, Owned> owner;  // of each tensor's memory
  // Let go of while a stream was captured, where freeing would become a part of the graph.
  std::vector<std::pair<void*, cudaStream_t>> deferred;
};

Devices& devices() {
  static Devices* all = new Devices;
  return *all;
}

uint64_t pool_limit() {
  const char* text = std::getenv("SOW_CUDA_POOL_LIMIT");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : UINT64_MAX;
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
  int value = 0;
  check(cudaDeviceGetAttribute(&state->processors, cudaDevAttrMultiProcessorCount, device), "cuda");
  check(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cuda");
  state->shared_bytes = value;
  check(cudaDeviceGetAttribute(&value, cudaDevAttrL2CacheSize, device), "cuda");
  state->l2_bytes = static_cast<size_t>(value);
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  check(cudaMemPoolCreate(&state->pool, &properties), "cuda pool");
  uint64_t limit = pool_limit();
  check(cudaMemPoolSetAttribute(state->pool, cudaMemPoolAttrReleaseThreshold, &limit), "cuda pool");
  open_failures(*state);
  return state;
}

}  // namespace

const DeviceState& device_state(int device) {
  if (device < 0 || device >= kMaxDevices) {
    throw Trouble{CudaStatus::device_error, "cuda: there is no device " + std::to_string(device)};
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

namespace {

// What could not be freed during a capture goes back once its stream is free; under the lock.
void free_deferred(Devices& all) {
  for (size_t i = all.deferred.size(); i-- > 0;) {
    const auto [data, stream] = all.deferred[i];
    if (capture_of(stream) != 0) continue;
    cudaFreeAsync(data, stream);
    all.deferred[i] = all.deferred.back();
    all.deferred.pop_back();
  }
}

}  // namespace

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
  throw Trouble{CudaStatus::device_error,
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
  const DeviceState& state = device_state(context.device);
  void* data = nullptr;
  const cudaStream_t stream = stream_of(context);
  const uint64_t capture = capture_of(stream);
  check(cudaMallocFromPoolAsync(&data, bytes == 0 ? 1 : bytes, state.pool, stream), "cuda memory");
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  if (capture == 0 && !all.deferred.empty()) free_deferred(all);
  all.owner[data] = {stream, capture};
  return data;
}

void deallocate(const CudaContext& context, void* data) {
  Devices& all = devices();
  const cudaStream_t stream = stream_of(context);
  const uint64_t capture = capture_of(stream);
  Owned owned = {};
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.owner.find(data);
    if (found == all.owner.end()) return;
    owned = found->second;
    all.owner.erase(found);
    const bool same_graph = capture != 0 && capture == owned.capture && stream == owned.stream;
    if (!same_graph && (capture != 0 || capture_of(owned.stream) != 0)) {
      all.deferred.push_back({data, owned.stream});
      return;
    }
  }
  // Whoever lets go last may have used it on a stream of their own.
  wait_for(stream, owned.stream);
  // A graph that was never launched has nothing to free.
  if (owned.capture != 0 && capture == 0) {
    if (cudaFreeAsync(data, owned.stream) != cudaSuccess) cudaGetLastError();
    return;
  }
  check(cudaFreeAsync(data, owned.stream), "cuda memory");
}

Scratch::Scratch(const CudaContext& context, size_t bytes) : context_(context) {
  if (bytes == 0) return;
  void* data = nullptr;
  const DeviceState& state = device_state(context.device);
  check(cudaMallocFromPoolAsync(&data, bytes, state.pool, stream_of(context)), "cuda workspace");
  data_ = static_cast<char*>(data);
}

Scratch::~Scratch() {
  if (data_ != nullptr) cudaFreeAsync(data_, stream_of(context_));
}

}  // namespace sow::detail::cuda
