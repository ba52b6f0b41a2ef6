// Assign to indexed places: the largest position wins each place, then winners alone are moved.
#include "cuda/row_mover.cuh"
#include "cuda/strategies.h"

namespace sow::detail::cuda {

namespace {

__device__ void raise_to(uint32_t* winner, int64_t value) { atomicMax(winner, static_cast<uint32_t>(value)); }
__device__ void raise_to(unsigned long long* winner, int64_t value) {
  atomicMax(winner, static_cast<unsigned long long>(value));
}

// winners[place] becomes 1 + the last position that writes there; 0: nobody.
template <class U>
__global__ void find_winners(const __grid_constant__ Problem p, U* winners, Flag* flag) {
  const int64_t count = p.outer_count * p.item_count;
  const bool simple = is_simple(p);
  bool bad = false;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    int64_t src;
    const int64_t place = place_of(p, simple, i, src, bad);
    if (place >= 0) raise_to(winners + place, i + 1);
  }
  if (bad) mark_bad(flag);
}

template <class U>
struct WinnerRows {
  Problem p;
  RowSteps steps;
  const U* winners;
  const Flag* flag;

  __device__ bool off() const { return is_bad(flag); }
  __device__ RowMove operator()(int64_t row, bool&) const {
    int64_t position = row, free = 0;
    if (p.free.rank != 0) {
      const int64_t positions = p.outer_count * p.item_count;
      free = row / positions;
      position = row - free * positions;
    }
    bool bad = false;
    const Item item = decode(p, position, bad);
    if (item.place < 0 || winners[item.place] != static_cast<U>(position + 1)) return {};
    const Column column = free_at(p, free);
    const char* from = reinterpret_cast<const char*>(p.scalar);
    if (p.src != nullptr) from = p.src + (item.src + column.src) * p.width;
    return {p.dst + (item.dst + column.dst) * p.width, from, steps.dst, steps.src};
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
  const double maxima = positions * (table > static_cast<double>(c.device.l2_bytes) / 2 ? 0.035 : 0.012);
  const double moved = std::max<double>(static_cast<double>(p.columns()) * p.width, 64);
  return 3 * kLaunchNs + kCheckedCallNs + table / kBytesPerNs + maxima + 2 * positions * moved / kBytesPerNs;
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
  check(cudaMemsetAsync(winners, 0, static_cast<size_t>(p.places) * sizeof(U), launch.stream), "winner");
  const int blocks = blocks_for(p.positions(), kThreads, 32 * launch.device.processors);
  find_winners<U><<<blocks, kThreads, 0, launch.stream>>>(p, winners, launch.flag);
  const int width = row_access(p);
  const RowTiling tiling(p.positions() * p.free.count, p.row * p.width / width);
  launch_moves(width, WinnerRows<U>{p, row_steps(p, width), winners, launch.flag}, tiling, launch.stream);
}

void run(const Launch& launch) {
  if (is_wide(launch.problem)) run_as<unsigned long long>(launch);
  else run_as<uint32_t>(launch);
}

}  // namespace

const Strategy kWinner = {"winner", "the largest position wins each place, then winners are moved",
                          supports, cost, workspace, run};

}  // namespace sow::detail::cuda
