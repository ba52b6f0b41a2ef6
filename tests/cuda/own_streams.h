// SPDX-License-Identifier: Apache-2.0
// Threads of a test, each with a CUDA stream of its own.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>

#include "sow/cuda.h"
#include "test_threads.h"

namespace sow::test {

// `work(t)` for every t below `count`, on a thread and a stream of its own.
template <class F>
void run_on_streams(int count, const F& work) {
  run_in_threads(count, [&work](int t) {
    cudaStream_t stream;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
      throw std::runtime_error("no stream");
    struct Destroy {
      cudaStream_t stream;
      ~Destroy() {
        cudaStreamSynchronize(stream);
        cudaStreamDestroy(stream);
      }
    } destroy{stream};
    const cuda::StreamGuard guard(stream);
    work(t);
  });
}

}  // namespace sow::test
