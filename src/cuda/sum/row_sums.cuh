// SPDX-License-Identifier: Apache-2.0
// What a lane keeps of its V columns while it walks the rows of a segment of one chunk at most.
#pragma once

#include "cuda/common/vector.cuh"
#include "cuda/sum/sum_fold.cuh"

namespace sow::detail::cuda {

// Of any fold: one accumulator per column.
template <class Fold, int V>
struct RowSums {
  using Packed = Pack<typename Fold::Stored, V>;
  typename Fold::Acc acc[V];

  __device__ explicit RowSums(const Fold& fold) {
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = fold.start();
  }
  __device__ void add(const Fold& fold, const Packed& value) {
#pragma unroll
    for (int k = 0; k < V; ++k) fold.add(acc[k], value.at[k]);
  }
  __device__ bool finish(const Fold& fold, const Packed& old, int64_t count, Packed& out) const {
    bool conclusive = true;
#pragma unroll
    for (int k = 0; k < V; ++k)
      conclusive = fold.finish(acc[k], old.at[k], count, out.at[k]) && conclusive;
    return conclusive;
  }
};

// Sums that are rounded down beside sums that are rounded up: the exact one lies between them, and
// where both are rounded to one value of T, so is it. Two additions a term, in float64 for float32
// and in float32 for the 16-bit types, whatever the exponents are.
template <class T>
using SumBound = std::conditional_t<sizeof(T) == 2, float, double>;

__device__ inline float add_down(float a, float b) { return __fadd_rd(a, b); }
__device__ inline float add_up(float a, float b) { return __fadd_ru(a, b); }
__device__ inline double add_down(double a, double b) { return __dadd_rd(a, b); }
__device__ inline double add_up(double a, double b) { return __dadd_ru(a, b); }

template <class T, int V>
struct BoundedSums {
  using Fold = SumFold<T>;
  using Packed = Pack<T, V>;
  using Bound = SumBound<T>;
  Bound low[V], high[V];

  __device__ explicit BoundedSums(const Fold&) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      low[k] = 0;  // -0 where they are negated: each is the one that only -0 leave as it is
      high[k] = -Bound(0);
    }
  }
  __device__ void add(const Fold&, const Packed& value) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Bound term = widen_narrow(value.at[k]);
      low[k] = add_down(low[k], term);
      high[k] = add_up(high[k], term);
    }
  }
  __device__ bool finish(const Fold& fold, const Packed& old, int64_t count, Packed& out) const {
    bool conclusive = true;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Bound before = widen_narrow(old.at[k]);
      Bound least = fold.negate ? -high[k] : low[k], most = fold.negate ? -low[k] : high[k];
      if (fold.include_self) {
        least = add_down(least, before);
        most = add_up(most, before);
      }
      conclusive = fold.finish_between(least, most, count, out.at[k]) && conclusive;
    }
    return conclusive;
  }
};

template <int V>
struct RowSums<SumFold<float>, V> : BoundedSums<float, V> {
  using BoundedSums<float, V>::BoundedSums;
};
template <int V>
struct RowSums<SumFold<bfloat16>, V> : BoundedSums<bfloat16, V> {
  using BoundedSums<bfloat16, V>::BoundedSums;
};
template <int V>
struct RowSums<SumFold<float16>, V> : BoundedSums<float16, V> {
  using BoundedSums<float16, V>::BoundedSums;
};

}  // namespace sow::detail::cuda
