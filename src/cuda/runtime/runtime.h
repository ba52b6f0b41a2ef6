// SPDX-License-Identifier: Apache-2.0
// What every part of the backend uses of the CUDA runtime: checked calls, the device of a call,
// its memory pool and its properties.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/runtime/pool.h"
#include "transfer/device/cuda_table.h"

namespace sow::detail::cuda {

// Thrown inside the backend only; the border turns it into a status.
struct BackendError {
  CudaStatus status;
  std::string text;
};

void check(cudaError_t code, const char* doing);

// Makes a device current and gives the caller's back.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;
};

struct FailureSlot;

inline constexpr int kMaxDevices = 64;

// What is known of a device once it was used.
struct DeviceState {
  int index = 0;
  Pool* pool = nullptr;
  int processors = 1;
  int shared_bytes = 48 << 10;  // the most a block may ask for
  size_t l2_bytes = 0;
  bool starts_dependents = false;  // before a launch has ended
  FailureSlot* failure = nullptr;  // in host memory that the device writes
  uint32_t* failure_claim = nullptr;
};

// Lets a kernel ask for all of a block's shared memory that it does not hold itself.
void allow_most_shared_memory(const void* kernel, const DeviceState& device);

// Made at the first call; the device must be current.
const DeviceState& device_state(int device);

// The capture a stream is in; 0: none. Memory asked for in a capture belongs to its graph.
uint64_t capture_of(cudaStream_t stream);
// Throws where waiting for the stream would spoil a capture.
void expect_not_captured(cudaStream_t stream);

// Work on `later` from now on comes after what `earlier` has been given so far.
void wait_for(cudaStream_t earlier, cudaStream_t later);

void* allocate(const CudaContext& context, size_t bytes);
void deallocate(const CudaContext& context, void* data);

// Scratch memory of one call, given back in stream order.
class Scratch {
 public:
  Scratch(const CudaContext& context, size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() const { return data_; }

 private:
  const CudaContext& context_;
  char* data_ = nullptr;
};

// Scratch memory that is zero, and that kernels leave zero: then it is not cleared for the next
// call.
class ZeroedScratch {
 public:
  ZeroedScratch(const CudaContext& context, size_t bytes);
  ~ZeroedScratch();
  ZeroedScratch(const ZeroedScratch&) = delete;
  ZeroedScratch& operator=(const ZeroedScratch&) = delete;
  char* data() const { return data_; }
  // Everything that makes it zero again was launched.
  void set_clean() { clean_ = true; }

 private:
  const CudaContext& context_;
  char* data_ = nullptr;
  bool clean_ = false;
};

// Cuts a workspace into arrays of 256-byte alignment; with a null base it only measures.
class Carver {
 public:
  explicit Carver(char* base) : base_(base) {}
  template <class T>
  T* take(int64_t count) {
    const size_t at = used_;
    used_ += (static_cast<size_t>(count < 0 ? 0 : count) * sizeof(T) + 255) / 256 * 256;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  size_t used() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

inline cudaStream_t stream_of(const CudaContext& context) {
  return static_cast<cudaStream_t>(context.stream);
}

// Blocks for `items` units of work, `each` per block, at most `most`.
inline int blocks_for(int64_t items, int64_t each, int64_t most = 1 << 30) {
  const int64_t blocks = (items + each - 1) / each;
  return static_cast<int>(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace sow::detail::cuda
