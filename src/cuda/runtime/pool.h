// SPDX-License-Identifier: Apache-2.0
// A device's memory: blocks that were let go are kept, by the stream they were asked for on, and
// handed out again on that stream. Letting go calls nothing on that stream, which may be gone by
// then.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace sow::detail::cuda {

class Pool {
 public:
  Pool(int device, uint64_t limit);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Ready on `stream` in its order. In a capture the memory belongs to the graph.
  void* take(size_t bytes, cudaStream_t stream);
  // `stream` is where it may have been used last; throws nothing.
  void give(void* data, cudaStream_t stream) noexcept;
  // Memory that is zero, for kernels that leave it so: then no call clears it but the first.
  void* take_zeroed(size_t bytes, cudaStream_t stream);
  // `clean`: it is zero again once the stream gets here.
  void give_zeroed(void* data, cudaStream_t stream, bool clean) noexcept;
  // Once everything on the device is done: lets go of what graphs left behind.
  void release_graph_memory() noexcept;

 private:
  struct Owned {
    cudaStream_t stream;
    uint64_t capture;  // 0: it belongs to the pool
    size_t bytes;
  };
  struct Slab {
    void* data;
    cudaEvent_t used;  // reuse waits for it; null: for nothing
  };
  using Slabs = std::multimap<size_t, Slab>;

  size_t bytes_of(void* data);
  bool take_kept(size_t bytes, cudaStream_t stream, Slab& out, size_t& size);
  void* ask(size_t bytes, cudaStream_t stream, bool captured);
  void keep(void* data, cudaStream_t stream);
  void let_go(std::unordered_map<cudaStream_t, Slabs>& kept) noexcept;
  void trim() noexcept;
  cudaEvent_t new_event() noexcept;

  std::mutex mutex_;
  cudaMemPool_t pool_ = nullptr;
  uint64_t limit_;  // more than this is not kept
  uint64_t kept_bytes_ = 0;
  std::unordered_map<cudaStream_t, Slabs> kept_, zeroed_;
  std::unordered_map<void*, Owned> owned_;
  std::vector<void*> of_graphs_;
  std::vector<cudaEvent_t> events_;  // idle
};

}  // namespace sow::detail::cuda
