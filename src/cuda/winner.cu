// Assign to indexed places: the largest position wins each place, then winners alone are moved.
#include "cuda/strategies.h"
#include "cuda/winner.cuh"

namespace sow::detail::cuda {

namespace {

template <class U>
struct WinnerRows {
  Problem p;
  RowSteps steps;
  const U* winners;
  const Flag* flag;

  __device__ bool off() const { return is_bad(flag); }
  __device__ RowMove operator()(int64_t row, bool&) const {
    const ContestedRow at = contested_row(p, winners, row);
    if (!at.won) return {};
    const char* from = reinterpret_cast<const char*>(p.scalar);
    if (p.src != nullptr) from = p.src + (at.item.src + at.column.src) * p.width;
    return {p.dst + (at.item.dst + at.column.dst) * p.width, from, steps.dst, steps.src};
  }
};

bool is_wide(const Problem& p) { return p.positions() >= UINT32_MAX; }

bool supports(const Case& c) {
  return c.transfer.mask_side == MaskSide::none && c.transfer.reduce == Reduce::assign &&
         !c.transfer.dst_index.empty() && c.problem.places <= (int64_t{1} << 36);
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double entry = is_wide(p) ? 8 : 4, positions = static_cast<double>(p.positions());
  const double table = entry * static_cast<double>(p.places);
  // 2^26 random maxima over 64 MB: 2.3 ms (H200, 2026-11-15); within the L2 about a third.
  const double maxima =
      positions * (table > static_cast<double>(c.device.l2_bytes) / 2 ? 0.035 : 0.012);
  const double moved = std::max<double>(static_cast<double>(p.columns()) * p.width, 64);
  return 3 * kLaunchNs + kCheckedCallNs + table / kBytesPerNs + maxima +
         2 * positions * moved / kBytesPerNs;
}

size_t workspace(const Case& c) {
  Carver carver(nullptr);
  carver.take<char>(c.problem.places * (is_wide(c.problem) ? 8 : 4));
  return carver.used();
}

template <class U>
void run_as(const Launch& launch) {
  Problem p = launch.problem;
  U* winners = reinterpret_cast<U*>(launch.workspace);
  launch_winners(p, winners, launch.flag, launch.device.processors, launch.stream);
  const int width = row_access(p);
  const RowTiling tiling(p.positions() * p.free.count, p.row * p.width / width);
  launch_moves(width, WinnerRows<U>{p, row_steps(p, width), winners, launch.flag}, tiling,
               launch.stream);
}

void run(const Launch& launch) {
  if (is_wide(launch.problem))
    run_as<unsigned long long>(launch);
  else
    run_as<uint32_t>(launch);
}

}  // namespace

const Strategy kWinner = {"winner",  "the largest position wins each place, then winners are moved",
                          supports,  cost,
                          workspace, run};

}  // namespace sow::detail::cuda
