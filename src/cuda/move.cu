// Moves without an indexed destination: strided copies, fills and gathers.
#include <cstring>

#include "cuda/decode.cuh"
#include "cuda/strategy.h"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kUnroll = 4;

// A unit is one access of W bytes: outer position x column of its row.
template <int W>
__global__ void __launch_bounds__(kThreads) move_rows(const __grid_constant__ Problem p, int64_t columns,
                                                      FastDivider divider, bool narrow, Flag* flag) {
  using Unit = WordOf<W>;
  const int64_t total = p.outer_count * columns;
  const int64_t step_dst = W == p.width ? p.row_dst * p.width : W;
  const int64_t step_src = W == p.width ? p.row_src * p.width : W;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x;
  Unit value[kUnroll];
  char* to[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const int64_t unit = first + u * kThreads;
    to[u] = nullptr;
    if (unit >= total) continue;
    int64_t outer = 0, column = unit;
    if (p.outer_count != 1) {
      outer = narrow ? divider.quotient(static_cast<uint32_t>(unit)) : unit / columns;
      column = unit - outer * columns;
    }
    // Items that meet in one place: the last one wins.
    bool bad = false;
    const Item item = decode(p, outer * p.item_count + p.item_count - 1, bad);
    if (bad) mark_bad(flag);
    to[u] = p.dst + item.dst * p.width + column * step_dst;
    if (item.place < 0) {
      value[u] = Unit{};
    } else if (p.src == nullptr) {
      value[u] = *reinterpret_cast<const Unit*>(p.scalar);
    } else {
      value[u] = *reinterpret_cast<const Unit*>(p.src + item.src * p.width + column * step_src);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (to[u] != nullptr) *reinterpret_cast<Unit*>(to[u]) = value[u];
  }
}

bool supports(const Case& c) {
  return c.transfer.mask_side == MaskSide::none && c.transfer.reduce == Reduce::assign &&
         c.transfer.dst_index.empty();
}

double cost(const Case& c) {
  return kLaunchNs + 2.0 * c.problem.outer_count * c.problem.row * c.problem.width / kBytesPerNs;
}

size_t workspace(const Case&) { return 0; }

void run(const Launch& launch) {
  Problem p = launch.problem;
  int width = p.src == nullptr ? row_alignment_dst(p) : row_alignment(p);
  width = std::max(width, p.width);
  for (int at = p.width; at < 16; at += p.width) std::memcpy(p.scalar + at, p.scalar, p.width);
  const int64_t columns = p.row * p.width / width;
  const int64_t total = p.outer_count * columns;
  FastDivider divider;
  const bool narrow = total <= INT32_MAX;
  if (narrow) divider.set(static_cast<uint32_t>(columns));
  // Keys of items that are never read are checked all the same.
  if (launch.flag != nullptr && p.item_count > 1) {
    report_bad_keys(launch.context, launch.problem_case.transfer, launch.flag, true);
  }
  constexpr int64_t kEach = kThreads * kUnroll;
  with_width(width, [&](auto w) {
    move_rows<decltype(w)::value>
        <<<blocks_for(total, kEach), kThreads, 0, launch.stream>>>(p, columns, divider, narrow, launch.flag);
  });
  check_launch("move");
}

}  // namespace

const Strategy kMove = {"move", "strided copy, fill or gather, 16 bytes at a time", supports, cost, workspace, run};

}  // namespace sow::detail::cuda
