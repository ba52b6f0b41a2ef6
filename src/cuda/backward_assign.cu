// The gradient of an assign by its source: the last update of a place gets the place's gradient, the
// others nothing.
#include "cuda/backward.cuh"
#include "cuda/row_mover.cuh"

namespace sow::detail::cuda {

namespace {

// winners[place] becomes 1 + the last position that wrote there.
__global__ void __launch_bounds__(kThreads) find_last(const __grid_constant__ Problem p, uint32_t* winners) {
  const int64_t count = p.outer_count * p.item_count;
  const bool simple = is_simple(p);
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    int64_t src = 0;
    bool bad = false;
    const int64_t place = place_of(p, simple, i, src, bad);
    if (place >= 0) atomicMax(winners + place, static_cast<uint32_t>(i + 1));
  }
}

// Rows of the gradient where a position won, else zeros; its source's places are written.
struct WinningRows {
  Problem p;
  RowSteps steps;
  const char* grad;
  char* source_grad;
  const uint32_t* winners;

  __device__ bool off() const { return false; }
  __device__ RowMove operator()(int64_t row, bool&) const {
    int64_t position = row, free = 0;
    if (p.free.rank != 0) {
      const int64_t positions = p.outer_count * p.item_count;
      free = row / positions;
      position = row - free * positions;
    }
    bool bad = false;
    const Item item = decode(p, position, bad);
    const Column column = free_at(p, free);
    char* to = source_grad + (item.src + column.src) * p.width;
    if (item.place < 0 || winners[item.place] != static_cast<uint32_t>(position + 1)) return {to, nullptr, steps.src, 0};
    return {to, grad + (item.dst + column.dst) * p.width, steps.src, steps.dst};
  }
};

}  // namespace

bool run_assign_backward(const CudaContext& context, const IndexedBackward& work, const Problem& given) {
  if (work.source_grad == nullptr) return false;
  Problem p = given;
  const cudaStream_t stream = stream_of(context);
  p.width = width_of(work.dtype);
  p.dst = const_cast<char*>(work.grad);
  p.src = work.source_grad;
  const int width = row_access(p);
  const Scratch scratch(context, static_cast<size_t>(p.places) * sizeof(uint32_t));
  auto* winners = reinterpret_cast<uint32_t*>(scratch.data());
  check(cudaMemsetAsync(winners, 0, static_cast<size_t>(p.places) * sizeof(uint32_t), stream), "backward");
  const int blocks = blocks_for(p.positions(), kThreads, 32 * device_state(context.device).processors);
  find_last<<<blocks, kThreads, 0, stream>>>(p, winners);
  const RowTiling tiling(p.positions() * p.free.count, p.row * p.width / width);
  launch_moves(width, WinningRows{p, row_steps(p, width), work.grad, work.source_grad, winners}, tiling, stream);
  return true;
}

}  // namespace sow::detail::cuda
