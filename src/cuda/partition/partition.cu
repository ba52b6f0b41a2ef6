// SPDX-License-Identifier: Apache-2.0
// Strategy partition: exact sums of single elements into many places. Updates are radix-partitioned
// into buckets of neighbouring places; one block sums a bucket in shared memory and writes its
// places.
#include "cuda/partition/bucket_sums.cuh"

#include "cuda/common/shared_memory.cuh"
#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

// What is partitioned: values by their bits. Those outside the fixed-point range are counted on the
// way, so that it is known before anything is written whether they can be listed.
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

  __device__ void payloads(int64_t first, int64_t count, const Key (&)[kPartitionEach],
                           uint32_t (&out)[kPartitionEach]) const {
    using Word = WordOf<static_cast<int>(sizeof(T))>;
    const char* from = values + first * step;
    const int64_t apart = kPartitionThreads * step;
    if (values == nullptr) {
#pragma unroll
      for (int u = 0; u < kPartitionEach; ++u) out[u] = scalar;
    } else if (first - threadIdx.x + kPartitionTile <= count) {
#pragma unroll
      for (int u = 0; u < kPartitionEach; ++u)
        out[u] = __ldcs(reinterpret_cast<const Word*>(from + u * apart));
    } else {
#pragma unroll
      for (int u = 0; u < kPartitionEach; ++u) {
        out[u] = first + u * kPartitionThreads < count
                     ? *reinterpret_cast<const Word*>(from + u * apart)
                     : 0;
      }
    }
    if (sign == 0) return;
#pragma unroll
    for (int u = 0; u < kPartitionEach; ++u) out[u] ^= sign;
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
  return !p.materialised && p.outer_count == 1 && p.columns() == 1 && p.walk.rank == 1 &&
         p.dst_keys == 1 && p.src_keys == 0;
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() ||
      p.reduce != Reduce::add || !has_fixed_point(p.dtype))
    return false;
  const int64_t cells = cell_count(p);
  return fits_problem(c.transfer, c.canonical) && is_simple_problem(p) &&
         p.positions() < (int64_t{1} << 30) && p.positions() > 0 && cells > 0 &&
         (cells >> kMostCellBits) < kMostBuckets && c.device.shared_bytes >= (144 << 10);
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

BucketSumArgs args_of(const Case& c) {
  BucketSumArgs a = {};
  a.limbs = limb_args(c.problem);
  a.partition = plan_partition(c.problem.positions(), a.limbs.cells, cell_bits(a.limbs.cells));
  const int64_t share = c.problem.positions() / kFewBuckets;
  a.chunk = static_cast<uint32_t>(std::max<int64_t>(
      1 << 15, std::clamp<int64_t>(2 * int64_t{a.partition.capacity}, share, 2 * share)));
  a.dense_cells =
      static_cast<int>((c.device.shared_bytes - (24 << 10)) / (4 * kMostSumWords)) / 32 * 32;
  return a;
}

// Returns how many bytes have to be zero at first.
size_t carve(Carver& carver, BucketSumArgs& a) {
  carve_zeros(carver, a.partition);
  carve_flags(carver, a.limbs);
  const size_t zero = carver.used();
  carve_sums(carver, a.limbs);
  carve_lists(carver, a.limbs);
  a.chunks = carver.take<uint32_t>(a.partition.buckets + 1);
  carve_records(carver, a.partition);
  return zero;
}

void lay_out(const Case& c, Plan& plan) {
  BucketSumArgs a = args_of(c);
  Carver carver(nullptr);
  carve(carver, a);
  plan.workspace = carver.used();
  a.limbs.p = {};
  plan.set_layout(a);
}

template <class T>
void run_as(const Launch& launch, const BucketSumArgs& a) {
  const size_t folded = (size_t{8} << a.partition.bits) + (size_t{4} << a.partition.bits) / 32;
  const size_t dense = static_cast<size_t>(a.dense_cells) * kSumWords<T> * 4;
  const int processors = launch.device.processors;
  const auto chunks = static_cast<unsigned>(a.partition.buckets + a.partition.room / a.chunk);
  choose_scale<T><<<1, kSampleThreads, 0, launch.stream>>>(a.limbs);
  const auto place = [&] { place_chunks<<<1, kPlaceThreads, 0, launch.stream>>>(a); };
  if (a.limbs.p.keys[0].is_int32)
    launch_partition(launch, Updates<T, int32_t>(a.limbs), a.partition, place);
  else
    launch_partition(launch, Updates<T, long long>(a.limbs), a.partition, place);
  clear_shared<<<processors, kThreads, 0, launch.stream>>>(a);
  launch_with_shared<fold_buckets<T>>(launch, chunks, kFoldThreads, folded, a);
  launch_with_shared<fold_dense<T>>(launch, blocks_for(a.partition.buckets, 1, processors),
                                    kFoldThreads, dense, a);
  finish_sums<T>(launch, a.limbs,
                 [&] { finish_shared<T><<<processors, kFoldThreads, 0, launch.stream>>>(a); });
}

void run(const Launch& launch) {
  BucketSumArgs a = launch.plan.layout_as<BucketSumArgs>();
  a.limbs.p = launch.problem;
  a.limbs.flag = a.partition.flag = launch.flag;
  Carver carver(launch.workspace);
  const size_t zero = carve(carver, a);
  check(cudaMemsetAsync(launch.workspace, 0, zero, launch.stream), "partition");
  with_fixed_point(a.limbs.p.dtype, [&](auto zero) { run_as<decltype(zero)>(launch, a); });
}

}  // namespace

const Strategy k_partition = {
    "partition",
    "updates partitioned into buckets of places, exact fixed-point sums in shared memory",
    supports,
    cost,
    lay_out,
    run};

}  // namespace sow::detail::cuda
