// SPDX-License-Identifier: Apache-2.0
// amax and amin of float32 and the 16-bit types, by the instruction that knows NaN and the sign of
// zero.
#include "core/exact/exact_traits.h"
#include "cuda/block/block_fold.cuh"
#include "cuda/common/dtypes.h"
#include "cuda/common/half.cuh"
#include "cuda/common/ordered_bits.cuh"
#include "cuda/fold/fold.cuh"

namespace sow::detail::cuda {

namespace {

// A NaN wins, and +0 is above -0.
__device__ inline float larger(float a, float b) {
  float out;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}
__device__ inline float smaller(float a, float b) {
  float out;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
}

template <class T, bool Largest>
struct ExtremeFold {
  using Stored = T;
  using Acc = float;
  using Partial = float;
  static constexpr bool kOrdered = false;
  static constexpr bool kRepairs = false;
  static constexpr bool kLongRows = true;
  static constexpr int kPack = 4;

  bool include_self;
  bool negate;

  __device__ Acc start() const { return __uint_as_float(Largest ? 0xff800000u : 0x7f800000u); }
  __device__ Partial start_partial() const { return start(); }
  __device__ Partial to_partial(Acc acc) const { return acc; }
  __device__ void add(Acc& acc, T value) const {
    merge(acc, widen_narrow(negate ? flip_sign(value) : value));
  }
  __device__ void merge(Acc& acc, Acc other) const {
    acc = Largest ? larger(acc, other) : smaller(acc, other);
  }
  __device__ bool finish(Acc acc, T old, int64_t, T& out) const {
    if (include_self) merge(acc, widen_narrow(old));
    out = acc != acc ? quiet_nan<T>() : narrow_exact<T>(acc);
    return true;
  }
  __device__ bool finish_partial(Acc acc, T old, int64_t count, T& out) const {
    return finish(acc, old, count, out);
  }
};

template <class Fold>
void run_fold_or_block(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                       const BlockArgs* block) {
  const auto fold = Fold{launch.problem.include_self, launch.problem.negate};
  if (block != nullptr)
    run_block(launch, *block, fold);
  else
    run_fold(launch, segments, memory, fold);
}

template <class T>
void run_as(const Launch& launch, const Segments& segments, const FoldMemory& memory,
            const BlockArgs* block) {
  if (launch.problem.reduce == Reduce::amax)
    run_fold_or_block<ExtremeFold<T, true>>(launch, segments, memory, block);
  else
    run_fold_or_block<ExtremeFold<T, false>>(launch, segments, memory, block);
}

}  // namespace

void fold_extremes(const Launch& launch, const Segments& segments, const FoldMemory& memory,
                   const BlockArgs* block) {
  with_type<float16, bfloat16, float>(launch.problem.dtype, [&](auto zero) {
    run_as<decltype(zero)>(launch, segments, memory, block);
  });
}

}  // namespace sow::detail::cuda
