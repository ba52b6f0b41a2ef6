// SPDX-License-Identifier: Apache-2.0
// Strategy bins: exact sums and means into few places, privatised in shared memory. Most terms lie
// in the range of one 64-bit fixed-point sum per place (two words, because shared memory adds only
// words by one instruction), in many copies, so that none is contended. Other terms are added to
// limbs by exponent. Blocks add what they have to limbs in global memory.
#include "cuda/common/ordered_bits.cuh"
#include "cuda/common/shared_memory.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/sum/fixed_point.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kBinThreads = 1024;
constexpr int kBinUnroll = 8;
constexpr int64_t kOtherShared = 2048;  // bytes of shared memory beside bins
constexpr int kMostCopies = 32, kMostLimbCopies = 8;
constexpr uint32_t kTouched = 16;  // beside the flags of SumFlags

// Limbs of a block never see more terms than fit before a carry.
template <class T>
constexpr int64_t kMostTerms = LimbFormat<T>::kAdditionsBeforeCarry;

// Sums of blocks are added without a carry, so each must stay this far below 2^63.
constexpr int64_t kCarryAbove = int64_t{1} << 50;

struct BinArgs {
  Problem p;
  int cells;
  int binades;              // of a fixed-point sum: few enough that all terms of a block fit
  int copies, limb_copies;  // of a block's fixed-point sums and limbs; powers of two
  bool mean;
  unsigned long long* limbs;  // [limb][cell], of the grid
  uint32_t* flags;
  unsigned long long* counts;
  Flag* flag;
};

// What a block keeps: limbs[limb][cell][limb copy]; fixed-point sums and, for means, counts,
// [cell][copy]; flags[cell]. A sum per thread is one number; shared ones are low words, then high
// words.
template <class T, bool Own>
struct Bins {
  using Format = LimbFormat<T>;
  unsigned long long *limbs, *sums;
  uint32_t *counts, *flags;
  int width, limb_width;

  __device__ Bins(const BinArgs& a, unsigned long long* memory)
      : limbs(memory), width(a.cells * a.copies), limb_width(a.cells * a.limb_copies) {
    sums = memory + static_cast<size_t>(Format::kDirect) * limb_width;
    counts = reinterpret_cast<uint32_t*>(sums + width);
    flags = counts + (a.mean ? width : 0);
  }
  __device__ void raise(int cell, uint32_t seen) {
    if ((flags[cell] & seen) != seen) atomicOr(flags + cell, seen);
  }
  // Who comes first to a fixed-point sum finds it empty, and says that somebody came.
  __device__ void add_fixed(int cell, int at, int64_t amount) {
    if constexpr (Own) {
      const unsigned long long before = sums[at];
      sums[at] = before + static_cast<unsigned long long>(amount);
      if (before == 0) raise(cell, SumFlags::kNotMinusZero | kTouched);
    } else {
      uint32_t* low = reinterpret_cast<uint32_t*>(sums) + at;
      const uint32_t word = static_cast<uint32_t>(amount), before = atomicAdd(low, word);
      const uint32_t rest = static_cast<uint32_t>(amount >> 32) + (before + word < before ? 1 : 0);
      if (rest != 0) atomicAdd(low + width, rest);
      if (before == 0) raise(cell, SumFlags::kNotMinusZero | kTouched);
    }
  }
  __device__ int64_t sum_at(int at) const {
    if constexpr (Own) return static_cast<int64_t>(sums[at]);
    const uint32_t* low = reinterpret_cast<const uint32_t*>(sums) + at;
    return static_cast<int64_t>(static_cast<uint64_t>(low[width]) << 32 | *low);
  }
};

// Adds up the fixed-point sums (and counts) of each cell, one warp per cell, and leaves the sums
// with the first copy.
template <class T>
__device__ void join_own_sums(const BinArgs& a, Bins<T, true>& bins) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int cell = static_cast<int>(threadIdx.x) / 32; cell < a.cells; cell += kBinThreads / 32) {
    unsigned long long sum = 0;
    uint32_t count = 0;
    for (int c = lane; c < a.copies; c += 32) {
      sum += bins.sums[cell * a.copies + c];
      if (a.mean) count += bins.counts[cell * a.copies + c];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    count = __reduce_add_sync(~0u, count);
    if (lane != 0) continue;
    bins.sums[cell * a.copies] = sum;
    if (a.mean) bins.counts[cell * a.copies] = count;
  }
  __syncthreads();
}

