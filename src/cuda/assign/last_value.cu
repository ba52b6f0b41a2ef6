// Strategy last_value: assignment of single elements of up to four bytes to indexed places. The
// last value of each place is found by an atomic maximum of position and value together, then the
// places that somebody came to are written and their cells cleared.
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
  int64_t cells;
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

bool supports(const Case& c) {
  const Problem p = in_memory_order(c.problem).p;
  return c.transfer.mask_side == MaskSide::none && c.transfer.reduce == Reduce::assign &&
         !c.transfer.dst_index.empty() && fits_problem(c.transfer, c.canonical) &&
         p.columns() == 1 && p.width <= 4 && p.positions() < INT32_MAX && p.positions() > 0 &&
         p.places <= std::max<int64_t>(4 * p.positions(), 1 << 20);
}

double cost(const Case& c) {
  const OrderedProblem ordered = in_memory_order(c.problem);
  const Problem& p = ordered.p;
  const double updates = static_cast<double>(p.positions()), cells = static_cast<double>(p.places);
  const bool cached = static_cast<double>(ordered.places_at_once) * 8 <=
                      static_cast<double>(c.device.l2_bytes) * 0.7;
  return 2 * kLaunchNs + 1000 + cells * 24 / kBytesPerNs + updates * (cached ? 0.0125 : 0.05);
}

void carve(Carver& carver, LastValueArgs& a) {
  a.head = carver.take<CallHead>(1);
  a.last = carver.take<unsigned long long>(a.cells);
}

void lay_out(const Case& c, Plan& plan) {
  LastValueArgs a = {};
  a.cells = in_memory_order(c.problem).p.places;
  Carver carver(nullptr);
  carve(carver, a);
  plan.zeroed = carver.used();
  plan.reports = c.transfer.dst_index.size() + c.transfer.src_index.size() == 1;
}

void run(const Launch& launch) {
  LastValueArgs a = {};
  const OrderedProblem ordered = in_memory_order(launch.problem);
  a.p = ordered.p;
  a.by_offset = ordered.by_offset;
  a.cells = a.p.places;
  Carver carver(launch.zeroed);
  carve(carver, a);
  a.flag = launch.flag;
  if (a.flag == nullptr) {
    a.flag = &a.head->flag;
    a.reports = launch.plan.reports && !launch.plan.held &&
                make_reporter(launch.context, launch.transfer, a.reporter) == 1;
  }
  const int most = 8 * launch.device.processors;
  with_width(a.p.width, [&](auto w) {
    if constexpr (decltype(w)::value <= 4) {
      using T = WordOf<decltype(w)::value>;
      find_last_values<T>
          <<<blocks_for(a.p.positions(), kThreads, most), kThreads, 0, launch.stream>>>(a);
      launch_dependent<write_last_values<T>>(launch, blocks_for(a.cells, kThreads, most), kThreads,
                                             a);
    }
  });
  check_launch("last_value");
}

}  // namespace

const Strategy k_last_value = {
    "last_value", "the last value of each place, by an atomic maximum of position and value",
    supports,     cost,
    lay_out,      run};

}  // namespace sow::detail::cuda
