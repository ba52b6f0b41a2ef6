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

// Single elements by one key each: all keys of a batch are in flight, then all elements.
template <int W>
__global__ void __launch_bounds__(kThreads)
    gather_elements(const __grid_constant__ CopyRows rows, int64_t count) {
  using Unit = WordOf<W>;
  constexpr int kUnroll = 4;
  const Problem& p = rows.p;
  const KeyOperand& operand = p.keys[0];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kUnroll * kThreads + threadIdx.x;
  int64_t at[kUnroll][3], key[kUnroll];
  Unit value[kUnroll];
  bool bad = false;
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    at[u][0] = at[u][1] = at[u][2] = 0;
    walk_to(p.walk, min(first + u * kThreads, count - 1), 3, at[u]);
    key[u] = operand.is_int32
                 ? static_cast<int64_t>(
                       __ldcs(reinterpret_cast<const int32_t*>(operand.data) + at[u][2]))
                 : static_cast<int64_t>(
                       __ldcs(reinterpret_cast<const long long*>(operand.data) + at[u][2]));
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    value[u] = Unit{};
    if (resolve(key[u], operand.extent, p.bounds, bad))
      value[u] = reinterpret_cast<const Unit*>(p.src)[at[u][1] + key[u] * operand.scale];
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kThreads < count) reinterpret_cast<Unit*>(p.dst)[at[u][0]] = value[u];
  }
  rows.told(bad);
}

bool gathers_elements(const Problem& p) {
  return p.src != nullptr && !p.materialised && p.dst_keys == 0 && p.src_keys == 1 &&
         p.item_count == 1 && p.columns() == 1;
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
  if (gathers_elements(p)) {
    const int64_t count = p.outer_count;
    with_width(p.width, [&](auto w) {
      gather_elements<decltype(w)::value>
          <<<blocks_for(count, 4 * kThreads), kThreads, 0, launch.stream>>>(rows, count);
    });
    return check_launch("gather");
  }
  launch_copies(width, rows, tiling_of(p, width), launch.stream);
}

}  // namespace

const Strategy k_copy = {
    "copy", "strided copy, fill or gather, up to 16 bytes at a time", supports, cost, lay_out, run};

}  // namespace sow::detail::cuda
