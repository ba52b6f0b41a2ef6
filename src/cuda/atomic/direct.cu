// SPDX-License-Identifier: Apache-2.0
// Strategy direct: extremes and integer sums of single elements by atomic operations on the
// destination itself. Every key is checked first; of extremes only updates that change the
// destination are written.
#include "cuda/atomic/memory_order.h"
#include "cuda/common/dtypes.h"
#include "cuda/common/ordered_bits.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kUnroll = 4;

template <int Bytes>
using AtomicBits = std::conditional_t<Bytes == 8, unsigned long long, unsigned int>;

// Swapped in only while it changes something: those that are larger put others out of the race, so
// that even a place that all updates meet takes few exchanges.
template <class T>
__device__ inline void raise(T* at, AtomicBits<sizeof(T)> seen, T value, bool negate,
                             Reduce reduce) {
  using Bits = AtomicBits<sizeof(T)>;
  const int64_t mine = to_ordered(value, negate, reduce);
  for (;;) {
    const T largest =
        from_ordered<T>(max(mine, to_ordered(bit_cast<T>(seen), false, reduce)), reduce);
    const Bits wanted = bit_cast<Bits>(largest);
    if (wanted == seen) return;
    const Bits found = atomicCAS(reinterpret_cast<Bits*>(at), seen, wanted);
    if (found == seen) return;
    seen = found;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    update_directly(const __grid_constant__ Problem p, const Flag* flag) {
  using Bits = AtomicBits<sizeof(T)>;
  const bool off = is_bad(flag);  // in flight with the first keys
  const int64_t count = p.outer_count * p.item_count, step = grid_threads();
  T* const dst = reinterpret_cast<T*>(p.dst);
  for (int64_t first = global_thread(); first < count; first += kUnroll * step) {
    Item item[kUnroll];
    T value[kUnroll];
    Bits seen[kUnroll];
    bool bad = false;
    decode_batch(p, first, step, count, item, bad);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place < 0) continue;
      value[u] = p.src == nullptr
                     ? *reinterpret_cast<const T*>(p.scalar)
                     : bit_cast<T>(__ldcs(reinterpret_cast<const Bits*>(p.src) + item[u].src));
    }
    if (off) return;
    if (!is_extreme(p.reduce)) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (item[u].place < 0) continue;
        const Bits amount = bit_cast<Bits>(value[u]);
        atomicAdd(reinterpret_cast<Bits*>(dst + item[u].dst), p.negate ? Bits{0} - amount : amount);
      }
      continue;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place >= 0) seen[u] = __ldcg(reinterpret_cast<const Bits*>(dst + item[u].dst));
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place >= 0) raise(dst + item[u].dst, seen[u], value[u], p.negate, p.reduce);
    }
  }
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() ||
      !fits_problem(c.transfer, c.canonical))
    return false;
  if (!p.include_self || p.columns() != 1) return false;
  const bool extreme = p.reduce == Reduce::amax || p.reduce == Reduce::amin;
  if (p.dtype == DType::float32 || p.dtype == DType::float64) return extreme;
  return (p.dtype == DType::int32 || p.dtype == DType::int64) &&
         (extreme || p.reduce == Reduce::add);
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double updates = static_cast<double>(p.positions());
  const bool cached =
      static_cast<double>(p.places) * p.width <= static_cast<double>(c.device.l2_bytes) / 2;
  return 2 * kLaunchNs + kCheckedCallNs + updates * (cached ? 0.014 : 0.018);
}

template <class T>
void run_as(const Launch& launch) {
  const int blocks = blocks_for(launch.problem.positions(), kUnroll * kThreads);
  update_directly<T>
      <<<blocks, kThreads, 0, launch.stream>>>(in_memory_order(launch.problem).p, launch.flag);
}

void run(const Launch& launch) {
  // Nothing is written before every key was seen to be good.
  if (launch.flag != nullptr) mark_bad_keys(launch.context, launch.transfer, launch.flag);
  with_type<int32_t, int64_t, float, double>(launch.problem.dtype,
                                             [&](auto zero) { run_as<decltype(zero)>(launch); });
  check_launch("direct");
}

}  // namespace

const Strategy k_direct = {
    "direct", "every key looked at, then each update an atomic operation on the destination",
    supports, cost,
    nullptr,  run};

}  // namespace sow::detail::cuda
