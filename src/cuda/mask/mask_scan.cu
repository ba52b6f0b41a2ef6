// SPDX-License-Identifier: Apache-2.0
// The prefix sum of a mask: counts the trues of every part and adds the counts up, in one launch.
#include <mutex>
#include <vector>

#include "cuda/common/dependent_launch.cuh"
#include "cuda/mask/count_true.h"
#include "cuda/mask/mask.cuh"
#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

// What the last block of a scan does with the sum.
struct ScanEnd {
  ScanHead* head;
  int64_t row = 1, limit = 0;
  int64_t* told_host = nullptr;  // the sum as well, for a host that waits
  bool reports = false;
  MaskReporter reporter = {};
};

// The trues of each range become those before it.
__device__ void add_up_ranges(const MaskRanks& ranks, int64_t count, const ScanEnd& end) {
  constexpr int kEach = 8;
  int64_t carried = 0;
  for (int64_t first = 0; first < count; first += kThreads * kEach) {
    const int64_t begin = first + threadIdx.x * kEach;
    int64_t value[kEach], sum = 0, total = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      value[i] = begin + i < count ? __ldcg(ranks.range + begin + i) : 0;
      sum += value[i];
    }
    int64_t before = carried + scan_block(sum, total);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (begin + i < count) ranks.range[begin + i] = before;
      before += value[i];
    }
    carried += total;
  }
  if (threadIdx.x != 0) return;
  *end.head = 0;
  if (ranks.total != nullptr) *ranks.total = carried;
  const int64_t trues = carried * end.row;
  if (ranks.flag != nullptr) ranks.flag->bad = trues > end.limit ? 1 : 0;
  if (trues > end.limit && end.reports) end.reporter.keep_trues(trues);
  if (end.told_host == nullptr) return;
  *end.told_host = carried;
  __threadfence_system();
}

// A block takes a range of tiles, each warp one part of every tile; several are in flight. The last
// block to end adds up what they found.
__global__ void __launch_bounds__(kThreads)
    count_range(const __grid_constant__ MaskProblem p, int64_t tiles,
                const __grid_constant__ MaskRanks ranks, const __grid_constant__ ScanEnd end) {
  static_assert(kThreads / 32 == kTileParts && (kTileParts << kRangeBits) <= kThreads);
  constexpr int kUnroll = 4;
  __shared__ uint16_t counts[kTileParts << kRangeBits];
  allow_dependents();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = static_cast<int64_t>(blockIdx.x) << ranks.shift;
  const int here = static_cast<int>(min(int64_t{1} << ranks.shift, tiles - first));
  const auto found = [&](int tile, uint32_t bits) {
    const int64_t part = (first + tile) * kTileParts + warp;
    if (ranks.bits != nullptr) ranks.bits[part * 32 + lane] = static_cast<uint16_t>(bits);
    const int total = __reduce_add_sync(~0u, __popc(bits));
    if (lane == 0) counts[tile * kTileParts + warp] = static_cast<uint16_t>(total);
  };
  const int64_t begin = first * kMaskTile + (warp * 32 + lane) * kMaskPerThread;
  const bool plain = p.mask_dense && reinterpret_cast<uintptr_t>(p.mask) % 16 == 0 &&
                     (first + here) * kMaskTile <= p.mask_count;
  if (plain) {  // no lane looks where the mask ends, so that several loads are on their way
    for (int t = 0; t < here; t += kUnroll) {
      uint4 bytes[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int64_t at = begin + int64_t{min(t + u, here - 1)} * kMaskTile;
        bytes[u] = *reinterpret_cast<const uint4*>(p.mask + at);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (t + u < here) found(t + u, nonzero_bits(bytes[u]));
      }
    }
  } else {
    for (int t = 0; t < here; ++t) found(t, read_mask(p, begin + int64_t{t} * kMaskTile));
  }
  __syncthreads();
  const int mine = static_cast<int>(threadIdx.x);
  const bool counted = mine < here * kTileParts;
  int total = 0;
  const int before = scan_block(counted ? int{counts[mine]} : 0, total);
  if (ranks.part != nullptr && counted)
    ranks.part[first * kTileParts + mine] = static_cast<uint16_t>(before);
  if (mine == 0) ranks.range[blockIdx.x] = total;
  if (is_last_block(end.head)) add_up_ranges(ranks, gridDim.x, end);
}

