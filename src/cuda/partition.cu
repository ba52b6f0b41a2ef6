// Exact sums of single elements into many places: updates are dealt out to buckets of neighbouring
// places, and a block sums a bucket in windows in shared memory and writes its places.
#include "cuda/partition.cuh"

#include "cuda/strategies.h"

namespace sow::detail::cuda {

namespace {

// What is dealt: values by their bits. Those outside the window are counted on the way, so that it
// is known before anything is written whether they can be listed.
template <class T, class Key>
struct Updates : KeyRun<Key> {
  const char* values;  // null: all are `scalar`
  int64_t step;        // bytes
  uint32_t scalar, sign;
  LimbArgs limbs;

  explicit Updates(const LimbArgs& a)
      : KeyRun<Key>(a.p),
        values(a.p.src),
        step(a.p.walk.axis[0].stride[1] * static_cast<int64_t>(sizeof(T))),
        scalar(0),
        sign(a.p.negate ? static_cast<uint32_t>(FloatTraits<T>::kSign) : 0),
        limbs(a) {
    __builtin_memcpy(&scalar, a.p.scalar, sizeof(T));
  }

  __device__ void payloads(int64_t first, int64_t count, const Key (&)[kDealEach],
                           uint32_t (&out)[kDealEach]) const {
    using Word = WordOf<static_cast<int>(sizeof(T))>;
    const char* from = values + first * step;
    const int64_t apart = kDealThreads * step;
    if (values == nullptr) {
#pragma unroll
      for (int u = 0; u < kDealEach; ++u) out[u] = scalar;
    } else if (first - threadIdx.x + kDealTile <= count) {
#pragma unroll
      for (int u = 0; u < kDealEach; ++u)
        out[u] = __ldcs(reinterpret_cast<const Word*>(from + u * apart));
    } else {
#pragma unroll
      for (int u = 0; u < kDealEach; ++u) {
        out[u] =
            first + u * kDealThreads < count ? *reinterpret_cast<const Word*>(from + u * apart) : 0;
      }
    }
    if (sign == 0) return;
#pragma unroll
    for (int u = 0; u < kDealEach; ++u) out[u] ^= sign;
  }

  struct Tally {
    const LimbArgs& a;
    uint32_t first, outside = 0;
    __device__ explicit Tally(const Updates& updates)
        : a(updates.limbs), first(static_cast<uint32_t>(a.head->first)) {}
    __device__ void see(uint32_t bits) {
      using Traits = FloatTraits<T>;
      constexpr uint32_t kFields = (1u << Traits::kExponentBits) - 1;
      const uint32_t field = (bits >> (Traits::kDigits - 1)) & kFields;
      if (field - first < static_cast<uint32_t>(a.binades)) return;
      if (field != kFields && (bits & ~static_cast<uint32_t>(Traits::kSign)) != 0) ++outside;
    }
    __device__ void done() {
      const uint32_t all = __reduce_add_sync(~0u, outside);
      if (threadIdx.x % 32 == 0 && all != 0)
        atomicAdd(&a.head->outside, static_cast<unsigned long long>(all));
    }
  };
};

bool is_simple_problem(const Problem& p) {
  return !p.spelled && p.outer_count == 1 && p.columns() == 1 && p.walk.rank == 1 &&
         p.dst_keys == 1 && p.src_keys == 0;
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() ||
      p.reduce != Reduce::add || !has_windows(p.dtype))
    return false;
  const int64_t cells = cell_count(p);
  return fits_problem(c.transfer, c.canonical) && is_simple_problem(p) &&
         p.positions() < (int64_t{1} << 30) && p.positions() > 0 && cells > 0 &&
         (cells >> kMostCellBits) < kMostDealtBuckets && c.device.shared_bytes >= (144 << 10);
}

double cost(const Case& c) {
  const double updates = static_cast<double>(c.problem.positions()),
               cells = static_cast<double>(cell_count(c.problem));
  return 20 * kLaunchNs + kCheckedCallNs + cells * 16 / kBytesPerNs + updates * 0.011;
}

// Buckets of about a block's share of the updates, within what its shared memory holds.
int cell_bits(int64_t cells) {
  int bits = 8;
  while (bits < kMostCellBits && (cells >> bits) > kFewBuckets) ++bits;
  return bits;
}

PartitionArgs args_of(const Case& c) {
  PartitionArgs a = {};
  a.limbs = limb_args(c.problem);
  a.dealing = plan_dealing(c.problem.positions(), a.limbs.cells, cell_bits(a.limbs.cells));
  const int64_t share = c.problem.positions() / kFewBuckets;
  a.piece = static_cast<uint32_t>(std::max<int64_t>(
      1 << 15, std::clamp<int64_t>(2 * int64_t{a.dealing.capacity}, share, 2 * share)));
  a.dense_cells =
      static_cast<int>((c.device.shared_bytes - (24 << 10)) / (4 * kMostSumWords)) / 32 * 32;
  return a;
}

// Returns how many bytes have to be zero at first.
size_t carve(Carver& carver, PartitionArgs& a) {
  carve_zeros(carver, a.dealing);
  carve_flags(carver, a.limbs);
  const size_t zero = carver.used();
  carve_windows(carver, a.limbs);
  carve_lists(carver, a.limbs);
  a.pieces = carver.take<uint32_t>(a.dealing.buckets + 1);
  carve_records(carver, a.dealing);
  return zero;
}

size_t workspace(const Case& c) {
  Carver carver(nullptr);
  PartitionArgs a = args_of(c);
  carve(carver, a);
  return carver.used();
}

template <class Kernel>
void allow_shared(Kernel kernel, size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "partition");
}

