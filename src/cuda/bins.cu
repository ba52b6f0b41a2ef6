// Exact sums and means into few places: limbs by exponent in shared memory, as many copies as fit, so
// that no limb is hot; blocks add their limbs up in global memory.
#include "core/exact_sum.h"
#include "cuda/cells.cuh"
#include "cuda/ordered_bits.cuh"
#include "cuda/strategies.h"

namespace sow::detail::cuda {

namespace {

constexpr int kBinThreads = 1024;
constexpr uint32_t kTouched = 16;  // beside the flags of SumFlags

// Limbs of a block never see more terms than fit before a carry.
template <class T>
constexpr int64_t kMostTerms = LimbFormat<T>::kAdditionsBeforeCarry;

// Sums of blocks are added without a carry, so each must stay this far below 2^63.
constexpr int64_t kCarryAbove = int64_t{1} << 50;

struct BinArgs {
  Problem p;
  int cells;
  int copies;  // of the limbs of a block; a power of two
  bool mean;
  unsigned long long* limbs;  // [limb][cell], of the grid
  uint32_t* flags;
  unsigned long long* counts;
  Flag* flag;
};

// Shared memory: limbs[limb][cell][copy], then flags[cell][copy], then counts[cell][copy].
template <class T>
__global__ void __launch_bounds__(kBinThreads) fill_bins(const __grid_constant__ BinArgs a) {
  using Format = LimbFormat<T>;
  extern __shared__ unsigned long long memory[];
  const int width = a.cells * a.copies;
  unsigned long long* limbs = memory;
  uint32_t* flags = reinterpret_cast<uint32_t*>(memory + static_cast<size_t>(Format::kDirect) * width);
  uint32_t* counts = flags + width;
  for (int i = static_cast<int>(threadIdx.x); i < Format::kDirect * width; i += kBinThreads) limbs[i] = 0;
  for (int i = static_cast<int>(threadIdx.x); i < (a.mean ? 2 : 1) * width; i += kBinThreads) flags[i] = 0;
  __syncthreads();
  const int copy = static_cast<int>(threadIdx.x) % a.copies;
  for_each_update<T>(a.p, a.flag, [&](int64_t cell, T value) {
    const Term<T> term(a.p.negate ? flip_sign(value) : value);
    const int at = static_cast<int>(cell) * a.copies + copy;
    const uint32_t seen = SumFlags::of(term, term.negative()) | kTouched;
    if ((flags[at] & seen) != seen) atomicOr(flags + at, seen);
    if (term.finite()) {
      atomicAdd(limbs + Format::limb(term) * width + at,
                static_cast<unsigned long long>(Format::amount(term, term.negative())));
    }
    if (a.mean) atomicAdd(counts + at, 1u);
  });
  __syncthreads();
  for (int cell = static_cast<int>(threadIdx.x); cell < a.cells; cell += kBinThreads) {
    uint32_t seen = 0;
    unsigned long long count = 0;
    for (int c = 0; c < a.copies; ++c) {
      seen |= flags[cell * a.copies + c];
      if (a.mean) count += counts[cell * a.copies + c];
    }
    if (seen == 0) continue;
    atomicOr(a.flags + cell, seen);
    if (a.mean) atomicAdd(a.counts + cell, count);
    int64_t carry = 0;
    for (int limb = 0; limb < Format::kCount; ++limb) {
      int64_t sum = carry;
      for (int c = 0; limb < Format::kDirect && c < a.copies; ++c) {
        sum += static_cast<int64_t>(limbs[limb * width + cell * a.copies + c]);
      }
      carry = 0;
      if (limb + 1 < Format::kCount && (sum > kCarryAbove || sum < -kCarryAbove)) {
        carry = sum >> Format::kBinades;
        sum -= carry << Format::kBinades;
      }
      if (sum != 0) atomicAdd(a.limbs + static_cast<int64_t>(limb) * a.cells + cell, static_cast<unsigned long long>(sum));
    }
  }
}

template <class T>
__global__ void finish_bins(const __grid_constant__ BinArgs a) {
  using Format = LimbFormat<T>;
  if (is_bad(a.flag)) return;
  for (int64_t cell = global_thread(); cell < a.cells; cell += grid_threads()) {
    const uint32_t seen = a.flags[cell];
    if (seen == 0) continue;
    LongAccumulator<T> sum;
    for (int limb = 0; limb < Format::kCount; ++limb) {
      sum.add_units(static_cast<int64_t>(a.limbs[static_cast<int64_t>(limb) * a.cells + cell]), limb * Format::kBinades);
    }
    sum.add_flags(SumFlags{seen & ~kTouched});
    T* at = reinterpret_cast<T*>(a.p.dst) + offset_of_cell(a.p, cell);
    if (a.p.include_self) sum.add(*at);
    if (!a.mean) {
      *at = sum.round();
      continue;
    }
    const double quotient =
        sum.to_double() / static_cast<double>(static_cast<int64_t>(a.counts[cell]) + (a.p.include_self ? 1 : 0));
    *at = quotient != quotient ? quiet_nan<T>() : static_cast<T>(quotient);
  }
}

int limb_count(DType dtype) {
  switch (dtype) {
    case DType::float16: return LimbFormat<float16>::kCount;
    case DType::bfloat16: return LimbFormat<bfloat16>::kCount;
    default: return LimbFormat<float>::kCount;
  }
}
int64_t most_terms(DType dtype) {
  switch (dtype) {
    case DType::float16: return kMostTerms<float16>;
    case DType::bfloat16: return kMostTerms<bfloat16>;
    default: return kMostTerms<float>;
  }
}

int64_t shared_bytes(const Problem& p, int64_t cells) { return cells * (8 * (limb_count(p.dtype) - 1) + 8); }

int64_t blocks_of(const Case& c) {
  const int64_t updates = c.problem.positions() * c.problem.columns();
  const int64_t needed = updates / (most_terms(c.problem.dtype) / 2) + 1;
  return std::max<int64_t>(std::min<int64_t>(c.device.processors, updates / kBinThreads + 1), needed);
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  const bool sums = p.reduce == Reduce::add || p.reduce == Reduce::mean;
  const bool narrow = p.dtype == DType::float16 || p.dtype == DType::bfloat16 || p.dtype == DType::float32;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() || !sums || !narrow) return false;
  // 2^12 blocks at most, so that what they add up stays below 2^63.
  return fits_problem(c.transfer, c.canonical) && shared_bytes(p, cell_count(p)) <= c.device.shared_bytes - 1024 &&
         blocks_of(c) <= 4096;
}

double cost(const Case& c) {
  const double updates = static_cast<double>(c.problem.positions()) * c.problem.columns();
  return 4 * kLaunchNs + kCheckedCallNs + 15000 + updates * 0.0055;
}

char* carve(Carver& carver, const Problem& p, BinArgs& a) {
  const int64_t cells = cell_count(p);
  char* start = carver.take<char>(0);
  a.limbs = carver.take<unsigned long long>(cells * limb_count(p.dtype));
  a.flags = carver.take<uint32_t>(cells);
  a.counts = carver.take<unsigned long long>(cells);
  return start;
}

size_t workspace(const Case& c) {
  Carver carver(nullptr);
  BinArgs a;
  carve(carver, c.problem, a);
  return carver.used();
}

template <class T>
void run_as(const Launch& launch, BinArgs a) {
  int64_t bytes = shared_bytes(a.p, a.cells);
  while (a.copies < 64 && 2 * bytes <= launch.device.shared_bytes - 1024) {
    a.copies *= 2;
    bytes *= 2;
  }
  check(cudaFuncSetAttribute(fill_bins<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), "bins");
  const int blocks = static_cast<int>(blocks_of(launch.problem_case));
  fill_bins<T><<<blocks, kBinThreads, static_cast<size_t>(bytes), launch.stream>>>(a);
  finish_bins<T><<<blocks_for(a.cells, kThreads), kThreads, 0, launch.stream>>>(a);
  check_launch("bins");
}

void run(const Launch& launch) {
  BinArgs a;
  a.p = launch.problem;
  a.cells = static_cast<int>(cell_count(a.p));
  a.copies = 1;
  a.mean = a.p.reduce == Reduce::mean;
  a.flag = launch.flag;
  Carver carver(launch.workspace);
  char* start = carve(carver, a.p, a);
  check(cudaMemsetAsync(start, 0, carver.used(), launch.stream), "bins");
  switch (a.p.dtype) {
    case DType::float16: return run_as<float16>(launch, a);
    case DType::bfloat16: return run_as<bfloat16>(launch, a);
    default: return run_as<float>(launch, a);
  }
}

}  // namespace

const Strategy kBins = {"bins", "exact limbs by exponent in shared memory, many copies of few places",
                        supports, cost, workspace, run};

}  // namespace sow::detail::cuda
