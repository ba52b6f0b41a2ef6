// SPDX-License-Identifier: Apache-2.0
// Brings a scalar to the device as a kernel's parameter: a copy of the host's memory would be read
// again whenever a captured graph is replayed, long after that memory is gone.
#include "cuda/runtime/scalar.h"

#include <cstring>

#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

namespace {

__global__ void put(ScalarBytes scalar, char* to) { *reinterpret_cast<ScalarBytes*>(to) = scalar; }

__global__ void count(int64_t* out, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    out[i] = i;
}

}  // namespace

void count_up(int64_t* out, int64_t n, cudaStream_t stream) {
  if (n == 0) return;
  count<<<blocks_for(n, 256, 4096), 256, 0, stream>>>(out, n);
  check_launch("cuda");
}

void put_scalar(const void* scalar, char* to, cudaStream_t stream) {
  ScalarBytes bytes;
  std::memcpy(&bytes, scalar, sizeof(bytes));
  put<<<1, 1, 0, stream>>>(bytes, to);
  check_launch("cuda");
}

}  // namespace sow::detail::cuda
