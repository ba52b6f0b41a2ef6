// SPDX-License-Identifier: Apache-2.0
// CUDA devices: whether there are any, their streams, and when errors are told.
//
// The backend is a library of its own, loaded when first asked for. Calls on CUDA tensors return
// before the device has done the work. A bad index writes nothing, and its error is raised at the
// next point where the library waits for the device, or by cuda::check().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sow/export.h"
#include "sow/tensor.h"

namespace sow::cuda {

// Whether tensors can live on CUDA devices here. Never throws.
SOW_API bool available();
SOW_API int device_count();
// One line: the devices, or why there are none (no backend, no driver, another version).
SOW_API std::string status();

// Waits for everything on the device, then raises the first error since the last time.
SOW_API void synchronize(int device = 0);
// Raises the first error among the calls that have finished, after waiting for the current stream.
SOW_API void check(int device = 0);

// The stream (a cudaStream_t) that this thread's calls on `device` run on; null is the default
// stream. Memory that is let go is used again on the stream it was asked for on.
class SOW_API StreamGuard {
 public:
  explicit StreamGuard(void* stream, int device = 0);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  void* previous_;
  int device_;
};
SOW_API void* current_stream(int device = 0);
// What `stream` is given from now on comes after what this thread's stream has been given.
SOW_API void let_wait(void* stream, int device = 0);

// Calls that were captured once and run as one launch, as often as wanted: nothing is planned or
// asked for again. They read and write the tensors they were captured with, which must live as
// long; results that the calls make themselves are made anew, at the same place, by every launch.
// Calls that wait for the device (nonzero, masked_select, copies to the host) cannot be captured.
//
//   Tensor y;
//   cuda::Graph graph = cuda::Graph::capture([&] { y = compiled(feeds)[0]; });
//   graph.launch();
//
// Whoever captures a stream of their own under a StreamGuard gets the same; results made in such a
// capture belong to its graph, which is best instantiated to free them when it is launched again.
class SOW_API Graph {
 public:
  static Graph capture(const std::function<void()>& calls, int device = 0);
  void launch() const;  // on this thread's stream

 private:
  std::shared_ptr<void> graph_;
  int device_ = 0;
};

// For debugging: every call waits for the device and raises its own errors.
SOW_API void set_debug_checks(bool on);

}  // namespace sow::cuda