void launch_scan(const MaskProblem& p, const MaskRanks& ranks, const ScanEnd& end,
                 cudaStream_t stream) {
  const int64_t tiles = mask_tiles(p);
  count_range<<<static_cast<unsigned>(mask_ranges(tiles)), kThreads, 0, stream>>>(p, tiles, ranks,
                                                                                  end);
  check_launch("mask");
}

// A number in the host's memory that a kernel writes: taken from a list, and given back.
class HostNumber {
 public:
  HostNumber() {
    const std::lock_guard lock(mutex());
    if (idle().empty()) {
      // Others may be capturing, which this does not harm.
      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
      cudaThreadExchangeStreamCaptureMode(&mode);
      void* data = nullptr;
      const cudaError_t code =
          cudaHostAlloc(&data, sizeof(int64_t), cudaHostAllocMapped | cudaHostAllocPortable);
      cudaThreadExchangeStreamCaptureMode(&mode);
      check(code, "mask");
      idle().push_back(static_cast<int64_t*>(data));
    }
    data_ = idle().back();
    idle().pop_back();
  }
  ~HostNumber() {
    const std::lock_guard lock(mutex());
    idle().push_back(data_);
  }
  HostNumber(const HostNumber&) = delete;
  HostNumber& operator=(const HostNumber&) = delete;
  int64_t* data() const { return data_; }

 private:
  // Never destroyed: the driver may be gone by then.
  static std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
  }
  static std::vector<int64_t*>& idle() {
    static auto* all = new std::vector<int64_t*>;
    return *all;
  }
  int64_t* data_;
};

int64_t tiles_of(int64_t count) { return (count + kMaskTile - 1) / kMaskTile; }

}  // namespace

void scan_mask(const MaskProblem& p, const MaskRanks& ranks, ScanHead* head,
               const MaskReporter* reporter, cudaStream_t stream) {
  ScanEnd end{head, p.row, p.rank_limit};
  if (reporter != nullptr) {
    end.reports = true;
    end.reporter = *reporter;
  }
  launch_scan(p, ranks, end, stream);
}

size_t kept_ranks_bytes(int64_t count) {
  Carver measure(nullptr);
  carve_ranks(measure, tiles_of(count), true);
  return measure.used();
}

MaskRanks kept_ranks(const Transfer& transfer, int64_t tiles) {
  if (transfer.mask_ranks == nullptr) return {};
  Carver carver(static_cast<char*>(transfer.mask_ranks));
  MaskRanks ranks = carve_ranks(carver, tiles, true);
  ranks.flag = nullptr;  // there is room for as many as were counted
  return ranks;
}

int64_t count_true(const CudaContext& context, const void* mask, int64_t count, void* kept) {
  if (count == 0) return 0;
  const cudaStream_t stream = stream_of(context);
  expect_not_captured(stream);
  MaskProblem p;
  p.mask = static_cast<const char*>(mask);
  p.mask_count = count;
  p.mask_dense = true;
  const int64_t tiles = mask_tiles(p);
  const Scratch scratch(
      context, kept != nullptr ? 0 : sizeof(int64_t) * static_cast<size_t>(mask_ranges(tiles)));
  MaskRanks ranks;
  if (kept != nullptr) {
    Carver carver(static_cast<char*>(kept));
    ranks = carve_ranks(carver, tiles, true);
  } else {
    ranks.shift = range_shift(tiles);
    ranks.range = reinterpret_cast<int64_t*>(scratch.data());
  }
  ZeroedScratch head(context, sizeof(ScanHead));
  const HostNumber total;
  ScanEnd end{reinterpret_cast<ScanHead*>(head.data())};
  end.limit = INT64_MAX;
  end.told_host = total.data();
  launch_scan(p, ranks, end, stream);
  head.set_clean();
  check(cudaStreamSynchronize(stream), "mask");
  return *total.data();
}

}  // namespace sow::detail::cuda
