// SPDX-License-Identifier: Apache-2.0
// Finds the first bad key of a call that failed, and writes it to the failure record.
#include <cstring>

#include "cuda/runtime/failure.cuh"

namespace sow::detail::cuda {

namespace {

__global__ void find_first_bad(const __grid_constant__ OwnIndex index, Flag* flag, bool always) {
  if (!always && !is_bad(flag)) return;
  for (int64_t i = global_thread(); i < index.count; i += grid_threads()) {
    int64_t key = read_key(index.key, own_offset(index, i));
    bool bad = false;
    resolve(key, index.key.extent, index.bounds, bad);
    if (!bad) continue;
    atomicMax(&flag->first, ~order_of_key(index, i));
  }
}

__global__ void __launch_bounds__(kThreads)
    mark_bad_own(const __grid_constant__ OwnIndex index, Flag* flag) {
  constexpr int kUnroll = 8;
  bool bad = false;
  for (int64_t first = global_thread(); first < index.count; first += kUnroll * grid_threads()) {
    int64_t key[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t i = first + u * grid_threads();
      key[u] = i < index.count ? read_key(index.key, own_offset(index, i)) : 0;
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) resolve(key[u], index.key.extent, index.bounds, bad);
  }
  if (bad) mark_bad(flag);
}

__global__ void keep_bad_key(const __grid_constant__ OwnIndex index,
                             const __grid_constant__ CudaFailure failure, Flag* flag,
                             FailureSlot* slot, uint32_t* claim, bool last) {
  const unsigned long long first = ~flag->first;
  if (last) *flag = {};
  if (first == ~0ull || (first & ((1u << kOrdinalBits) - 1)) != index.ordinal) return;
  CudaFailure filled = failure;
  filled.position = static_cast<int64_t>((first >> kOrdinalBits) & ((1ull << kPositionBits) - 1));
  filled.key = read_key(index.key, own_offset(index, filled.position));
  keep(slot, claim, filled);
}

// What a call's indices need to be told of, by one block.
struct KeyReporters {
  int count = 0;
  OwnIndex index[kMaxKeys];
  CudaFailure failure[kMaxKeys];
  FailureSlot* slot = nullptr;
  uint32_t* claim = nullptr;
};

// In one launch that nearly always finds nothing to do.
__global__ void __launch_bounds__(1024)
    report_together(const __grid_constant__ KeyReporters all, Flag* flag) {
  __shared__ unsigned long long first;
  if (!is_bad(flag)) return;
  if (threadIdx.x == 0) first = ~0ull;
  __syncthreads();
  for (int k = 0; k < all.count; ++k) {
    const OwnIndex& index = all.index[k];
    for (int64_t i = threadIdx.x; i < index.count; i += blockDim.x) {
      int64_t key = read_key(index.key, own_offset(index, i));
      bool bad = false;
      resolve(key, index.key.extent, index.bounds, bad);
      if (bad) atomicMin(&first, order_of_key(index, i));
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  *flag = {};
  for (int k = 0; k < all.count && first != ~0ull; ++k) {
    const OwnIndex& index = all.index[k];
    if ((first & ((1u << kOrdinalBits) - 1)) != index.ordinal) continue;
    CudaFailure filled = all.failure[k];
    filled.position = static_cast<int64_t>((first >> kOrdinalBits) & ((1ull << kPositionBits) - 1));
    filled.key = read_key(index.key, own_offset(index, filled.position));
    keep(all.slot, all.claim, filled);
  }
}

int64_t count_of(const Dims& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace

OwnIndex own_index(const IndexOperand& index, Bounds bounds, bool source, uint32_t ordinal) {
  OwnIndex own = {};
  own.key = key_operand(index);
  own.bounds = bounds;
  own.count = count_of(index.own_shape);
  for (int d = 0; d < index.own_shape.rank(); ++d) {
    const int64_t extent = index.own_shape[d], stride = index.own_strides[d];
    if (extent == 1) continue;
    int64_t& last = own.strides[own.rank > 0 ? own.rank - 1 : 0];
    if (own.rank > 0 && last == extent * stride) {
      own.shape[own.rank - 1] *= extent;
      last = stride;
    } else if (own.rank == CudaFailure::kMaxRank) {
      throw BackendError{CudaStatus::device_error,
                         "cuda: an index of so many dimensions must be row-major"};
    } else {
      own.shape[own.rank] = extent;
      own.strides[own.rank++] = stride;
    }
  }
  const bool own_class = index.separate || bounds == Bounds::clip;
  own.order_class = std::min((source ? 128u : 0u) + (own_class ? ordinal : 0u), 255u);
  own.ordinal = std::min(ordinal, 255u);
  return own;
}

namespace {

CudaFailure failure_of(const Transfer& transfer, const IndexOperand& index) {
  CudaFailure failure = {};
  failure.kind = CudaFailure::index;
  std::strncpy(failure.op, transfer.op, sizeof(failure.op) - 1);
  failure.rank = index.own_shape.rank();
  for (int d = 0; d < std::min(failure.rank, CudaFailure::kMaxRank); ++d)
    failure.shape[d] = index.own_shape[d];
  failure.axis = index.axis;
  failure.component = index.component;
  failure.separate = index.separate;
  failure.extent = index.extent;
  return failure;
}

bool can_be_bad(const IndexOperand& index, Bounds bounds) {
  return bounds == Bounds::error || (bounds == Bounds::clip && index.extent == 0);
}

template <class F>
void for_each_checked(const Transfer& transfer, F&& f) {
  uint32_t ordinal = 0;
  for (const auto* side : {&transfer.dst_index, &transfer.src_index}) {
    for (const IndexOperand& index : *side) {
      const OwnIndex own =
          own_index(index, transfer.bounds, side == &transfer.src_index, ordinal++);
      if (can_be_bad(index, transfer.bounds) && own.count != 0) f(index, own);
    }
  }
}

}  // namespace

void open_failures(DeviceState& state) {
  void* slot = nullptr;
  check(cudaHostAlloc(&slot, sizeof(FailureSlot), cudaHostAllocMapped | cudaHostAllocPortable),
        "cuda");
  std::memset(slot, 0, sizeof(FailureSlot));
  state.failure = static_cast<FailureSlot*>(slot);
  void* claim = nullptr;
  check(cudaMalloc(&claim, sizeof(uint32_t)), "cuda");
  // On a stream of its own: the default stream may not be used while others are captured.
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cuda");
  check(cudaMemsetAsync(claim, 0, sizeof(uint32_t), stream), "cuda");
  check(cudaStreamSynchronize(stream), "cuda");
  cudaStreamDestroy(stream);
  state.failure_claim = static_cast<uint32_t*>(claim);
}

bool must_check_keys(const Transfer& transfer) {
  bool any = false;
  for_each_checked(transfer, [&](const IndexOperand&, const OwnIndex&) { any = true; });
  return any;
}

void mark_bad_keys(const CudaContext& context, const Transfer& transfer, Flag* flag) {
  const int most = 8 * device_state(context.device).processors;
  for_each_checked(transfer, [&](const IndexOperand&, const OwnIndex& own) {
    mark_bad_own<<<blocks_for(own.count, 8 * kThreads, most), kThreads, 0, stream_of(context)>>>(
        own, flag);
  });
  check_launch("cuda check");
}

void report_bad_keys(const CudaContext& context, const Transfer& transfer, Flag* flag,
                     bool always) {
  const DeviceState& state = device_state(context.device);
  const cudaStream_t stream = stream_of(context);
  KeyReporters all;
  all.slot = state.failure;
  all.claim = state.failure_claim;
  int indices = 0;
  for_each_checked(transfer, [&](const IndexOperand& index, const OwnIndex& own) {
    if (indices++ >= kMaxKeys) return;
    all.index[all.count] = own;
    all.failure[all.count++] = failure_of(transfer, index);
  });
  if (indices <= kMaxKeys && !always) {
    report_together<<<1, 1024, 0, stream>>>(all, flag);
    return check_launch("cuda check");
  }
  for_each_checked(transfer, [&](const IndexOperand&, const OwnIndex& own) {
    const int blocks = blocks_for(own.count, 4 * kThreads, always ? 16 * state.processors : 64);
    find_first_bad<<<blocks, kThreads, 0, stream>>>(own, flag, always);
  });
  int kept = 0;
  for_each_checked(transfer, [&](const IndexOperand& index, const OwnIndex& own) {
    keep_bad_key<<<1, 1, 0, stream>>>(own, failure_of(transfer, index), flag, state.failure,
                                      state.failure_claim, ++kept == indices);
  });
  check_launch("cuda check");
}

int make_reporter(const CudaContext& context, const Transfer& transfer, KeyReporter& out) {
  const DeviceState& state = device_state(context.device);
  int checked = 0;
  for_each_checked(transfer, [&](const IndexOperand& index, const OwnIndex& own) {
    ++checked;
    out = {own, failure_of(transfer, index), state.failure, state.failure_claim};
  });
  return checked;
}

MaskReporter make_mask_reporter(const CudaContext& context, const Transfer& transfer) {
  const DeviceState& state = device_state(context.device);
  CudaFailure failure = {};
  failure.kind = CudaFailure::mask;
  std::strncpy(failure.op, transfer.op, sizeof(failure.op) - 1);
  failure.source_side = transfer.mask_side == MaskSide::source;
  failure.limit = transfer.rank_limit;
  return {failure, state.failure, state.failure_claim};
}

bool take_failure(const CudaContext& context, CudaFailure& out) {
  const DeviceState& state = device_state(context.device);
  if (state.failure->filled == 0) return false;
  out = state.failure->failure;
  state.failure->filled = 0;
  // In stream order, so that a call that is still running keeps nothing in between.
  check(cudaMemsetAsync(state.failure_claim, 0, sizeof(uint32_t), stream_of(context)), "cuda");
  return true;
}

}  // namespace sow::detail::cuda
