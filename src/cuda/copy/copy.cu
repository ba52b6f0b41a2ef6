// SPDX-License-Identifier: Apache-2.0
// Strategy copy: assignment to places that are not indexed, as strided copies, fills and gathers of
// rows.
#include "cuda/copy/row_copy.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

struct CopyRows {
  Problem p;
  RowSteps steps;
  Flag* flag;
  bool reports_itself;  // a block that meets a bad key finds the first one itself: nobody else need
                        // know
  KeyReporter reporter;

  __device__ bool off() const { return false; }
  __device__ void told(bool bad) const {
    if (!reports_itself) {
      if (bad) mark_bad(flag);
    } else if (__syncthreads_or(bad)) {
      reporter.report_by_block();
    }
  }
  // Free dimensions outermost: items of one gather lie side by side in the result.
  __device__ RowCopy operator()(int64_t row, bool& bad) const {
    int64_t outer = row, free = 0;
    if (p.outer_count == 1) {
      outer = 0;
      free = row;
    } else if (p.free.rank != 0) {
      free = row / p.outer_count;
      outer = row - free * p.outer_count;
    }
    // Items that meet in one place: the last one wins.
    const Item item = decode(p, outer * p.item_count + p.item_count - 1, bad);
    const Column column = free_at(p, free);
    const char* from = reinterpret_cast<const char*>(p.scalar);
    if (item.place < 0)
      from = nullptr;
    else if (p.src != nullptr)
      from = p.src + (item.src + column.src) * p.width;
    return {p.dst + (item.dst + column.dst) * p.width, from, steps.dst, steps.src};
  }
};

__device__ inline int64_t next_key(const KeyOperand& operand, int64_t at) {
  if (operand.is_int32) return __ldcs(reinterpret_cast<const int32_t*>(operand.data) + at);
  return __ldcs(reinterpret_cast<const long long*>(operand.data) + at);
}

// Narrow rows by one key each, an access a thread: all keys of a batch are in flight, then all
// accesses. `columns`: accesses of a row.
template <int W>
__global__ void __launch_bounds__(kThreads)
    gather_narrow(const __grid_constant__ CopyRows rows, int64_t count, int columns,
                  const __grid_constant__ FastDivider divider) {
  using Unit = WordOf<W>;
  constexpr int kUnroll = 4;
  const Problem& p = rows.p;
  const KeyOperand& operand = p.keys[0];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kUnroll * kThreads + threadIdx.x;
  int64_t at[kUnroll][3], key[kUnroll];
  int column[kUnroll];
  Unit value[kUnroll];
  bool bad = false;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    int64_t row = min(first + u * kThreads, count - 1);
    column[u] = 0;
    if (columns > 1) {
      const int64_t unit = row;
      row = divider.quotient(static_cast<uint32_t>(unit));
      column[u] = static_cast<int>(unit - row * columns);
    }
    at[u][0] = at[u][1] = at[u][2] = 0;
    walk_to(p.walk, row, 3, at[u]);
    key[u] = next_key(operand, at[u][2]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    value[u] = Unit{};
    if (resolve(key[u], operand.extent, p.bounds, bad))
      value[u] = *reinterpret_cast<const Unit*>(
          p.src + (at[u][1] + key[u] * operand.scale) * p.width + column[u] * rows.steps.src);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kThreads < count)
      *reinterpret_cast<Unit*>(p.dst + at[u][0] * p.width + column[u] * rows.steps.dst) = value[u];
  }
  rows.told(bad);
}

// Single elements whose keys and results lie side by side, by fours: a key more costs no address.
constexpr int kGatherPack = 4;
template <int W>
__global__ void __launch_bounds__(kThreads)
    gather_packs(const __grid_constant__ CopyRows rows, int64_t packs) {
  using Unit = WordOf<W>;
  constexpr int kUnroll = 2;
  const Problem& p = rows.p;
  const KeyOperand& operand = p.keys[0];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kUnroll * kThreads + threadIdx.x;
  const int64_t step = p.walk.axis[p.walk.rank - 1].stride[1];
  int64_t at[kUnroll][3], key[kUnroll][kGatherPack];
  Pack<Unit, kGatherPack> value[kUnroll];
  bool bad = false;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    at[u][0] = at[u][1] = at[u][2] = 0;
    walk_to(p.walk, min(first + u * kThreads, packs - 1) * kGatherPack, 3, at[u]);
    if (operand.is_int32) {
      const int4 four = __ldcs(reinterpret_cast<const int4*>(operand.data + at[u][2] * 4));
      key[u][0] = four.x;
      key[u][1] = four.y;
      key[u][2] = four.z;
      key[u][3] = four.w;
    } else {
      const auto* pairs = reinterpret_cast<const longlong2*>(operand.data + at[u][2] * 8);
      const longlong2 low = __ldcs(pairs), high = __ldcs(pairs + 1);
      key[u][0] = low.x;
      key[u][1] = low.y;
      key[u][2] = high.x;
      key[u][3] = high.y;
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
    for (int k = 0; k < kGatherPack; ++k) {
      value[u].at[k] = Unit{};
      if (resolve(key[u][k], operand.extent, p.bounds, bad))
        value[u].at[k] =
            reinterpret_cast<const Unit*>(p.src)[at[u][1] + k * step + key[u][k] * operand.scale];
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kThreads < packs)
      *reinterpret_cast<Pack<Unit, kGatherPack>*>(reinterpret_cast<Unit*>(p.dst) + at[u][0]) =
          value[u];
  }
  rows.told(bad);
}

