// SPDX-License-Identifier: Apache-2.0
// Launches kernels with dynamic shared memory.
//
// How much a kernel may ask for is an attribute of the kernel on a device, which all threads of the
// process share. Were it set to what a launch needs, another thread could lower it before that
// launch; so it is set to the most the device has, once, and only launches differ.
#pragma once

#include <atomic>

#include "cuda/plan/strategy.h"

namespace sow::detail::cuda {

template <auto kernel>
void allow_shared_memory(const DeviceState& device) {
  static std::atomic<uint64_t> allowed{0};  // a bit per device
  const uint64_t bit = uint64_t{1} << device.index;
  if ((allowed.load(std::memory_order_acquire) & bit) != 0) return;
  allow_most_shared_memory(reinterpret_cast<const void*>(kernel), device);
  allowed.fetch_or(bit, std::memory_order_release);
}

template <auto kernel, class... Args>
void launch_with_shared(const Launch& launch, int64_t blocks, int threads, size_t bytes,
                        const Args&... args) {
  allow_shared_memory<kernel>(launch.device);
  kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), bytes, launch.stream>>>(
      args...);
}

}  // namespace sow::detail::cuda