template <class T>
void run_as(const Launch& launch, const PartitionArgs& a) {
  const size_t folded = (size_t{8} << a.dealing.bits) + (size_t{4} << a.dealing.bits) / 32;
  const size_t dense = static_cast<size_t>(a.dense_cells) * kSumWords<T> * 4;
  allow_shared(fold_buckets<T>, folded);
  allow_shared(fold_dense<T>, dense);
  const int processors = launch.device.processors;
  const auto pieces = static_cast<unsigned>(a.dealing.buckets + a.dealing.room / a.piece);
  choose_window<T><<<1, kSampleThreads, 0, launch.stream>>>(a.limbs);
  const auto place = [&] { place_pieces<<<1, kPlaceThreads, 0, launch.stream>>>(a); };
  if (a.limbs.p.keys[0].narrow)
    launch_dealing(launch, Updates<T, int32_t>(a.limbs), a.dealing, place);
  else
    launch_dealing(launch, Updates<T, long long>(a.limbs), a.dealing, place);
  clear_shared<<<processors, kThreads, 0, launch.stream>>>(a);
  fold_buckets<T><<<pieces, kFoldThreads, folded, launch.stream>>>(a);
  fold_dense<T>
      <<<blocks_for(a.dealing.buckets, 1, processors), kFoldThreads, dense, launch.stream>>>(a);
  finish_sums<T>(launch, a.limbs,
                 [&] { finish_shared<T><<<processors, kFoldThreads, 0, launch.stream>>>(a); });
}

void run(const Launch& launch) {
  PartitionArgs a = args_of(launch.problem_case);
  a.limbs.p = launch.problem;
  a.limbs.flag = a.dealing.flag = launch.flag;
  Carver carver(launch.workspace);
  const size_t zero = carve(carver, a);
  check(cudaMemsetAsync(launch.workspace, 0, zero, launch.stream), "partition");
  with_windowed(a.limbs.p.dtype, [&](auto zero) { run_as<decltype(zero)>(launch, a); });
}

}  // namespace

const Strategy kPartition = {
    "partition", "updates dealt out to buckets of places, exact sums in windows in shared memory",
    supports,    cost,
    workspace,   run};

}  // namespace sow::detail::cuda
