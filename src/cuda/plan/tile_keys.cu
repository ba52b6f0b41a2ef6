// SPDX-License-Identifier: Apache-2.0
// Copies the keys of one tile, so that a part of a call is a Transfer of its own.
#include "cuda/plan/tile_keys.h"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

__global__ void __launch_bounds__(kThreads)
    copy_places(const __grid_constant__ OwnIndex index, int64_t first, int64_t last,
                const Flag* flag, int64_t* out) {
  const bool none = flag != nullptr && is_bad(flag);
  for (int64_t i = global_thread(); i < index.count; i += grid_threads()) {
    int64_t place = read_key(index.key, own_offset(index, i));
    bool bad = false;
    const bool kept = resolve(place, index.key.extent, index.bounds, bad) && !none;
    out[i] = kept && place >= first && place < last ? place - first : last - first;
  }
}

}  // namespace

void copy_keys(const CudaContext& context, const IndexOperand& index, Bounds bounds, int64_t first,
               int64_t last, const Flag* flag, int64_t* out) {
  const OwnIndex own = own_index(index, bounds, false, 0);
  if (own.count == 0) return;
  const int blocks =
      blocks_for(own.count, 4 * kThreads, 8 * device_state(context.device).processors);
  copy_places<<<blocks, kThreads, 0, stream_of(context)>>>(own, first, last, flag, out);
  check_launch("cuda tiles");
}

}  // namespace sow::detail::cuda