// Adds a block's sums of a cell to the grid's limbs.
template <class T, bool Own>
__device__ void give_limbs(const BinArgs& a, const Bins<T, Own>& bins, int cell, int base) {
  using Format = LimbFormat<T>;
  int64_t fixed = 0;
  for (int c = 0; c < (Own ? 1 : a.copies); ++c) fixed += bins.sum_at(cell * a.copies + c);
  int64_t carry = 0;
  for (int limb = 0; limb < Format::kCount; ++limb) {
    int64_t sum = carry;
    for (int c = 0; limb < Format::kDirect && c < a.limb_copies; ++c) {
      sum += static_cast<int64_t>(bins.limbs[limb * bins.limb_width + cell * a.limb_copies + c]);
    }
    // The fixed-point sum as four digits of 16 bits, the last with its sign.
    for (int digit = 0; digit < 4; ++digit) {
      const int shift = base + 16 * digit, to = min(shift / Format::kBinades, Format::kCount - 1);
      if (to != limb) continue;
      const int64_t rest = fixed >> (16 * digit);
      sum += (digit == 3 ? rest : rest & 0xffff) << (shift - to * Format::kBinades);
    }
    carry = 0;
    if (limb + 1 < Format::kCount && (sum > kCarryAbove || sum < -kCarryAbove)) {
      carry = sum >> Format::kBinades;
      sum -= carry << Format::kBinades;
    }
    if (sum != 0)
      atomicAdd(a.limbs + static_cast<int64_t>(limb) * a.cells + cell,
                static_cast<unsigned long long>(sum));
  }
}

template <class T, bool Own>
__global__ void __launch_bounds__(kBinThreads) fill_bins(const __grid_constant__ BinArgs a) {
  using Format = LimbFormat<T>;
  extern __shared__ unsigned long long memory[];
  __shared__ uint32_t counts[1 << FloatTraits<T>::kExponentBits];
  Bins<T, Own> bins(a, memory);
  const int words = static_cast<int>(bins.flags + a.cells - reinterpret_cast<uint32_t*>(memory));
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kBinThreads)
    reinterpret_cast<uint32_t*>(memory)[i] = 0;
  const int first = sample_scale<T>(a.p, a.binades, counts);
  const int copy = static_cast<int>(threadIdx.x) % a.copies,
            limb_copy = static_cast<int>(threadIdx.x) % a.limb_copies;
  const bool negate = a.p.negate, mean = a.mean;
  const int copies = a.copies, binades = a.binades;
  for_each_update<T, kBinUnroll>(a.p, a.flag, [&](int64_t place, T given) {
    const int cell = static_cast<int>(place), at = cell * copies + copy;
    const T value = negate ? flip_sign(given) : given;
    if (mean) {
      if (Own)
        ++bins.counts[at];
      else
        atomicAdd(bins.counts + at, 1u);
    }
    int64_t amount;
    if (fixed_point_amount(value, first, binades, amount)) {
      bins.add_fixed(cell, at, amount);
      return;
    }
    const Term<T> term(value);
    bins.raise(cell, SumFlags::of(term, term.negative()) | kTouched);
    if (term.finite() && term.magnitude() != 0) {
      atomicAdd(
          bins.limbs + Format::limb(term) * bins.limb_width + cell * a.limb_copies + limb_copy,
          static_cast<unsigned long long>(Format::amount(term, term.negative())));
    }
  });
  __syncthreads();
  if constexpr (Own) join_own_sums(a, bins);
  for (int cell = static_cast<int>(threadIdx.x); cell < a.cells; cell += kBinThreads) {
    if (bins.flags[cell] == 0) continue;
    atomicOr(a.flags + cell, bins.flags[cell]);
    if (a.mean) {
      unsigned long long count = 0;
      for (int c = 0; c < (Own ? 1 : a.copies); ++c) count += bins.counts[cell * a.copies + c];
      atomicAdd(a.counts + cell, count);
    }
    give_limbs(a, bins, cell, first - 1);
  }
}

template <class T>
__global__ void finish_bins(const __grid_constant__ BinArgs a) {
  using Format = LimbFormat<T>;
  if (is_bad(a.flag)) return;
  for (int64_t cell = global_thread(); cell < a.cells; cell += grid_threads()) {
    const uint32_t seen = a.flags[cell];
    if (seen == 0) continue;
    int64_t limbs[Format::kCount];  // all in flight before the first is added
#pragma unroll
    for (int limb = 0; limb < Format::kCount; ++limb)
      limbs[limb] = static_cast<int64_t>(a.limbs[int64_t{limb} * a.cells + cell]);
    LongAccumulator<T> sum;
#pragma unroll
    for (int limb = 0; limb < Format::kCount; ++limb)
      sum.add_units(limbs[limb], limb * Format::kBinades);
    sum.add_flags(SumFlags{seen & ~kTouched});
    T* at = reinterpret_cast<T*>(a.p.dst) + offset_of_cell(a.p, cell);
    if (a.p.include_self) sum.add(*at);
    if (!a.mean) {
      *at = sum.round();
      continue;
    }
    const double quotient =
        sum.to_double() /
        static_cast<double>(static_cast<int64_t>(a.counts[cell]) + (a.p.include_self ? 1 : 0));
    *at = quotient != quotient ? quiet_nan<T>() : static_cast<T>(quotient);
  }
}

// What depends on the type alone.
struct Widths {
  int limbs, digits, most_shift;
  int64_t most_terms;
};
template <class T>
constexpr Widths kWidths = {LimbFormat<T>::kCount, FloatTraits<T>::kDigits,
                            LimbFormat<T>::kMaxShift, kMostTerms<T>};