bool gathers_narrow(const Problem& p, int64_t columns) {
  constexpr int64_t kNarrowBytes = 32;
  return p.src != nullptr && !p.materialised && p.dst_keys == 0 && p.src_keys == 1 &&
         p.item_count == 1 && p.free.count == 1 &&
         (columns == 1 ||
          (p.row * p.width <= kNarrowBytes && p.outer_count * columns <= INT32_MAX));
}

// Whether every four results and keys are one run of memory.
bool gathers_packs(const Problem& p) {
  if (p.columns() != 1 || p.walk.rank == 0 || p.width > 8) return false;
  const WalkAxis& last = p.walk.axis[p.walk.rank - 1];
  if (last.stride[0] != 1 || last.stride[2] != 1 || last.size % kGatherPack != 0) return false;
  for (int i = 0; i + 1 < p.walk.rank; ++i) {
    if (p.walk.axis[i].stride[0] % kGatherPack != 0 || p.walk.axis[i].stride[2] % kGatherPack != 0)
      return false;
  }
  return reinterpret_cast<uintptr_t>(p.dst) % static_cast<uintptr_t>(kGatherPack * p.width) == 0 &&
         reinterpret_cast<uintptr_t>(p.keys[0].data) % 16 == 0;
}

bool supports(const Case& c) {
  return c.transfer.mask_side == MaskSide::none && c.transfer.reduce == Reduce::assign &&
         c.transfer.dst_index.empty();
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  return kLaunchNs + 2.0 * p.outer_count * p.columns() * p.width / kBytesPerNs;
}

RowTiling tiling_of(const Problem& p, int width) {
  return RowTiling(p.outer_count * p.free.count, p.row * p.width / width);
}

void lay_out(const Case& c, Plan& plan) {
  plan.reports =
      c.problem.item_count == 1 && c.transfer.src_index.size() == 1 && !c.problem.materialised;
}

// One run of memory to another, long enough that the driver's copy is quicker: 4 GiB take 2.01 ms,
// and 2.06 by rows (H200, 2026-11-15).
bool is_one_run(const Problem& p) {
  constexpr int64_t kLeastBytes = 8 << 20;
  return p.src != nullptr && p.dst_keys + p.src_keys == 0 && p.positions() == 1 &&
         p.free.count == 1 && p.row_dst == 1 && p.row_src == 1 && p.row * p.width >= kLeastBytes;
}

void run(const Launch& launch) {
  Problem p = launch.problem;
  if (is_one_run(p)) {
    const auto bytes = static_cast<size_t>(p.row * p.width);
    return check(cudaMemcpyAsync(p.dst, p.src, bytes, cudaMemcpyDeviceToDevice, launch.stream),
                 "copy");
  }
  const int width = row_access(p);
  // Keys of items that are never read are checked all the same.
  if (launch.flag != nullptr && p.item_count > 1) {
    report_bad_keys(launch.context, launch.transfer, launch.flag, true);
  }
  CopyRows rows = {p, row_steps(p, width), launch.flag, false, {}};
  if (launch.flag == nullptr && launch.plan.reports) {
    rows.reports_itself = make_reporter(launch.context, launch.transfer, rows.reporter) == 1;
  }
  const int64_t columns = p.row * p.width / width, count = p.outer_count * columns;
  if (!gathers_narrow(p, columns))
    return launch_copies(width, rows, tiling_of(p, width), launch.stream);
  if (gathers_packs(p)) {
    const int64_t packs = count / kGatherPack;
    with_width(p.width, [&](auto w) {
      if constexpr (decltype(w)::value <= 8)
        gather_packs<decltype(w)::value>
            <<<blocks_for(packs, 2 * kThreads), kThreads, 0, launch.stream>>>(rows, packs);
    });
    return check_launch("gather");
  }
  FastDivider divider;
  if (columns > 1) divider.set(static_cast<uint32_t>(columns));
  with_width(width, [&](auto w) {
    gather_narrow<decltype(w)::value>
        <<<blocks_for(count, 4 * kThreads), kThreads, 0, launch.stream>>>(
            rows, count, static_cast<int>(columns), divider);
  });
  check_launch("gather");
}

}  // namespace

const Strategy k_copy = {
    "copy", "strided copy, fill or gather, up to 16 bytes at a time", supports, cost, lay_out, run};

}  // namespace sow::detail::cuda
