// SPDX-License-Identifier: Apache-2.0
// Strategy lists: products of elements and rows, in two launches. One lists the positions
// that come to each place, one folds the rows of every list.
#include "cuda/lists/lists.cuh"

#include <algorithm>

#include "cuda/atomic/memory_order.h"
#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

__global__ void __launch_bounds__(kThreads)
    list_positions(const __grid_constant__ Problem p, bool by_offset, uint32_t slots,
                   uint32_t* counts, uint32_t* lists, Flag* flag) {
  constexpr int kUnroll = 2;
  allow_dependents();
  const int64_t count = p.outer_count * p.item_count, step = grid_threads();
  bool bad = false;
  for (int64_t first = global_thread(); first < count; first += kUnroll * step) {
    Item item[kUnroll];
    decode_batch(p, first, step, count, item, bad);
    int64_t place[kUnroll];
    uint32_t slot[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      place[u] = item[u].place < 0 || !by_offset ? item[u].place : item[u].dst;
      if (place[u] >= 0) slot[u] = atomicAdd(counts + place[u], 1u);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (place[u] >= 0 && slot[u] < slots)
        lists[place[u] * slots + slot[u]] = static_cast<uint32_t>(first + u * step);
    }
  }
  if (bad) mark_bad(flag);
}

// How long the lists are, so that hardly any overflows where keys are spread evenly; 0: another way
// is better.
int list_slots(const Problem& p) {
  constexpr int64_t kMostEach = 32, kMostPositions = 1 << 20, kMostBytes = 64 << 20;
  const int64_t each = p.positions() / std::max<int64_t>(p.places, 1);
  if (p.positions() > kMostPositions || each > kMostEach || p.places > 2 * p.positions() + 1024 ||
      p.columns() > INT32_MAX / kThreads)
    return 0;
  // Where there are twice as many places as positions, one in 10^8 gets more than 8 of them.
  int slots = 10 * p.places >= 19 * p.positions() ? 8 : 16;
  while (each != 0 && slots < 2 * each + 12) slots *= 2;
  return p.places * slots * 4 <= kMostBytes ? slots : 0;
}

bool supports(const Case& c) {
  const Problem p = in_memory_order(c.problem).p;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() ||
      p.dtype < DType::float16 || !fits_problem(c.transfer, c.canonical) || p.positions() == 0 ||
      p.places == 0 || list_slots(p) == 0)
    return false;
  return p.reduce == Reduce::mul;
}

double cost(const Case& c) {
  const Problem p = in_memory_order(c.problem).p;
  // Elements to half as many places 10^5 23 us, 10^6 103; 10^6 to twice as many 233; rows of 64 of
  // 10^5, 10^6 and 10^7 elements 11, 15 and 92 (H200, 2026-11-18).
  const double updates = static_cast<double>(p.positions()) * p.columns(),
               entries = static_cast<double>(p.places) * list_slots(p);
  return 12000 + entries * 0.0125 + updates * 0.007;
}

CallHead* carve_zeroed(Carver& carver, ListArgs& a, int64_t places) {
  CallHead* head = carver.take<CallHead>(1);
  a.counts = carver.take<uint32_t>(places);
  return head;
}

void lay_out(const Case& c, Plan& plan) {
  const OrderedProblem ordered = in_memory_order(c.problem);
  const Problem& p = ordered.p;
  ListArgs a = {};
  a.by_offset = ordered.by_offset;
  a.columns = p.columns();
  a.slots = list_slots(p);
  while (1 << a.slot_bits < a.slots) ++a.slot_bits;
  a.together = static_cast<int>(std::clamp<int64_t>(kThreads / a.columns, 1, kThreads));
  a.together = std::min(a.together, kListEntries / a.slots);
  Carver zeroed(nullptr), carver(nullptr);
  carve_zeroed(zeroed, a, p.places);
  a.lists = carver.take<uint32_t>(p.places * a.slots);
  plan.zeroed = zeroed.used();
  plan.workspace = carver.used();
  plan.reports = c.transfer.dst_index.size() + c.transfer.src_index.size() == 1;
  plan.set_layout(a);
}

void run(const Launch& launch) {
  ListArgs a = launch.plan.layout_as<ListArgs>();
  a.p = in_memory_order(launch.problem).p;
  Carver zeroed(launch.zeroed), carver(launch.workspace);
  a.head = carve_zeroed(zeroed, a, a.p.places);
  a.lists = carver.take<uint32_t>(a.p.places * a.slots);
  a.flag = launch.flag;
  if (a.flag == nullptr) {
    a.flag = &a.head->flag;
    a.reports = launch.plan.reports && !launch.plan.held &&
                make_reporter(launch.context, launch.transfer, a.reporter) == 1;
  }
  const int blocks = blocks_for(a.p.positions(), kThreads, 16 * launch.device.processors);
  list_positions<<<blocks, kThreads, 0, launch.stream>>>(
      a.p, a.by_offset, static_cast<uint32_t>(a.slots), a.counts, a.lists, a.flag);
  fold_listed_products(launch, a);
  check_launch("lists");
}

}  // namespace

const Strategy k_lists = {
    "lists",  "the positions of each place listed, and every list folded, two launches",
    supports, cost,
    lay_out,  run};

}  // namespace sow::detail::cuda
