// Strategy limbs: exact sums and means into many places, one 64-bit fixed-point sum per place in
// global memory, one atomic addition per update; a range of places at a time stays in the cache.
#include "cuda/sum/limbs.cuh"

#include <cmath>

#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

constexpr int kMostRanges = 6;
constexpr int64_t kFreeBytes = 64 << 20;  // that limbs may take for however few updates

struct CellRange {
  static constexpr bool kAll = false;
  int64_t first, count;
  __device__ bool operator()(int64_t cell) const {
    return static_cast<uint64_t>(cell - first) < static_cast<uint64_t>(count);
  }
};

template <class T, class Wants>
__global__ void __launch_bounds__(kThreads)
    fill_fixed_point(const __grid_constant__ LimbArgs a, Wants wants) {
  const int first = a.head->first, binades = a.binades;
  const bool negate = a.p.negate;
  // Once the list is full nothing here counts, but that every key is looked at.
  bool full = false;
  for_each_wanted_update<T>(a.p, a.flag, wants, [&](int64_t cell, T given) {
    if (full) return;
    const T value = negate ? flip_sign(given) : given;
    if (a.mean) atomicAdd(a.counts + cell, 1u);
    int64_t amount;
    if (fixed_point_amount(value, first, binades, amount))
      atomicAdd(a.sums + cell, static_cast<unsigned long long>(amount));
    else
      full = note_outlier(a, cell, value) == Noted::full;
  });
}

// Too many outliers: a row of limbs for every place, and all terms go there.
__global__ void __launch_bounds__(kThreads) clear_limbs(const __grid_constant__ LimbArgs a) {
  if (!is_dense(a)) return;
  for (int64_t i = global_thread(); i < a.rows * a.limbs; i += grid_threads()) a.limbs_at[i] = 0;
  for (int64_t i = global_thread(); a.mean && i < a.cells; i += grid_threads()) a.counts[i] = 0;
}

// By ranges of places, as far as blocks keep pace: limbs that are written should stay in the cache.
template <class T>
__global__ void __launch_bounds__(kThreads)
    fill_limbs(const __grid_constant__ LimbArgs a, int64_t range) {
  if (!is_dense(a)) return;
  for (int64_t first = 0; first < a.cells; first += range) {
    for_each_wanted_update<T>(a.p, a.flag, CellRange{first, range}, [&](int64_t cell, T given) {
      const T value = a.p.negate ? flip_sign(given) : given;
      const Term<T> term(value);
      if (a.mean) atomicAdd(a.counts + cell, 1u);
      if (term.magnitude() != 0 && term.finite())
        add_to_limbs(a, a.limbs_at, a.rows, cell, value);
      else
        note_outlier(a, cell, value);
    });
  }
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  const bool sums = p.reduce == Reduce::add || p.reduce == Reduce::mean;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() || !sums ||
      !has_fixed_point(p.dtype))
    return false;
  const int64_t updates = p.positions() * p.columns(), limbs = cell_count(p) * limbs_of(p) * 8;
  return fits_problem(c.transfer, c.canonical) && p.positions() < (int64_t{1} << 31) &&
         updates < (int64_t{1} << 32) && limbs <= std::max<int64_t>(24 * updates, kFreeBytes);
}

// Fixed-point sums of so many places stay in the cache while all keys pass by.
int64_t cells_a_pass(const Problem& p, const DeviceState& device) {
  const int64_t most = std::max<int64_t>(static_cast<int64_t>(device.l2_bytes) / 24, 1);
  const int64_t cells = std::max<int64_t>(cell_count(p), 1), passes = (cells + most - 1) / most;
  return (cells + passes - 1) / passes;
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double updates = static_cast<double>(p.positions()) * p.columns(),
               cells = static_cast<double>(cell_count(p));
  const double passes = cells / static_cast<double>(cells_a_pass(p, c.device));
  // Single updates of few places wait for each other: 0.031 ns each to 2^11, 0.023 to 2^13 and
  // 0.0125 to 2^20 (H200, 2026-11-16).
  const double waits = p.columns() == 1 ? 1 + 70 / std::sqrt(cells) : 1;
  const double each = std::max(0.0125 * waits, 0.003 * passes);
  return (14 + passes) * kLaunchNs + kCheckedCallNs + cells * 48 / kBytesPerNs +
         updates * each * (p.reduce == Reduce::mean ? 1.75 : 1);
}

// Returns how many bytes have to be zero at first.
size_t carve(Carver& carver, LimbArgs& a) {
  carve_flags(carver, a);
  carve_sums(carver, a);
  const size_t zero = carver.used();
  carve_lists(carver, a);
  return zero;
}

void lay_out(const Case& c, Plan& plan) {
  LimbArgs a = limb_args(c.problem);
  a.rows = std::max(a.most_listed, a.cells);
  Carver carver(nullptr);
  carve(carver, a);
  plan.workspace = carver.used();
  a.p = {};
  plan.set_layout(a);
}

template <class T>
void run_as(const Launch& launch, const LimbArgs& a) {
  const int by_update =
      blocks_for(a.p.positions() * a.p.columns(), 4 * kThreads, 32 * launch.device.processors);
  choose_scale<T><<<1, kSampleThreads, 0, launch.stream>>>(a);
  const int64_t pass = cells_a_pass(a.p, launch.device);
  if (pass >= a.cells) {
    fill_fixed_point<T><<<by_update, kThreads, 0, launch.stream>>>(a, AllCells{});
  } else {
    for (int64_t first = 0; first < a.cells; first += pass) {
      fill_fixed_point<T><<<by_update, kThreads, 0, launch.stream>>>(a, CellRange{first, pass});
    }
  }
  clear_limbs<<<4 * launch.device.processors, kThreads, 0, launch.stream>>>(a);
  const int64_t cached = static_cast<int64_t>(launch.device.l2_bytes) / 2 / (8 * a.limbs);
  fill_limbs<T>
      <<<by_update, kThreads, 0, launch.stream>>>(a, std::max(cached, a.cells / kMostRanges + 1));
  finish_sums<T>(launch, a, [&] {
    finish_cells<T><<<blocks_for(a.cells, kThreads, 32 * launch.device.processors), kThreads, 0,
                      launch.stream>>>(a);
  });
}

void run(const Launch& launch) {
  LimbArgs a = launch.plan.layout_as<LimbArgs>();
  a.p = launch.problem;
  a.flag = launch.flag;
  Carver carver(launch.workspace);
  const size_t zero = carve(carver, a);
  check(cudaMemsetAsync(launch.workspace, 0, zero, launch.stream), "limbs");
  with_fixed_point(a.p.dtype, [&](auto zero) { run_as<decltype(zero)>(launch, a); });
}

}  // namespace

const Strategy k_limbs = {
    "limbs",  "exact fixed-point sums in global memory, one atomic addition per update",
    supports, cost,
    lay_out,  run};

}  // namespace sow::detail::cuda
