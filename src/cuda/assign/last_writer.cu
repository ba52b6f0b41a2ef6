// SPDX-License-Identifier: Apache-2.0
// Strategy last_writer: assignment to indexed places. The last writer of each place is found by an
// atomic maximum of positions, then the rows of last writers alone are copied.
#include "cuda/assign/last_writer.cuh"
#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

template <class U>
struct LastWriterRows {
  Problem p;
  RowSteps steps;
  const U* last;
  const Flag* flag;

  __device__ bool off() const { return is_bad(flag); }
  __device__ RowCopy operator()(int64_t row, bool&) const {
    const ContestedRow at = contested_row(p, last, row);
    if (!at.won) return {};
    const char* from = reinterpret_cast<const char*>(p.scalar);
    if (p.src != nullptr) from = p.src + (at.item.src + at.column.src) * p.width;
    return {p.dst + (at.item.dst + at.column.dst) * p.width, from, steps.dst, steps.src};
  }
};

bool needs_64_bits(const Problem& p) { return p.positions() >= UINT32_MAX; }

bool supports(const Case& c) {
  return c.transfer.mask_side == MaskSide::none && c.transfer.reduce == Reduce::assign &&
         !c.transfer.dst_index.empty() && c.problem.places <= (int64_t{1} << 36);
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double entry = needs_64_bits(p) ? 8 : 4, positions = static_cast<double>(p.positions());
  const double table = entry * static_cast<double>(p.places);
  // 2^26 random maxima over 64 MB: 2.3 ms (H200, 2026-11-15); within the L2 about a third.
  const double maxima =
      positions * (table > static_cast<double>(c.device.l2_bytes) / 2 ? 0.035 : 0.012);
  const double moved = std::max<double>(static_cast<double>(p.columns()) * p.width, 64);
  return 3 * kLaunchNs + kCheckedCallNs + table / kBytesPerNs + maxima +
         2 * positions * moved / kBytesPerNs;
}

void lay_out(const Case& c, Plan& plan) {
  plan.workspace = static_cast<size_t>(c.problem.places) * (needs_64_bits(c.problem) ? 8 : 4);
}

template <class U>
void run_as(const Launch& launch) {
  Problem p = launch.problem;
  U* last = reinterpret_cast<U*>(launch.workspace);
  launch_last_writers(p, last, launch.flag, launch.device.processors, launch.stream);
  const int width = row_access(p);
  const RowTiling tiling(p.positions() * p.free.count, p.row * p.width / width);
  launch_copies(width, LastWriterRows<U>{p, row_steps(p, width), last, launch.flag}, tiling,
                launch.stream);
}

void run(const Launch& launch) {
  if (needs_64_bits(launch.problem))
    run_as<unsigned long long>(launch);
  else
    run_as<uint32_t>(launch);
}

}  // namespace

const Strategy k_last_writer = {
    "last_writer", "the last writer of each place is found, then its row is copied",
    supports,      cost,
    lay_out,       run};

}  // namespace sow::detail::cuda
