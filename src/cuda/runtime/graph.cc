// SPDX-License-Identifier: Apache-2.0
// Captures calls into a CUDA graph and launches it.
#include "cuda/runtime/graph.h"

#include <mutex>
#include <vector>

#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

namespace {

// Streams to capture on. They are kept: memory that was asked for in a capture belongs to its
// stream.
struct CaptureStreams {
  std::mutex mutex;
  std::vector<std::pair<int, cudaStream_t>> idle;
};

CaptureStreams& capture_streams() {
  static CaptureStreams* all = new CaptureStreams;
  return *all;
}

}  // namespace

void* begin_capture(int device) {
  device_state(device);  // opened before: it synchronises
  cudaStream_t stream = nullptr;
  CaptureStreams& all = capture_streams();
  {
    const std::lock_guard lock(all.mutex);
    for (size_t i = 0; i < all.idle.size() && stream == nullptr; ++i) {
      if (all.idle[i].first != device) continue;
      stream = all.idle[i].second;
      all.idle.erase(all.idle.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  if (stream == nullptr)
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cuda graph");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cuda graph");
  return stream;
}

void* end_capture(int device, void* stream, bool wanted) {
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph);
  {
    CaptureStreams& all = capture_streams();
    const std::lock_guard lock(all.mutex);
    all.idle.push_back({device, static_cast<cudaStream_t>(stream)});
  }
  if (!wanted) {
    cudaGetLastError();
    if (graph != nullptr) cudaGraphDestroy(graph);
    return nullptr;
  }
  check(ended, "cuda graph");
  cudaGraphExec_t executable = nullptr;
  // Results made in the capture stay until the next launch makes them again.
  const cudaError_t made =
      cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  cudaGraphDestroy(graph);
  check(made, "cuda graph");
  return executable;
}

void launch_graph(const CudaContext& context, void* graph) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(context)), "cuda graph");
}

void destroy_graph(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

}  // namespace sow::detail::cuda
