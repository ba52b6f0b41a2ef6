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

// Never destroyed: tensors may be let go of after static objects are gone.
struct Devices {
  std::mutex mutex;
  std::atomic<DeviceState*> state[kMaxDevices] = {};
  std::unordered_map<void*, cudaStream_t> owner;  // the stream each tensor's memory belongs to
};

Devices& devices() {
  static Devices* all = new Devices;
  return *all;
}

uint64_t pool_limit() {
  const char* text = std::getenv("SOW_CUDA_POOL_LIMIT");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : UINT64_MAX;
}

std::unique_ptr<DeviceState> open_device(int device) {
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

void* allocate(const CudaContext& context, size_t bytes) {
  const DeviceState& state = device_state(context.device);
  void* data = nullptr;
  const cudaStream_t stream = stream_of(context);
  check(cudaMallocFromPoolAsync(&data, bytes == 0 ? 1 : bytes, state.pool, stream), "cuda memory");
  Devices& all = devices();
  const std::lock_guard lock(all.mutex);
  all.owner[data] = stream;
  return data;
}

void deallocate(const CudaContext& context, void* data) {
  Devices& all = devices();
  cudaStream_t owner = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.owner.find(data);
    if (found == all.owner.end()) return;
    owner = found->second;
    all.owner.erase(found);
  }
  // Whoever lets go last may have used it on a stream of their own.
  if (owner != stream_of(context)) {
    cudaEvent_t used;
    check(cudaEventCreateWithFlags(&used, cudaEventDisableTiming), "cuda memory");
    cudaEventRecord(used, stream_of(context));
    cudaStreamWaitEvent(owner, used, 0);
    cudaEventDestroy(used);
  }
  check(cudaFreeAsync(data, owner), "cuda memory");
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
