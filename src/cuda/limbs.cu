// Exact sums and means into many places: limbs by exponent in global memory, one 64-bit atomic addition
// an update. The limbs' borders are laid just above the largest exponent of a sample, so that most terms
// meet in one limb, and only that one has to stay in the cache.
#include "core/exact_sum.h"
#include "cuda/cells.cuh"
#include "cuda/ordered_bits.cuh"
#include "cuda/strategies.h"

namespace sow::detail::cuda {

namespace {

// Beside the flags of SumFlags: a zero or special term came; a term that is neither came (known only
// after mark_touched).
constexpr uint32_t kTouched = 16, kMarked = 32;

struct LimbHead {
  int offset;          // a term of shift s goes to limb (s + offset) / binades
  uint32_t used;       // one bit a limb
  uint32_t ambiguous;  // some place holds zero, and only its keys can tell whether anybody came
};

struct LimbArgs {
  Problem p;
  int binades;  // of a limb: few enough that all updates fit one
  int limbs;
  int64_t cells;
  bool mean;
  LimbHead* head;
  unsigned long long* sums;  // [limb][cell]
  uint32_t* flags;
  uint32_t* counts;
  Flag* flag;
};

// Looks at a few sources, spread over all of them.
template <class T>
__global__ void __launch_bounds__(kThreads) place_limbs(const __grid_constant__ LimbArgs a) {
  __shared__ int largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  const int64_t count = a.p.outer_count * a.p.item_count;
  for (int k = 0; k < 8; ++k) {
    const int64_t position = (static_cast<int64_t>(threadIdx.x) * 8 + k) * count / (8 * kThreads);
    bool bad = false;
    const Item item = decode(a.p, position, bad);
    if (item.place < 0) continue;
    const Term<T> term(load_value<T>(a.p, item.src));
    if (term.finite()) atomicMax(&largest, term.shift());
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int above = largest + 2;  // one binade to spare
  a.head->offset = (a.binades - above % a.binades) % a.binades;
}

template <class T>
__global__ void __launch_bounds__(kThreads) fill_limbs(const __grid_constant__ LimbArgs a) {
  const int offset = a.head->offset;
  uint32_t used = 0;
  for_each_update<T>(a.p, a.flag, [&](int64_t cell, T value) {
    const Term<T> term(a.p.negate ? flip_sign(value) : value);
    if (a.mean) atomicAdd(a.counts + cell, 1u);
    if (term.magnitude() == 0 || !term.finite()) {
      const uint32_t seen = SumFlags::of(term, term.negative()) | kTouched;
      if ((a.flags[cell] & seen) != seen) atomicOr(a.flags + cell, seen);
      return;
    }
    const int shift = term.shift() + offset, limb = shift / a.binades;
    const long long amount = static_cast<long long>(term.mantissa() << (shift - limb * a.binades));
    used |= 1u << limb;
    atomicAdd(a.sums + limb * a.cells + cell, static_cast<unsigned long long>(term.negative() ? -amount : amount));
  });
  used = __reduce_or_sync(~0u, used);
  if (threadIdx.x % 32 == 0 && (a.head->used & used) != used) atomicOr(&a.head->used, used);
}

template <class T>
__device__ inline bool changes_with_zero(T old) {  // by a sum of zero that somebody came to
  const Term<T> term(old);
  return term.nan() || (term.magnitude() == 0 && term.negative());
}

// Whether limbs that add up to zero leave it open who came: terms that cancel, only -0, or nobody.
__device__ inline bool is_open(uint32_t seen) { return (seen & ~(kTouched | kMarked)) == 0; }

// First every place that its limbs or flags decide; then, where there are others, those.
template <class T, bool Second>
__global__ void __launch_bounds__(kThreads) finish_limbs(const __grid_constant__ LimbArgs a) {
  if (is_bad(a.flag) || (Second && a.head->ambiguous == 0)) return;
  const uint32_t used = a.head->used;
  const int offset = a.head->offset;
  for (int64_t cell = global_thread(); cell < a.cells; cell += grid_threads()) {
    uint32_t seen = a.flags[cell];
    LongAccumulator<T> sum;
    bool zero = true;
    for (uint32_t rest = used; rest != 0; rest &= rest - 1) {
      const int limb = __ffs(static_cast<int>(rest)) - 1;
      const int64_t amount = static_cast<int64_t>(a.sums[limb * a.cells + cell]);
      if (amount == 0) continue;
      zero = false;
      const int shift = limb * a.binades - offset;
      // Below the smallest subnormal a limb holds nothing but zeros.
      sum.add_units(shift < 0 ? amount / (int64_t{1} << -shift) : amount, shift < 0 ? 0 : shift);
    }
    const bool open = zero && is_open(seen);
    if (Second && !open) continue;
    const int64_t count = a.mean ? static_cast<int64_t>(a.counts[cell]) : 0;
    T* at = reinterpret_cast<T*>(a.p.dst) + offset_of_cell(a.p, cell);
    if (open && !Second) {
      if (a.mean ? count != 0 : !a.p.include_self || changes_with_zero(*at)) a.head->ambiguous = 1;
      continue;
    }
    if (open && (seen & (kTouched | kMarked)) == 0) continue;  // nobody came
    if (!zero || (seen & kMarked) != 0) seen |= SumFlags::kNotMinusZero;
    sum.add_flags(SumFlags{seen & ~(kTouched | kMarked)});
    if (a.p.include_self) sum.add(*at);
    if (!a.mean) {
      *at = sum.round();
      continue;
    }
    const double quotient = sum.to_double() / static_cast<double>(count + (a.p.include_self ? 1 : 0));
    *at = quotient != quotient ? quiet_nan<T>() : static_cast<T>(quotient);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) mark_touched(const __grid_constant__ LimbArgs a) {
  if (a.head->ambiguous == 0 || is_bad(a.flag)) return;
  for_each_update<T>(a.p, a.flag, [&](int64_t cell, T value) {
    const uint32_t seen = a.flags[cell];
    if (!is_open(seen) || (seen & kMarked) != 0) return;
    if (Term<T>(value).magnitude() != 0) atomicOr(a.flags + cell, kMarked);
  });
}

struct Format {
  int digits, most_shift;
};
Format format_of(DType dtype) {
  switch (dtype) {
    case DType::float16: return {FloatTraits<float16>::kDigits, LimbFormat<float16>::kMaxShift};
    case DType::bfloat16: return {FloatTraits<bfloat16>::kDigits, LimbFormat<bfloat16>::kMaxShift};
    default: return {FloatTraits<float>::kDigits, LimbFormat<float>::kMaxShift};
  }
}

int binades_of(const Problem& p) {
  int bits = 0;
  while (bits < 40 && (int64_t{1} << bits) < p.positions()) ++bits;
  return std::min(63 - format_of(p.dtype).digits - bits, format_of(p.dtype).most_shift + 1);
}
int limbs_of(const Problem& p) { return (format_of(p.dtype).most_shift + binades_of(p) - 1) / binades_of(p) + 1; }

bool supports(const Case& c) {
  const Problem& p = c.problem;
  const bool sums = p.reduce == Reduce::add || p.reduce == Reduce::mean;
  const bool narrow = p.dtype == DType::float16 || p.dtype == DType::bfloat16 || p.dtype == DType::float32;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() || !sums || !narrow) return false;
  return fits_problem(c.transfer, c.canonical) && p.positions() < (int64_t{1} << 31) && limbs_of(p) <= 32 &&
         cell_count(p) <= (int64_t{1} << 27);
}

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double updates = static_cast<double>(p.positions()) * p.columns(), cells = static_cast<double>(cell_count(p));
  const double each = 8 * cells <= 0.75 * static_cast<double>(c.device.l2_bytes) ? 0.0115 : 0.03;
  return 6 * kLaunchNs + kCheckedCallNs + cells * (8.0 * limbs_of(p) + 48) / kBytesPerNs + updates * each * (p.reduce == Reduce::mean ? 2 : 1);
}

size_t carve(Carver& carver, LimbArgs& a) {
  a.head = carver.take<LimbHead>(1);
  a.flags = carver.take<uint32_t>(a.cells);
  a.counts = carver.take<uint32_t>(a.mean ? a.cells : 0);
  a.sums = carver.take<unsigned long long>(a.cells * a.limbs);
  return carver.used();
}

LimbArgs args_of(const Problem& p) {
  LimbArgs a = {};
  a.p = p;
  a.binades = binades_of(p);
  a.limbs = limbs_of(p);
  a.cells = cell_count(p);
  a.mean = p.reduce == Reduce::mean;
  return a;
}

size_t workspace(const Case& c) {
  Carver carver(nullptr);
  LimbArgs a = args_of(c.problem);
  return carve(carver, a);
}

template <class T>
void run_as(const Launch& launch, const LimbArgs& a) {
  const int most = 32 * launch.device.processors;
  const int by_update = blocks_for(a.p.positions() * a.p.columns(), 4 * kThreads, most);
  const int by_cell = blocks_for(a.cells, kThreads, most);
  place_limbs<T><<<1, kThreads, 0, launch.stream>>>(a);
  fill_limbs<T><<<by_update, kThreads, 0, launch.stream>>>(a);
  finish_limbs<T, false><<<by_cell, kThreads, 0, launch.stream>>>(a);
  mark_touched<T><<<by_update, kThreads, 0, launch.stream>>>(a);
  finish_limbs<T, true><<<by_cell, kThreads, 0, launch.stream>>>(a);
  check_launch("limbs");
}

void run(const Launch& launch) {
  LimbArgs a = args_of(launch.problem);
  a.flag = launch.flag;
  Carver carver(launch.workspace);
  const size_t bytes = carve(carver, a);
  check(cudaMemsetAsync(launch.workspace, 0, bytes, launch.stream), "limbs");
  switch (a.p.dtype) {
    case DType::float16: return run_as<float16>(launch, a);
    case DType::bfloat16: return run_as<bfloat16>(launch, a);
    default: return run_as<float>(launch, a);
  }
}

}  // namespace

const Strategy kLimbs = {"limbs", "exact limbs by exponent in global memory, one atomic addition an update",
                         supports, cost, workspace, run};

}  // namespace sow::detail::cuda
