// SPDX-License-Identifier: Apache-2.0
// Strategy cells: extremes of any type and integer sums by atomic operations on accumulators of
// their own; few cells are privatised in shared memory, in many copies, so that none is contended.
#include "cuda/atomic/cell_batch.cuh"
#include "cuda/atomic/memory_order.h"
#include "cuda/common/dependent_launch.cuh"
#include "cuda/common/dtypes.h"
#include "cuda/common/ordered_bits.cuh"
#include "cuda/common/shared_memory.cuh"
#include "cuda/common/updates.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

// A cell is unsigned and starts as 0. Sums wrap in it; extremes are kept as ordered bits moved up
// so that 0 means that nobody came.
template <class T>
struct CellOf {
  static constexpr bool k64Bits = sizeof(T) == 8;
  using type = std::conditional_t<k64Bits, unsigned long long, uint32_t>;
};

template <class T, class Cell>
__device__ inline Cell to_cell(int64_t ordered, Reduce reduce) {
  if (!is_extreme(reduce)) return static_cast<Cell>(ordered);
  constexpr Cell kTop = Cell{1} << (8 * sizeof(Cell) - 1);
  if (sizeof(Cell) == 4 && ordered == INT64_MAX) return ~Cell{0};
  return static_cast<Cell>(ordered) ^ kTop;
}

template <class T, class Cell>
__device__ inline int64_t from_cell(Cell cell) {
  constexpr Cell kTop = Cell{1} << (8 * sizeof(Cell) - 1);
  if (sizeof(Cell) == 4 && !std::is_integral_v<T> && cell == ~Cell{0}) return INT64_MAX;
  return static_cast<int64_t>(static_cast<std::make_signed_t<Cell>>(cell ^ kTop));
}

template <class Cell>
__device__ inline void put(Cell* cell, Cell value, bool extreme) {
  if (extreme)
    atomicMax(cell, value);
  else
    atomicAdd(cell, value);
}

// Calls f(cell, value) for every update that is kept, in no particular order.
template <class T, class F>
__device__ inline void for_each_cell(const Problem& p, bool by_offset, Flag* flag, F&& f) {
  if (!by_offset) return for_each_update<T>(p, flag, f);
  constexpr int kUnroll = 4;
  const int64_t total = p.item_count, step = grid_threads();
  bool bad = false;
  for (int64_t first = global_thread(); first < total; first += kUnroll * step) {
    CellBatch<T, kUnroll, int64_t> batch;
    batch.start(p, true, first, step, total, bad);
    batch.resolve(p, true, bad);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (batch.cell[u] >= 0) f(batch.cell[u], batch.value[u]);
    }
  }
  if (bad) mark_bad(flag);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_cells(const __grid_constant__ Problem p, bool by_offset, Reduce reduce,
               typename CellOf<T>::type* cells, Flag* flag) {
  using Cell = typename CellOf<T>::type;
  allow_dependents();
  const bool extreme = is_extreme(reduce);
  for_each_cell<T>(p, by_offset, flag, [&](int64_t cell, T value) {
    put(cells + cell, to_cell<T, Cell>(to_ordered(value, p.negate, reduce), reduce), extreme);
  });
}

inline constexpr int kSharedThreads = 1024;

// shared[cell][copy], flushed to the global cells at the end.
template <class T>
__global__ void __launch_bounds__(kSharedThreads)
    fill_shared(const __grid_constant__ Problem p, bool by_offset, Reduce reduce, int count,
                int copies, typename CellOf<T>::type* cells, Flag* flag) {
  using Cell = typename CellOf<T>::type;
  allow_dependents();
  extern __shared__ unsigned long long memory[];
  Cell* shared = reinterpret_cast<Cell*>(memory);
  const bool extreme = is_extreme(reduce);
  for (int i = static_cast<int>(threadIdx.x); i < count * copies; i += kSharedThreads)
    shared[i] = 0;
  __syncthreads();
  const int copy = static_cast<int>(threadIdx.x) % copies;
  for_each_cell<T>(p, by_offset, flag, [&](int64_t cell, T value) {
    put(shared + cell * copies + copy,
        to_cell<T, Cell>(to_ordered(value, p.negate, reduce), reduce), extreme);
  });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSharedThreads) {
    Cell all = 0;
    for (int c = 0; c < copies; ++c) {
      const Cell one = shared[i * copies + (c + i) % copies];
      all = extreme ? max(all, one) : all + one;
    }
    if (all != 0) put(cells + i, all, extreme);
  }
}

// How a call ends: bad keys are reported by the last block where the call has no flag of its own.
struct CellEnd {
  CallHead* head;
  Flag* flag;
  bool reports;
  KeyReporter reporter;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    finish_cells(const __grid_constant__ Problem p, bool by_offset, Reduce reduce,
                 typename CellOf<T>::type* cells, int64_t count,
                 const __grid_constant__ CellEnd end) {
  wait_for_launch_before();
  const bool bad = is_bad(end.flag);
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    const auto cell = cells[i];
    if (cell == 0) continue;  // nobody came, or nothing was added
    cells[i] = 0;
    if (bad) continue;
    T* at = reinterpret_cast<T*>(p.dst) + (by_offset ? i : offset_of_cell(p, i));
    if (is_extreme(reduce)) {
      int64_t best = from_cell<T>(cell);
      if (p.include_self) best = max(best, to_ordered(*at, false, reduce));
      *at = from_ordered<T>(best, reduce);
    } else {
      *at = from_ordered<T>(static_cast<int64_t>(cell) + to_ordered(*at, false, reduce), reduce);
    }
  }
  if (!bad || !end.reports || !is_last_block(&end.head->done)) return;
  end.reporter.report_by_block();
  __syncthreads();
  if (threadIdx.x == 0) *end.head = {};
}

