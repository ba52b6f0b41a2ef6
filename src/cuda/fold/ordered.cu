// SPDX-License-Identifier: Apache-2.0
// Strategy ordered: reductions and assignments of any kind. Positions are sorted (or grouped) by
// place, then the updates of each place are folded in order.
#include <cmath>

#include "cuda/copy/row_copy.cuh"
#include "cuda/fold/folds.h"
#include "cuda/plan/strategies.h"
#include "cuda/runtime/scalar.h"

namespace sow::detail::cuda {

namespace {

template <class U>
__device__ bool is_last(const U* keys, int64_t i, int64_t count, int64_t places) {
  return static_cast<int64_t>(keys[i]) < places && (i + 1 == count || keys[i + 1] != keys[i]);
}

// The last of each run of equal keys is the last writer: its row is copied.
template <class U>
struct LastRows {
  Problem p;
  RowSteps steps;
  const U* keys;
  const U* order;
  const Flag* flag;

  __device__ bool off() const { return is_bad(flag); }
  __device__ RowCopy operator()(int64_t row, bool&) const {
    const int64_t count = p.outer_count * p.item_count;
    const int64_t free = p.free.rank == 0 ? 0 : row / count, i = row - free * count;
    if (!is_last(keys, i, count, p.places)) return {};
    const int64_t position = static_cast<int64_t>(order[i]);
    const Column column = free_at(p, free);
    const char* from = reinterpret_cast<const char*>(p.scalar);
    if (p.src != nullptr) from = p.src + (decode_src(p, position) + column.src) * p.width;
    return {p.dst + (decode_dst(p, position) + column.dst) * p.width, from, steps.dst, steps.src};
  }
};

// The same for single elements that travelled with their keys.
template <int W>
__global__ void copy_last_values(const __grid_constant__ Problem p, const uint32_t* keys,
                                 const uint32_t* values, const Flag* flag) {
  using Unit = WordOf<W>;
  if (is_bad(flag)) return;
  const int64_t count = p.outer_count * p.item_count;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    if (!is_last(keys, i, count, p.places)) continue;
    reinterpret_cast<Unit*>(p.dst)[offset_of_place(p, keys[i])] = static_cast<Unit>(values[i]);
  }
}

void assign_last(const Launch& launch, const Segments& s) {
  Problem p = launch.problem;
  const int64_t count = p.positions();
  const int blocks = blocks_for(count, kThreads, 64 * launch.device.processors);
  const uint32_t* keys = static_cast<const uint32_t*>(s.keys);
  if (s.payload) {
    const uint32_t* values = static_cast<const uint32_t*>(s.items);
    if (p.width == 4)
      copy_last_values<4><<<blocks, kThreads, 0, launch.stream>>>(p, keys, values, launch.flag);
    else if (p.width == 2)
      copy_last_values<2><<<blocks, kThreads, 0, launch.stream>>>(p, keys, values, launch.flag);
    else
      copy_last_values<1><<<blocks, kThreads, 0, launch.stream>>>(p, keys, values, launch.flag);
    check_launch("ordered");
    return;
  }
  const int width = row_access(p);
  const RowTiling tiling(count * p.free.count, p.row * p.width / width);
  const RowSteps steps = row_steps(p, width);
  if (s.is_64_bit) {
    launch_copies(width,
                  LastRows<uint64_t>{p, steps, static_cast<const uint64_t*>(s.keys),
                                     static_cast<const uint64_t*>(s.items), launch.flag},
                  tiling, launch.stream);
  } else {
    launch_copies(
        width,
        LastRows<uint32_t>{p, steps, keys, static_cast<const uint32_t*>(s.items), launch.flag},
        tiling, launch.stream);
  }
}

bool supports(const Case& c) {
  if (c.transfer.mask_side != MaskSide::none) return false;
  if (c.transfer.reduce == Reduce::assign) return !c.transfer.dst_index.empty();
  // Sums of complex numbers come as sums of their parts.
  return !has_parts(c.problem.dtype) || c.transfer.reduce == Reduce::mul;
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double positions = static_cast<double>(p.positions());
  // A pass of the sort takes 5 ns a thousand pairs, the keys and segments about as much again.
  double bits = 1;
  while (bits < 62 && std::exp2(bits) < static_cast<double>(p.places)) ++bits;
  const bool held = held_order(c.transfer, c.canonical) != nullptr;
  const double sort = p.dst_keys == 0 ? 0
                      : held          ? positions * 0.006
                                      : 30000 + positions * (0.010 + 0.005 * std::ceil(bits / 8));
  const double folded = has_payload(p)
                            ? 0.014
                            : (std::max<double>(static_cast<double>(p.columns()) * p.width, 64) *
                                   (p.reduce == Reduce::assign ? 2 : 1) +
                               16) /
                                  (0.7 * kBytesPerNs);
  // Rows too short to be grouped are sorted, and their places listed: 1.4 million of 7 float64 took
  // 230 us, of which 0.07 ns a row are not counted above (H200, 2026-11-18).
  const bool is_short = !held && p.dst_keys != 0 && !has_payload(p) && p.row * p.width < 96;
  const double listed = is_short ? 0.07 : 0;
  // Places of more than a chunk are put together by a block each, 18 ns a place (H200, 2026-11-16).
  const double joined = 2 * positions > kChunk * static_cast<double>(p.places)
                            ? 18 * static_cast<double>(p.places)
                            : 0;
  return 8 * kLaunchNs + kCheckedCallNs + sort + positions * (folded + listed) +
         (p.reduce == Reduce::assign ? 0 : joined);
}

FoldMemory carve_memory(Carver& carver, const Problem& p, const Segments& bounds) {
  FoldMemory memory;
  if (p.reduce == Reduce::assign) return memory;
  memory.scalar = carver.take<char>(sizeof(p.scalar));
  memory.any_inconclusive = carver.take<uint32_t>(1);
  memory.partials =
      carver.take<char>(bounds.most_chunks * p.columns() * static_cast<int64_t>(kLargestPartial));
  if (bounds.long_rows) {
    // Tiles of columns are 128 bytes at least.
    const int64_t tiles = p.free.count * ((p.row * p.width + 127) / 128);
    memory.repairs = carver.take<Inconclusive>(bounds.most_shorts * tiles);
    return memory;
  }
  // A bit for each lane: a row takes as many as it has elements, rounded up to a power of two or
  // to 32.
  int64_t lanes = 1;
  while (lanes < p.row && lanes < 32) lanes *= 2;
  if (lanes == 32) lanes = (p.row + 31) / 32 * 32;
  const int64_t bits = bounds.runs ? p.positions() : bounds.most_shorts * p.free.count * lanes;
  memory.inconclusive = carver.take<uint32_t>(bits / 32 + 1);
  return memory;
}

void lay_out(const Case& c, Plan& plan) {
  const SegmentLayout layout = lay_out_segments(c);
  Carver carver(nullptr);
  carver.take<char>(static_cast<int64_t>(layout.workspace));
  carve_memory(carver, c.problem, layout.bounds);
  plan.workspace = carver.used();
  if (layout.ordering == Ordering::group) plan.variant = "grouped by buckets instead of sorted";
  if (layout.ordering == Ordering::as_is) plan.variant = "in order as they are";
  plan.set_layout(layout);
}

void run(const Launch& launch) {
  const Problem& p = launch.problem;
  const SegmentLayout& layout = launch.plan.layout_as<SegmentLayout>();
  Carver carver(launch.workspace);
  char* segments_memory = carver.take<char>(static_cast<int64_t>(layout.workspace));
  const FoldMemory memory = carve_memory(carver, p, layout.bounds);
  const Segments segments = make_segments(launch, layout, segments_memory);
  if (p.reduce == Reduce::assign) return assign_last(launch, segments);
  if (p.src == nullptr) put_scalar(p.scalar, memory.scalar, launch.stream);
  fold_all(launch, segments, memory);
}

}  // namespace

const Strategy k_ordered = {
    "ordered", "positions sorted by place, then every place folded in order",
    supports,  cost,
    lay_out,   run};

}  // namespace sow::detail::cuda
