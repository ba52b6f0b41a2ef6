// SPDX-License-Identifier: Apache-2.0
// The device memory pool: allocates, keeps and reuses blocks per stream.
#include "cuda/runtime/pool.h"

#include "cuda/runtime/runtime.h"

namespace sow::detail::cuda {

namespace {

// Small sizes in steps that many requests share, large ones in the pages of the device.
size_t rounded(size_t bytes) {
  const size_t step = bytes < (size_t{1} << 20) ? 512 : size_t{2} << 20;
  return bytes == 0 ? step : (bytes + step - 1) / step * step;
}

// What a block may be larger than what is asked for: an eighth, and a page.
size_t most_for(size_t bytes) {
  return bytes + bytes / 8 + (bytes < (size_t{1} << 20) ? 4096 : size_t{2} << 20);
}

}  // namespace

Pool::Pool(int device, uint64_t limit) : limit_(limit) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  check(cudaMemPoolCreate(&pool_, &properties), "cuda pool");
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &limit), "cuda pool");
}

bool Pool::take_kept(size_t bytes, cudaStream_t stream, Slab& out, size_t& size) {
  const auto blocks = kept_.find(stream);
  if (blocks == kept_.end()) return false;
  const auto found = blocks->second.lower_bound(bytes);
  if (found == blocks->second.end() || found->first > most_for(bytes)) return false;
  size = found->first;
  out = found->second;
  blocks->second.erase(found);
  kept_bytes_ -= size;
  return true;
}

void* Pool::ask(size_t bytes, cudaStream_t stream, bool captured) {
  void* data = nullptr;
  cudaError_t code = cudaMallocFromPoolAsync(&data, bytes, pool_, stream);
  if (code == cudaErrorMemoryAllocation && !captured) {
    cudaGetLastError();
    trim();
    code = cudaMallocFromPoolAsync(&data, bytes, pool_, stream);
  }
  check(code, "cuda memory");
  return data;
}

void* Pool::take(size_t bytes, cudaStream_t stream) {
  bytes = rounded(bytes);
  const uint64_t capture = capture_of(stream);
  if (capture == 0) {
    Slab block = {};
    size_t size = 0;
    bool too_much = false;
    {
      const std::lock_guard lock(mutex_);
      if (take_kept(bytes, stream, block, size)) owned_[block.data] = {stream, 0, size};
      too_much = block.data == nullptr && kept_bytes_ > limit_;
    }
    if (block.used != nullptr) {
      const cudaError_t code = cudaStreamWaitEvent(stream, block.used, 0);
      const std::lock_guard lock(mutex_);
      events_.push_back(block.used);
      check(code, "cuda memory");
    }
    if (block.data != nullptr) return block.data;
    if (too_much) trim();
  }
  void* data = ask(bytes, stream, capture != 0);
  const std::lock_guard lock(mutex_);
  owned_[data] = {stream, capture, bytes};
  return data;
}

void Pool::give(void* data, cudaStream_t stream) noexcept {
  try {
    keep(data, stream);
  } catch (...) {
    // No memory on the host to remember it by: it is lost.
  }
}

void* Pool::take_zeroed(size_t bytes, cudaStream_t stream) {
  constexpr size_t kLeast = 64 << 10;
  bytes = rounded(bytes < kLeast ? kLeast : bytes);
  if (capture_of(stream) == 0) {
    const std::lock_guard lock(mutex_);
    Slabs& slabs = zeroed_[stream];
    const auto found = slabs.lower_bound(bytes);
    // One a few times too large is better than one more of nearly the same size.
    if (found != slabs.end() && found->first <= 4 * bytes + (size_t{8} << 20)) {
      void* data = found->second.data;
      owned_[data] = {stream, 0, found->first};
      kept_bytes_ -= found->first;
      slabs.erase(found);
      return data;
    }
  }
  void* data = take(bytes, stream);
  const cudaError_t code = cudaMemsetAsync(data, 0, bytes_of(data), stream);
  if (code != cudaSuccess) give(data, stream);
  check(code, "cuda memory");
  return data;
}

size_t Pool::bytes_of(void* data) {
  const std::lock_guard lock(mutex_);
  return owned_.at(data).bytes;
}

void Pool::give_zeroed(void* data, cudaStream_t stream, bool clean) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      const auto found = owned_.find(data);
      if (clean && found != owned_.end() && found->second.capture == 0 &&
          found->second.stream == stream) {
        const size_t bytes = found->second.bytes;
        zeroed_[stream].emplace(bytes, Slab{data, nullptr});
        kept_bytes_ += bytes;
        owned_.erase(found);
        return;
      }
    }
    keep(data, stream);
  } catch (...) {
    // No memory on the host to remember it by: it is lost.
  }
}

void Pool::keep(void* data, cudaStream_t stream) {
  const uint64_t capture = capture_of(stream);
  const std::lock_guard lock(mutex_);
  const auto found = owned_.find(data);
  if (found == owned_.end()) return;
  const Owned owned = found->second;
  owned_.erase(found);
  if (owned.capture != 0) {
    // In its own capture this becomes a part of the graph; later the graph may still be launched.
    if (owned.capture != capture || cudaFreeAsync(data, stream) != cudaSuccess)
      of_graphs_.push_back(data);
    return;
  }
  cudaEvent_t used = nullptr;
  if (owned.stream != stream && capture == 0) {
    used = new_event();
    if (used != nullptr && cudaEventRecord(used, stream) != cudaSuccess) {
      cudaGetLastError();  // the default stream, while another thread captures: nothing runs there
      events_.push_back(used);
      used = nullptr;
    }
  }
  kept_[owned.stream].emplace(owned.bytes, Slab{data, used});
  kept_bytes_ += owned.bytes;
}

cudaEvent_t Pool::new_event() noexcept {
  cudaEvent_t event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
  } else if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
    cudaGetLastError();
  }
  return event;
}

void Pool::let_go(std::unordered_map<cudaStream_t, Slabs>& kept) noexcept {
  for (auto& of_stream : kept) {
    for (const auto& [bytes, block] : of_stream.second) {
      cudaFreeAsync(block.data, nullptr);
      if (block.used != nullptr) events_.push_back(block.used);
    }
  }
  kept.clear();
}

// Gives everything that is kept back to the device, which must have finished with it.
void Pool::trim() noexcept {
  if (cudaDeviceSynchronize() != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  const std::lock_guard lock(mutex_);
  let_go(kept_);
  let_go(zeroed_);
  kept_bytes_ = 0;
  cudaStreamSynchronize(nullptr);
  cudaMemPoolTrimTo(pool_, 0);
  cudaGetLastError();
}

void Pool::release_graph_memory() noexcept {
  const std::lock_guard lock(mutex_);
  // A graph that was never launched, or will be launched again, has nothing to free here.
  for (void* data : of_graphs_) {
    if (owned_.count(data) == 0) cudaFreeAsync(data, nullptr);  // else a later graph has it
  }
  of_graphs_.clear();
  cudaGetLastError();
}

}  // namespace sow::detail::cuda