// How many bytes a cell takes, or 0 where cells cannot do it: an integer sum that was never touched
// looks like a sum of zero, and the least integer of its type looks like nobody.
int cell_bytes(const Problem& p) {
  const bool extreme = p.reduce == Reduce::amax || p.reduce == Reduce::amin;
  switch (p.dtype) {
    case DType::bool_:
      return extreme || p.reduce == Reduce::add || p.reduce == Reduce::mul ? 4 : 0;
    case DType::uint8:
    case DType::int8:
    case DType::int16:
      return extreme || (p.reduce == Reduce::add && p.include_self) ? 4 : 0;
    case DType::int32:
      return (extreme || p.reduce == Reduce::add) && p.include_self ? 4 : 0;
    case DType::int64:
      return (extreme || p.reduce == Reduce::add) && p.include_self ? 8 : 0;
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
      return extreme ? 4 : 0;
    case DType::float64:
      return extreme ? 8 : 0;
    default:
      return 0;
  }
}

constexpr int64_t kMostShared = 32 << 10;  // bytes of one set of cells

bool supports(const Case& c) {
  const Problem p = in_memory_order(c.problem).p;
  return c.transfer.mask_side == MaskSide::none && !c.transfer.dst_index.empty() &&
         cell_bytes(p) != 0 && fits_problem(c.transfer, c.canonical) &&
         cell_count(p) <= (int64_t{1} << 34);
}

bool is_shared(const Problem& p) {
  return cell_count(p) * cell_bytes(p) <= kMostShared &&
         p.positions() * p.columns() >= 8 * cell_count(p);
}

double cost(const Case& c) {
  const OrderedProblem ordered = in_memory_order(c.problem);
  const Problem& p = ordered.p;
  const double elements = static_cast<double>(p.positions()) * p.columns(),
               bytes = cell_count(p) * double(cell_bytes(p));
  // 10^7 maxima of 2 * 10^7 places along an axis took 293 us (H200, 2026-11-18).
  const bool many = bytes > static_cast<double>(c.device.l2_bytes);
  const double cells = (many ? 9 : 3) * bytes / kBytesPerNs;
  if (is_shared(p)) return 2 * kLaunchNs + 6000 + elements * 0.004;
  const double share = static_cast<double>(ordered.places_at_once) / static_cast<double>(p.places);
  const double each = bytes * share <= static_cast<double>(c.device.l2_bytes) / 2 ? 0.009 : 0.02;
  return 2 * kLaunchNs + 1000 + cells + elements * each;
}

struct CellMemory {
  CallHead* head;
  char* cells;
};
CellMemory carve(Carver& carver, const Problem& p) {
  CallHead* head = carver.take<CallHead>(1);
  return {head, carver.take<char>(cell_count(p) * cell_bytes(p))};
}

void lay_out(const Case& c, Plan& plan) {
  Carver carver(nullptr);
  const Problem p = in_memory_order(c.problem).p;
  carve(carver, p);
  plan.zeroed = carver.used();
  plan.reports = c.transfer.dst_index.size() + c.transfer.src_index.size() == 1;
  if (is_shared(p)) plan.variant = "privatised in shared memory";
}

template <class T>
void run_as(const Launch& launch) {
  using Cell = typename CellOf<T>::type;
  const OrderedProblem ordered = in_memory_order(launch.problem);
  const Problem& p = ordered.p;
  Reduce reduce = p.reduce;
  if constexpr (std::is_same_v<T, Truth>) {
    reduce = reduce == Reduce::add || reduce == Reduce::amax ? Reduce::amax : Reduce::amin;
  }
  Carver carver(launch.zeroed);
  const CellMemory memory = carve(carver, p);
  Cell* cells = reinterpret_cast<Cell*>(memory.cells);
  CellEnd end = {memory.head, launch.flag, false, {}};
  if (end.flag == nullptr && launch.plan.reports && !launch.plan.held) {
    end.flag = &memory.head->flag;
    end.reports = make_reporter(launch.context, launch.transfer, end.reporter) == 1;
  }
  const int64_t count = cell_count(p), updates = p.positions() * p.columns();
  if (is_shared(p)) {
    int copies = 1;
    while (copies < 32 && 2 * copies * count * static_cast<int64_t>(sizeof(Cell)) <= kMostShared)
      copies *= 2;
    const size_t bytes = static_cast<size_t>(count) * copies * sizeof(Cell);
    const int blocks = blocks_for(updates, 8 * kSharedThreads, 2 * launch.device.processors);
    launch_with_shared<fill_shared<T>>(launch, blocks, kSharedThreads, bytes, p, ordered.by_offset,
                                       reduce, static_cast<int>(count), copies, cells, end.flag);
  } else {
    const int blocks = blocks_for(updates, 4 * kThreads, 32 * launch.device.processors);
    fill_cells<T>
        <<<blocks, kThreads, 0, launch.stream>>>(p, ordered.by_offset, reduce, cells, end.flag);
  }
  const int blocks = blocks_for(count, 4 * kThreads, 32 * launch.device.processors);
  launch_dependent<finish_cells<T>>(launch, blocks, kThreads, p, ordered.by_offset, reduce, cells,
                                    count, end);
  check_launch("cells");
}

void run(const Launch& launch) {
  with_type<Truth, uint8_t, int8_t, int16_t, int32_t, int64_t, float16, bfloat16, float, double>(
      launch.problem.dtype, [&](auto zero) { run_as<decltype(zero)>(launch); });
}

}  // namespace

const Strategy k_cells = {
    "cells",  "extremes and integer sums by atomic operations in private cells",
    supports, cost,
    lay_out,  run};

}  // namespace sow::detail::cuda
