// SPDX-License-Identifier: Apache-2.0
// Strategy last_value: assignment of elements, and of rows that are not many, to indexed places.
// The last value of each place is found by an atomic maximum of position and value together, then
// the places that somebody came to are written and their cells cleared. Of rows and wide elements
// the position alone is kept, and their values are read as they are written.
#include <algorithm>

#include "cuda/atomic/memory_order.h"
#include "cuda/common/dependent_launch.cuh"
#include "cuda/common/updates.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kUnroll = 4;

struct LastValueArgs {
  Problem p;
  bool by_offset;  // cells are numbered by offsets in the destination
  int64_t cells;   // one a place
  int64_t columns;
  int together;  // places of rows that a block takes at a time
  CallHead* head;
  unsigned long long* last;  // by place: one more than the position, and the value below it
  Flag* flag;
  bool reports;
  KeyReporter reporter;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    find_last_values(const __grid_constant__ LastValueArgs a) {
  const int64_t count = a.p.outer_count * a.p.item_count, step = grid_threads();
  allow_dependents();
  bool bad = false;
  for (int64_t first = global_thread(); first < count; first += kUnroll * step) {
    Item item[kUnroll];
    T value[kUnroll];
    decode_batch(a.p, first, step, count, item, bad);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place >= 0) value[u] = load_value<T>(a.p, item[u].src);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place < 0) continue;
      const auto position = static_cast<unsigned long long>(first + u * step + 1);
      atomicMax(a.last + (a.by_offset ? item[u].dst : item[u].place), position << 32 | value[u]);
    }
  }
  if (bad) mark_bad(a.flag);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    write_last_values(const __grid_constant__ LastValueArgs a) {
  wait_for_launch_before();
  const bool bad = is_bad(a.flag);
  for (int64_t first = global_thread(); first < a.cells; first += kUnroll * grid_threads()) {
    unsigned long long last[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t cell = first + u * grid_threads();
      last[u] = cell < a.cells ? a.last[cell] : 0;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (last[u] == 0) continue;
      const int64_t cell = first + u * grid_threads();
      a.last[cell] = 0;
      if (bad) continue;
      const int64_t at = a.by_offset ? cell : offset_of_cell(a.p, cell);
      reinterpret_cast<T*>(a.p.dst)[at] = static_cast<T>(last[u]);
    }
  }
  if (!bad || !a.reports || !is_last_block(&a.head->done)) return;
  a.reporter.report_by_block();
  __syncthreads();
  if (threadIdx.x == 0) *a.head = {};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    write_at_last_positions(const __grid_constant__ LastValueArgs a) {
  uint32_t* const positions = reinterpret_cast<uint32_t*>(a.last);
  wait_for_launch_before();
  const bool bad = is_bad(a.flag);
  for (int64_t first = global_thread(); first < a.cells; first += kUnroll * grid_threads()) {
    uint32_t last[kUnroll];
    T value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t cell = first + u * grid_threads();
      last[u] = cell < a.cells ? positions[cell] : 0;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (last[u] != 0) value[u] = load_value<T>(a.p, decode_src(a.p, last[u] - 1));
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (last[u] == 0) continue;
      const int64_t cell = first + u * grid_threads();
      positions[cell] = 0;
      if (bad) continue;
      const int64_t at = a.by_offset ? cell : offset_of_cell(a.p, cell);
      reinterpret_cast<T*>(a.p.dst)[at] = value[u];
    }
  }
  if (!bad || !a.reports || !is_last_block(&a.head->done)) return;
  a.reporter.report_by_block();
  __syncthreads();
  if (threadIdx.x == 0) *a.head = {};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    write_rows_at_last_positions(const __grid_constant__ LastValueArgs a) {
  __shared__ uint32_t last[kThreads];
  uint32_t* const positions = reinterpret_cast<uint32_t*>(a.last);
  const int thread = static_cast<int>(threadIdx.x);
  wait_for_launch_before();
  const bool bad = is_bad(a.flag);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * a.together; first < a.cells;
       first += static_cast<int64_t>(gridDim.x) * a.together) {
    const int here = static_cast<int>(min(static_cast<int64_t>(a.together), a.cells - first));
    __syncthreads();  // whoever reads the positions before has done so
    if (thread < here) {
      last[thread] = positions[first + thread];
      if (last[thread] != 0) positions[first + thread] = 0;
    }
    __syncthreads();
    if (bad) continue;
    const auto elements = static_cast<int>(here * a.columns);
    for (int i = thread; i < elements; i += kThreads) {
      const auto place = static_cast<int>(a.p.column_divider.quotient(static_cast<uint32_t>(i)));
      if (last[place] == 0) continue;
      const Column column = column_at(a.p, i - place * a.columns);
      reinterpret_cast<T*>(a.p.dst)[offset_of_place(a.p, first + place) + column.dst] =
          load_value<T>(a.p, decode_src(a.p, last[place] - 1) + column.src);
    }
  }
  if (!bad || !a.reports || !is_last_block(&a.head->done)) return;
  a.reporter.report_by_block();
  __syncthreads();
  if (threadIdx.x == 0) *a.head = {};
}

