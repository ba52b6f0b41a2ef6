// SPDX-License-Identifier: Apache-2.0
// The last writer of every place: the largest position that addresses it, by an atomic maximum.
#pragma once

#include "cuda/copy/row_copy.cuh"

namespace sow::detail::cuda {

__device__ inline void raise_to(uint32_t* last, int64_t value) {
  atomicMax(last, static_cast<uint32_t>(value));
}
__device__ inline void raise_to(unsigned long long* last, int64_t value) {
  atomicMax(last, static_cast<unsigned long long>(value));
}

// last[place] becomes 1 + the last position that writes there; 0: nobody. Without a flag
// bad keys are left out.
template <class U>
__global__ void __launch_bounds__(kThreads)
    find_last_writers(const __grid_constant__ Problem p, U* last, Flag* flag) {
  const int64_t count = p.outer_count * p.item_count;
  const bool simple = is_simple(p);
  bool bad = false;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    int64_t src;
    const int64_t place = place_of(p, simple, i, src, bad);
    if (place >= 0) raise_to(last + place, i + 1);
  }
  if (bad && flag != nullptr) mark_bad(flag);
}

template <class U>
void launch_last_writers(const Problem& p, U* last, Flag* flag, int processors,
                         cudaStream_t stream) {
  check(cudaMemsetAsync(last, 0, static_cast<size_t>(p.places) * sizeof(U), stream), "last_writer");
  find_last_writers<U>
      <<<blocks_for(p.positions(), kThreads, 32 * processors), kThreads, 0, stream>>>(p, last,
                                                                                      flag);
  check_launch("last_writer");
}

// A row of the problem, and whether its position won; rows are free x positions.
struct ContestedRow {
  Item item;
  Column column;
  bool won;
};
template <class U>
__device__ inline ContestedRow contested_row(const Problem& p, const U* last, int64_t row) {
  int64_t position = row, free = 0;
  if (p.free.rank != 0) {
    const int64_t positions = p.outer_count * p.item_count;
    free = row / positions;
    position = row - free * positions;
  }
  bool bad = false;
  const Item item = decode(p, position, bad);
  return {item, free_at(p, free),
          item.place >= 0 && last[item.place] == static_cast<U>(position + 1)};
}

}  // namespace sow::detail::cuda
