// SPDX-License-Identifier: Apache-2.0
// A launch that begins while the one before it ends (programmatic dependent launch, from 9.0 on):
// it may read what that one does not write, and then waits for it.
#pragma once

#include "cuda/plan/strategy.h"

namespace sow::detail::cuda {

// In the kernel before: its dependents may be started from now on.
__device__ inline void allow_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// In the dependent kernel: everything the launch before wrote can be read after this.
__device__ inline void wait_for_launch_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

template <auto kernel, class... Args>
void launch_dependent(const Launch& launch, int blocks, int threads, const Args&... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = launch.device.starts_dependents ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, args...), "cuda launch");
}

}  // namespace sow::detail::cuda