Widths widths_of(DType dtype) {
  return with_fixed_point(dtype, [](auto zero) { return kWidths<decltype(zero)>; });
}

// One copy of everything.
int64_t shared_bytes(const Problem& p, int64_t cells) {
  return cells * (8 * (widths_of(p.dtype).limbs - 1) + 16);
}

int64_t blocks_of(const Case& c) {
  const int64_t updates = c.problem.positions() * c.problem.columns();
  const int64_t needed = updates / (widths_of(c.problem.dtype).most_terms / 2) + 1;
  return std::max<int64_t>(std::min<int64_t>(c.device.processors, updates / kBinThreads + 1),
                           needed);
}

int binades_of(const Case& c) {
  const Widths widths = widths_of(c.problem.dtype);
  const int64_t updates = c.problem.positions() * c.problem.columns(),
                threads = blocks_of(c) * kBinThreads;
  const int64_t terms = (updates + threads - 1) / threads * kBinThreads;  // of a block
  return fixed_point_binades(widths.digits, widths.most_shift, terms);
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  const bool sums = p.reduce == Reduce::add || p.reduce == Reduce::mean;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() || !sums ||
      !has_fixed_point(p.dtype))
    return false;
  // 2^12 blocks at most, so that what they add up stays below 2^63.
  return fits_problem(c.transfer, c.canonical) &&
         shared_bytes(p, cell_count(p)) <= c.device.shared_bytes - kOtherShared &&
         blocks_of(c) <= 4096;
}

double cost(const Case& c) {
  const double updates = static_cast<double>(c.problem.positions()) * c.problem.columns();
  return 4 * kLaunchNs + kCheckedCallNs + 15000 + updates * 0.0037;
}

struct BinLayout {
  BinArgs args;
  int limbs;  // of a cell
  int64_t blocks;
  int64_t shared_bytes;
  bool own;  // a fixed-point sum per thread and cell
};

void carve(Carver& carver, const BinLayout& layout, BinArgs& a) {
  a.limbs = carver.take<unsigned long long>(int64_t{a.cells} * layout.limbs);
  a.flags = carver.take<uint32_t>(a.cells);
  a.counts = carver.take<unsigned long long>(a.cells);
}

void lay_out(const Case& c, Plan& plan) {
  BinLayout layout = {};
  BinArgs& a = layout.args;
  a.cells = static_cast<int>(cell_count(c.problem));
  a.binades = binades_of(c);
  a.mean = c.problem.reduce == Reduce::mean;
  layout.limbs = widths_of(c.problem.dtype).limbs;
  layout.blocks = blocks_of(c);
  const int64_t room = c.device.shared_bytes - kOtherShared;
  const auto bytes_of = [&](int64_t copies, int64_t limb_copies) {
    return a.cells * (8 * (layout.limbs - 1) * limb_copies + (a.mean ? 12 : 8) * copies + 4);
  };
  layout.own = bytes_of(kBinThreads, 1) <= room;
  a.copies = layout.own ? kBinThreads : 1;
  a.limb_copies = 1;
  while (a.copies < kMostCopies && bytes_of(2 * a.copies, 1) <= room) a.copies *= 2;
  while (a.limb_copies < kMostLimbCopies && bytes_of(a.copies, 2 * a.limb_copies) <= room)
    a.limb_copies *= 2;
  layout.shared_bytes = bytes_of(a.copies, a.limb_copies);
  Carver carver(nullptr);
  carve(carver, layout, a);
  plan.workspace = carver.used();
  plan.set_layout(layout);
}

template <class T>
void run_as(const Launch& launch, const BinLayout& layout, const BinArgs& a) {
  const auto bytes = static_cast<size_t>(layout.shared_bytes);
  if (layout.own)
    launch_with_shared<fill_bins<T, true>>(launch, layout.blocks, kBinThreads, bytes, a);
  else
    launch_with_shared<fill_bins<T, false>>(launch, layout.blocks, kBinThreads, bytes, a);
  finish_bins<T><<<blocks_for(a.cells, kThreads), kThreads, 0, launch.stream>>>(a);
  check_launch("bins");
}

void run(const Launch& launch) {
  const BinLayout& layout = launch.plan.layout_as<BinLayout>();
  BinArgs a = layout.args;
  a.p = launch.problem;
  a.flag = launch.flag;
  Carver carver(launch.workspace);
  carve(carver, layout, a);
  check(cudaMemsetAsync(launch.workspace, 0, launch.plan.workspace, launch.stream), "bins");
  with_fixed_point(a.p.dtype, [&](auto zero) { run_as<decltype(zero)>(launch, layout, a); });
}

}  // namespace

const Strategy k_bins = {
    "bins",   "exact limbs by exponent in shared memory, many copies of few places",
    supports, cost,
    lay_out,  run};

}  // namespace sow::detail::cuda
