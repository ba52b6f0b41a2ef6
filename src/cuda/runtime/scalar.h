// SPDX-License-Identifier: Apache-2.0
// Small numbers that the host knows, where kernels can read them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace sow::detail::cuda {

struct alignas(16) ScalarBytes {
  uint64_t words[2];
};

// Writes the 16 bytes at `scalar`, in the host's memory, to `to` on the device, in stream order.
void put_scalar(const void* scalar, char* to, cudaStream_t stream);

// 0, 1, 2, ...
void count_up(int64_t* out, int64_t count, cudaStream_t stream);

}  // namespace sow::detail::cuda
