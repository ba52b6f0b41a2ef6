// SPDX-License-Identifier: Apache-2.0
// Materialises offsets: writes them to memory, one axis and one key operand at a time, so that
// there is no limit on the number of either.
#include "cuda/common/decode.cuh"
#include "cuda/plan/materialise.h"

namespace sow::detail::cuda {

namespace {

__global__ void add_axis(int64_t* offsets, int64_t count, int64_t inner, int64_t size,
                         int64_t stride) {
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    offsets[i] += i / inner % size * stride;
  }
}

__global__ void start_places(int64_t* places, int64_t count, int64_t items) {
  for (int64_t i = global_thread(); i < count; i += grid_threads()) places[i] = i / items;
}

// `at` holds the offsets of the keys; a dropped position gets place -1 and stays so.
__global__ void add_keys(KeyOperand key, Bounds bounds, const int64_t* at, int64_t count,
                         bool is_dst, int64_t* places, int64_t* offsets, Flag* flag) {
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    int64_t value = read_key(key, at[i]);
    bool bad = false;
    const bool kept = resolve(value, key.extent, bounds, bad);
    if (bad) mark_bad(flag);
    if (!kept || places[i] < 0) {
      places[i] = -1;
      continue;
    }
    offsets[i] += value * key.scale;
    if (is_dst) places[i] = places[i] * key.extent + value;
  }
}

constexpr int kMostBlocks = 4096;

}  // namespace

void write_offsets(int64_t* offsets, int64_t count, const std::vector<StridedAxis>& axes,
                   cudaStream_t stream) {
  check(cudaMemsetAsync(offsets, 0, static_cast<size_t>(count) * sizeof(int64_t), stream),
        "materialise");
  int64_t inner = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].stride != 0) {
      add_axis<<<blocks_for(count, kThreads, kMostBlocks), kThreads, 0, stream>>>(
          offsets, count, inner, axes[i].size, axes[i].stride);
    }
    inner *= axes[i].size;
  }
  check_launch("materialise");
}

size_t materialised_bytes(const Problem& p) {
  Carver carver(nullptr);
  for (int k = 0; k < 4; ++k) carver.take<int64_t>(p.positions());
  return carver.used();
}

void materialise(Problem& p, const Transfer& t, const Canonical& canonical, char* workspace,
                 Flag* flag, cudaStream_t stream) {
  const int64_t count = p.positions();
  Carver carver(workspace);
  int64_t* places = carver.take<int64_t>(count);
  int64_t* dst = carver.take<int64_t>(count);
  int64_t* src = carver.take<int64_t>(count);
  int64_t* at = carver.take<int64_t>(count);
  const auto write = [&](int64_t* out, auto stride_of) {
    std::vector<StridedAxis> axes;
    for (const auto* group : {&canonical.outer, &canonical.items}) {
      for (const Axis& axis : *group) axes.push_back({axis.size, stride_of(axis)});
    }
    write_offsets(out, count, axes, stream);
  };
  const int blocks = blocks_for(count, kThreads, kMostBlocks);
  write(dst, [](const Axis& axis) { return axis.dst; });
  write(src, [](const Axis& axis) { return axis.src; });
  start_places<<<blocks, kThreads, 0, stream>>>(places, count, p.item_count);
  size_t k = 0;
  for (const auto* side : {&t.dst_index, &t.src_index}) {
    const bool is_dst = side == &t.dst_index;
    for (const IndexOperand& index : *side) {
      write(at, [&](const Axis& axis) { return axis.index[k]; });
      add_keys<<<blocks, kThreads, 0, stream>>>(key_operand(index), t.bounds, at, count, is_dst,
                                                places, is_dst ? dst : src, flag);
      ++k;
    }
  }
  check_launch("materialise");
  p.place_table = places;
  p.dst_table = dst;
  p.src_table = src;
  p.walk.fits_31_bits = false;
}

}  // namespace sow::detail::cuda
