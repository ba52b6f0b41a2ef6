// Assign to indexed places: the largest position wins each place, then winners alone are moved.
#include <cstring>

#include "cuda/decode.cuh"
#include "cuda/strategy.h"
#include "cuda/vector.cuh"

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
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    bool bad = false;
    const Item item = decode(p, i, bad);
    if (bad) mark_bad(flag);
    if (item.place >= 0) raise_to(winners + item.place, i + 1);
  }
}

template <int W, class U>
__global__ void move_winners(const __grid_constant__ Problem p, const U* winners, int64_t columns,
                             FastDivider divider, bool narrow, const Flag* flag) {
  using Unit = WordOf<W>;
  if (is_bad(flag)) return;
  const int64_t total = p.outer_count * p.item_count * columns;
  const int64_t step_dst = W == p.width ? p.row_dst * p.width : W;
  const int64_t step_src = W == p.width ? p.row_src * p.width : W;
  for (int64_t unit = global_thread(); unit < total; unit += grid_threads()) {
    int64_t position = unit, column = 0;
    if (columns != 1) {
      position = narrow ? divider.quotient(static_cast<uint32_t>(unit)) : unit / columns;
      column = unit - position * columns;
    }
    bool bad = false;
    const Item item = decode(p, position, bad);
    if (item.place < 0 || winners[item.place] != static_cast<U>(position + 1)) continue;
    const Unit value = p.src == nullptr
                           ? *reinterpret_cast<const Unit*>(p.scalar)
                           : *reinterpret_cast<const Unit*>(p.src + item.src * p.width + column * step_src);
    *reinterpret_cast<Unit*>(p.dst + item.dst * p.width + column * step_dst) = value;
  }
}

bool is_wide(const Problem& p) { return p.positions() >= UINT32_MAX; }

bool supports(const Case& c) {
  return c.transfer.mask_side == MaskSide::none && c.transfer.reduce == Reduce::assign &&
         !c.transfer.dst_index.empty() && c.problem.places <= (int64_t{1} << 36);
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double entry = is_wide(p) ? 8 : 4;
  return 3 * kLaunchNs + entry * p.places / kBytesPerNs + p.positions() * 64.0 / kBytesPerNs +
         2.0 * p.positions() * p.row * p.width / kBytesPerNs;
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
  const int most = 16 * launch.device.processors;
  check(cudaMemsetAsync(winners, 0, static_cast<size_t>(p.places) * sizeof(U), launch.stream), "winner");
  find_winners<U><<<blocks_for(p.positions(), kThreads, most), kThreads, 0, launch.stream>>>(p, winners, launch.flag);
  int width = p.src == nullptr ? row_alignment_dst(p) : row_alignment(p);
  width = std::max(width, p.width);
  for (int at = p.width; at < 16; at += p.width) std::memcpy(p.scalar + at, p.scalar, p.width);
  const int64_t columns = p.row * p.width / width;
  const int64_t total = p.positions() * columns;
  FastDivider divider;
  const bool narrow = total <= INT32_MAX;
  if (narrow) divider.set(static_cast<uint32_t>(columns));
  with_width(width, [&](auto w) {
    move_winners<decltype(w)::value, U><<<blocks_for(total, kThreads, most), kThreads, 0, launch.stream>>>(
        p, winners, columns, divider, narrow, launch.flag);
  });
  check_launch("winner");
}

void run(const Launch& launch) {
  if (is_wide(launch.problem)) run_as<unsigned long long>(launch);
  else run_as<uint32_t>(launch);
}

}  // namespace

const Strategy kWinner = {"winner", "the largest position wins each place, then winners are moved",
                          supports, cost, workspace, run};

}  // namespace sow::detail::cuda
