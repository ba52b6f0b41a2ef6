// SPDX-License-Identifier: Apache-2.0
// The gradient of an assignment by its source: the last writer of a place gets the gradient of the
// place, all other updates zero.
#include "cuda/assign/last_writer.cuh"
#include "cuda/backward/backward.cuh"

namespace sow::detail::cuda {

namespace {

// Rows of the gradient where a position won, else zeros; its source's places are written.
struct WinningRows {
  Problem p;
  RowSteps steps;
  const char* grad;
  char* source_grad;
  const uint32_t* last;

  __device__ bool off() const { return false; }
  __device__ RowCopy operator()(int64_t row, bool&) const {
    const ContestedRow at = contested_row(p, last, row);
    char* to = source_grad + (at.item.src + at.column.src) * p.width;
    if (!at.won) return {to, nullptr, steps.src, 0};
    return {to, grad + (at.item.dst + at.column.dst) * p.width, steps.src, steps.dst};
  }
};

}  // namespace

bool run_assign_backward(const CudaContext& context, const IndexedBackward& work,
                         const Problem& given) {
  if (work.source_grad == nullptr) return false;
  Problem p = given;
  const cudaStream_t stream = stream_of(context);
  p.width = width_of(work.dtype);
  p.dst = const_cast<char*>(work.grad);
  p.src = work.source_grad;
  const int width = row_access(p);
  const Scratch scratch(context, static_cast<size_t>(p.places) * sizeof(uint32_t));
  auto* last = reinterpret_cast<uint32_t*>(scratch.data());
  launch_last_writers(p, last, nullptr, device_state(context.device).processors, stream);
  const RowTiling tiling(p.positions() * p.free.count, p.row * p.width / width);
  launch_copies(width, WinningRows{p, row_steps(p, width), work.grad, work.source_grad, last},
                tiling, stream);
  return true;
}

}  // namespace sow::detail::cuda
