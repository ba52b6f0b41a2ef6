// Exact sums and means of the floating types, by segments.
#include "core/exact_sum.h"
#include "cuda/block_fold.cuh"
#include "cuda/fold.cuh"
#include "cuda/ordered_bits.cuh"

namespace sow::detail::cuda {

namespace {

template <class T>
struct SumFold {
  using Stored = T;
  // One float64 nearly always holds a chunk of the narrow types; a place may meet millions of terms,
  // so chunks are merged in two.
  using Acc = CheckedSum<T>;
  using Partial = CheckedSum<T, 2>;
  using Long = LongAccumulator<T>;
  static constexpr bool kOrdered = false;
  static constexpr bool kRepairs = true;
  static constexpr bool kLast = false;
  // A whole warp for a row of 64 float32: lanes that wait for a neighbour's longer segment cost more than
  // wider loads save (8M rows: 1.22 ms against 1.38 with 4, H200, 2026-11-15).
  static constexpr int kPack = sizeof(T) == 2 ? 4 : 2;

  bool include_self;
  bool negate;
  bool mean;

  __device__ Acc start() const { return Acc(); }
  __device__ void add(Acc& acc, T value) const { acc.add(signed_term(value)); }
  __device__ Partial start_partial() const { return Partial(); }
  __device__ Partial to_partial(const Acc& acc) const { return Partial(acc.high(), acc.low(), acc.lost()); }
  __device__ void merge(Partial& sum, const Partial& other) const { sum.merge(other); }
  template <class Sum>
  __device__ bool finish(Sum sum, T old, int64_t count, T& out) const {
    if (include_self) sum.add(old);
    if (!mean) return sum.round_to(out);
    double total;
    if (!sum.to_double(total)) return false;
    out = divided(total, count);
    return true;
  }
  __device__ bool finish_partial(const Partial& sum, T old, int64_t count, T& out) const {
    return finish(sum, old, count, out);
  }

  __device__ void add(Long& sum, T value) const { sum.add(signed_term(value)); }
  __device__ T finish_long(Long sum, T old, int64_t count) const {
    if (include_self) sum.add(old);
    return mean ? divided(sum.to_double(), count) : sum.round();
  }

 private:
  __device__ T signed_term(T value) const { return negate ? flip_sign(value) : value; }
  __device__ T divided(double sum, int64_t count) const {
    const double quotient = sum / static_cast<double>(count + (include_self ? 1 : 0));
    if (quotient != quotient) return quiet_nan<T>();
    return static_cast<T>(quotient);
  }
};

template <class T>
void run_as(const Launch& launch, const Segments& segments, const FoldMemory& memory, const BlockArgs* block) {
  const Problem& p = launch.problem;
  const auto fold = SumFold<T>{p.include_self, p.negate, p.reduce == Reduce::mean};
  if (block != nullptr) run_block(launch, *block, fold);
  else run_fold(launch, segments, memory, fold);
}

}  // namespace

void fold_sums(const Launch& launch, const Segments& segments, const FoldMemory& memory, const BlockArgs* block) {
  switch (launch.problem.dtype) {
    case DType::float16: return run_as<float16>(launch, segments, memory, block);
    case DType::bfloat16: return run_as<bfloat16>(launch, segments, memory, block);
    case DType::float32: return run_as<float>(launch, segments, memory, block);
    default: return run_as<double>(launch, segments, memory, block);
  }
}

}  // namespace sow::detail::cuda
