// Exact sums and means of the floating types, by segments.
#include "core/exact_sum.h"
#include "cuda/fold.cuh"
#include "cuda/folds.h"
#include "cuda/ordered_bits.cuh"

namespace sow::detail::cuda {

namespace {

template <class T>
struct SumFold {
  using Stored = T;
  // Two parts even for the narrow types: a place may meet millions of terms here, and repair is slow.
  using Acc = CheckedSum<T, 2>;
  using Long = LongAccumulator<T>;
  static constexpr bool kOrdered = false;
  static constexpr bool kRepairs = true;
  static constexpr int kPack = sizeof(T) == 8 ? 2 : 4;
  static_assert(sizeof(Acc) <= kLargestPartial);

  bool include_self;
  bool negate;
  bool mean;

  __device__ Acc start() const { return Acc(); }
  __device__ void add(Acc& acc, T value) const { acc.add(signed_term(value)); }
  __device__ void merge(Acc& acc, const Acc& other) const { acc.merge(other); }
  __device__ bool finish(Acc acc, T old, int64_t count, T& out) const {
    if (include_self) acc.add(old);
    if (!mean) return acc.round_to(out);
    double sum;
    if (!acc.to_double(sum)) return false;
    out = divided(sum, count);
    return true;
  }
  __device__ bool finish_combined(const Acc& acc, T old, int64_t count, T& out) const {
    return finish(acc, old, count, out);
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
void run_as(const Launch& launch, const Segments& segments, char* partials) {
  const Problem& p = launch.problem;
  run_fold(launch, segments, partials, SumFold<T>{p.include_self, p.negate, p.reduce == Reduce::mean});
}

}  // namespace

void fold_sums(const Launch& launch, const Segments& segments, char* partials) {
  switch (launch.problem.dtype) {
    case DType::float16: return run_as<float16>(launch, segments, partials);
    case DType::bfloat16: return run_as<bfloat16>(launch, segments, partials);
    case DType::float32: return run_as<float>(launch, segments, partials);
    default: return run_as<double>(launch, segments, partials);
  }
}

}  // namespace sow::detail::cuda
