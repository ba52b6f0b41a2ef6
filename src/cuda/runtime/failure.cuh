// SPDX-License-Identifier: Apache-2.0
// What kernels need to record a failure: the index as its user gave it, and the record of the
// first.
#pragma once

#include "cuda/common/decode.cuh"
#include "cuda/runtime/failure.h"

namespace sow::detail::cuda {

struct OwnIndex {
  KeyOperand key;
  Bounds bounds;
  int64_t count;
  int rank;
  int64_t shape[CudaFailure::kMaxRank];
  int64_t strides[CudaFailure::kMaxRank];
  uint32_t order_class;  // which operands come first, before positions are compared
  uint32_t ordinal;
};

// The ordinal is its number among the indices of the call.
OwnIndex own_index(const IndexOperand& index, Bounds bounds, bool source, uint32_t ordinal);

inline constexpr int kOrdinalBits = 8, kPositionBits = 48;

__device__ inline int64_t own_offset(const OwnIndex& index, int64_t position) {
  if (index.rank == 1) return position * index.strides[0];
  int64_t offset = 0;
  for (int d = index.rank - 1; d >= 0; --d) {
    offset += position % index.shape[d] * index.strides[d];
    position /= index.shape[d];
  }
  return offset;
}

__device__ inline void keep(FailureSlot* slot, uint32_t* claim, const CudaFailure& failure) {
  if (atomicExch(claim, 1u) != 0) return;
  slot->failure = failure;
  __threadfence_system();
  slot->filled = 1;
}

// Keys compare by the class of their operand, then by position, then by operand.
__device__ inline unsigned long long order_of_key(const OwnIndex& index, int64_t position) {
  return (static_cast<unsigned long long>(index.order_class) << (kPositionBits + kOrdinalBits)) |
         (static_cast<unsigned long long>(position) << kOrdinalBits) | index.ordinal;
}

// For kernels that tell what was bad without another launch: those of one block, and those in which
// what other blocks do does not depend on it.
struct KeyReporter {
  OwnIndex index;
  CudaFailure failure;
  FailureSlot* slot;
  uint32_t* claim;

  // By the whole block, once a key was seen to be bad; blocks that come later have nothing to add.
  __device__ void report_by_block() const {
    __shared__ unsigned long long first;
    __shared__ bool told;
    if (threadIdx.x == 0) {
      first = ~0ull;
      told = *const_cast<volatile uint32_t*>(claim) != 0;
    }
    __syncthreads();
    if (told) return;
    for (int64_t i = threadIdx.x; i < index.count; i += blockDim.x) {
      int64_t key = read_key(index.key, own_offset(index, i));
      bool bad = false;
      resolve(key, index.key.extent, index.bounds, bad);
      if (bad) atomicMin(&first, static_cast<unsigned long long>(i));
    }
    __syncthreads();
    if (threadIdx.x != 0 || first == ~0ull) return;
    CudaFailure filled = failure;
    filled.position = static_cast<int64_t>(first);
    filled.key = read_key(index.key, own_offset(index, filled.position));
    keep(slot, claim, filled);
  }
};

// Of a strategy that reports bad keys itself: zero between calls.
struct CallHead {
  Flag flag;
  uint32_t done;  // blocks that have written what they write
};

// By every thread of a block, once: whether all other blocks were here before it, so that what they
// wrote can be read.
__device__ inline bool is_last_block(uint32_t* done) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(done, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) __threadfence();
  return last;
}

struct MaskReporter {
  CudaFailure failure;
  FailureSlot* slot;
  uint32_t* claim;

  __device__ void keep_trues(int64_t trues) const {
    CudaFailure filled = failure;
    filled.trues = trues;
    keep(slot, claim, filled);
  }
};

// How many indices of the Transfer are to be checked; if it is one, `out` can tell what is bad in
// it.
int make_reporter(const CudaContext& context, const Transfer& transfer, KeyReporter& out);
MaskReporter make_mask_reporter(const CudaContext& context, const Transfer& transfer);

}  // namespace sow::detail::cuda