__global__ void __launch_bounds__(kThreads)
    find_last_positions(const __grid_constant__ LastValueArgs a) {
  const int64_t count = a.p.outer_count * a.p.item_count, step = grid_threads();
  allow_dependents();
  bool bad = false;
  for (int64_t first = global_thread(); first < count; first += kUnroll * step) {
    Item item[kUnroll];
    decode_batch(a.p, first, step, count, item, bad);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place < 0) continue;
      atomicMax(reinterpret_cast<uint32_t*>(a.last) + (a.by_offset ? item[u].dst : item[u].place),
                static_cast<uint32_t>(first + u * step + 1));
    }
  }
  if (bad) mark_bad(a.flag);
}

bool supports(const Case& c) {
  const Problem p = in_memory_order(c.problem).p;
  return c.transfer.mask_side == MaskSide::none && c.transfer.reduce == Reduce::assign &&
         !c.transfer.dst_index.empty() && fits_problem(c.transfer, c.canonical) &&
         p.columns() <= INT32_MAX / kThreads && p.positions() < INT32_MAX && p.positions() > 0 &&
         p.places <= std::max<int64_t>(4 * p.positions(), 1 << 20);
}

bool is_cached(const Case& c, const OrderedProblem& ordered, int bytes) {
  return static_cast<double>(ordered.places_at_once) * bytes <=
         static_cast<double>(c.device.l2_bytes) * 0.7;
}
bool keeps_positions(const Problem& p) { return p.columns() > 1 || p.width > 4; }

double cost(const Case& c) {
  const OrderedProblem ordered = in_memory_order(c.problem);
  const Problem& p = ordered.p;
  const double updates = static_cast<double>(p.positions()), cells = static_cast<double>(p.places);
  if (p.columns() > 1) {
    return 2 * kLaunchNs + 2000 + cells * 8 / kBytesPerNs + updates * 0.0125 +
           2 * updates * static_cast<double>(p.columns()) * p.width / (kBytesPerNs / 2);
  }
  if (keeps_positions(p)) {
    return 2 * kLaunchNs + 2000 +
           (cells * (12 + p.width) + std::min(updates, cells) * 32) / kBytesPerNs +
           updates * (is_cached(c, ordered, 4) ? 0.0125 : 0.04);
  }
  // Positions alone, of half the bytes, took 275 us of 10^7 elements to half as many places; by the
  // last writer it is 264 (H200, 2026-11-18).
  return 2 * kLaunchNs + 1000 + cells * 24 / kBytesPerNs +
         updates * (is_cached(c, ordered, 8) ? 0.0125 : 0.05);
}

struct LastValueLayout {
  bool positions;  // alone
};

void carve(Carver& carver, LastValueArgs& a, bool positions) {
  a.head = carver.take<CallHead>(1);
  a.last = carver.take<unsigned long long>(positions ? (a.cells + 1) / 2 : a.cells);
}

void lay_out(const Case& c, Plan& plan) {
  LastValueArgs a = {};
  const OrderedProblem ordered = in_memory_order(c.problem);
  a.cells = ordered.p.places;
  const LastValueLayout layout = {keeps_positions(ordered.p)};
  Carver carver(nullptr);
  carve(carver, a, layout.positions);
  if (layout.positions) plan.variant = "positions alone";
  plan.set_layout(layout);
  plan.zeroed = carver.used();
  plan.reports = c.transfer.dst_index.size() + c.transfer.src_index.size() == 1;
}

void run(const Launch& launch) {
  LastValueArgs a = {};
  const OrderedProblem ordered = in_memory_order(launch.problem);
  a.p = ordered.p;
  a.by_offset = ordered.by_offset;
  a.cells = a.p.places;
  a.columns = a.p.columns();
  a.together = static_cast<int>(std::clamp<int64_t>(kThreads / a.columns, 1, kThreads));
  const bool positions = launch.plan.layout_as<LastValueLayout>().positions;
  Carver carver(launch.zeroed);
  carve(carver, a, positions);
  a.flag = launch.flag;
  if (a.flag == nullptr) {
    a.flag = &a.head->flag;
    a.reports = launch.plan.reports && !launch.plan.held &&
                make_reporter(launch.context, launch.transfer, a.reporter) == 1;
  }
  const int most = 8 * launch.device.processors;
  const int blocks = blocks_for(a.p.positions(), kThreads, most),
            write_blocks = blocks_for(a.cells, kThreads, most);
  with_width(a.p.width, [&](auto w) {
    using T = WordOf<decltype(w)::value>;
    if (a.columns > 1) {
      const int64_t groups = (a.cells + a.together - 1) / a.together;
      find_last_positions<<<blocks, kThreads, 0, launch.stream>>>(a);
      launch_dependent<write_rows_at_last_positions<T>>(
          launch, static_cast<int>(std::min<int64_t>(groups, 64 * launch.device.processors)),
          kThreads, a);
    } else if (positions) {
      find_last_positions<<<blocks, kThreads, 0, launch.stream>>>(a);
      launch_dependent<write_at_last_positions<T>>(launch, write_blocks, kThreads, a);
    } else if constexpr (decltype(w)::value <= 4) {
      find_last_values<T><<<blocks, kThreads, 0, launch.stream>>>(a);
      launch_dependent<write_last_values<T>>(launch, write_blocks, kThreads, a);
    }
  });
  check_launch("last_value");
}

}  // namespace

const Strategy k_last_value = {
    "last_value", "the last value of each place, by an atomic maximum of positions",
    supports,     cost,
    lay_out,      run};

}  // namespace sow::detail::cuda
