// What a lane keeps of its V columns while it walks the rows of a segment of one chunk at most.
#pragma once

#include "cuda/sum_fold.cuh"
#include "cuda/vector.cuh"

namespace sow::detail::cuda {

// Of any fold: an accumulator a column.
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
    bool settled = true;
#pragma unroll
    for (int k = 0; k < V; ++k)
      settled = fold.finish(acc[k], old.at[k], count, out.at[k]) && settled;
    return settled;
  }
};

// Sums in one float64 lose nothing while the exponents of the terms lie close enough: the largest
// sum of a chunk is below 2^53 units of the smallest term. One addition a term and the extremes of
// the magnitudes, doubled so that the sign falls out, less one for the least so that zeros count as
// the largest. 8M rows of 64 float32 into 500k: 0.58 ms, a bound on what was lost 0.63, a plain
// float32 sum 0.56 (H200, 2026-11-15).
template <class T>
inline constexpr int kMostSpread = 53 - FloatTraits<T>::kDigits - 8;

template <int V>
struct RowSums<SumFold<float>, V> {
  using Fold = SumFold<float>;
  using Packed = Pack<float, V>;
  double sum[V];
  uint32_t most[V], least[V];

  __device__ explicit RowSums(const Fold&) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sum[k] = -0.0;
      most[k] = 0;
      least[k] = UINT32_MAX;
    }
  }
  __device__ void add(const Fold&, const Packed& value) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const uint32_t twice = __float_as_uint(value.at[k]) << 1;
      sum[k] += static_cast<double>(value.at[k]);
      most[k] = max(most[k], twice);
      least[k] = min(least[k], twice - 1);
    }
  }
  __device__ bool finish(const Fold& fold, const Packed& old, int64_t count, Packed& out) const {
    bool settled = true;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const int spread = static_cast<int>(most[k] >> 24) - static_cast<int>(least[k] >> 24);
      settled = settled && most[k] < 0xff000000u && spread <= kMostSpread<float>;
      settled = fold.finish_exact(sum[k], most[k] != 0, old.at[k], count, out.at[k]) && settled;
    }
    return settled;
  }
};

// The extremes of two columns at a time.
template <int V>
struct RowSums<SumFold<bfloat16>, V> {
  static_assert(V % 2 == 0);
  using Fold = SumFold<bfloat16>;
  using Packed = Pack<bfloat16, V>;
  double sum[V];
  uint32_t most[V / 2], least[V / 2];

  __device__ explicit RowSums(const Fold&) {
#pragma unroll
    for (int k = 0; k < V; ++k) sum[k] = -0.0;
#pragma unroll
    for (int k = 0; k < V / 2; ++k) {
      most[k] = 0;
      least[k] = UINT32_MAX;
    }
  }
  __device__ void add(const Fold&, const Packed& value) {
    const Pack<uint32_t, V / 2> pairs = bit_cast<Pack<uint32_t, V / 2>>(value);
#pragma unroll
    for (int k = 0; k < V / 2; ++k) {
      const uint32_t pair = pairs.at[k], twice = (pair << 1) & 0xfffefffeu;
      sum[2 * k] += static_cast<double>(__uint_as_float(pair << 16));
      sum[2 * k + 1] += static_cast<double>(__uint_as_float(pair & 0xffff0000u));
      most[k] = __vmaxu2(most[k], twice);
      least[k] = __viaddmin_u16x2(twice, UINT32_MAX, least[k]);
    }
  }
  __device__ bool finish(const Fold& fold, const Packed& old, int64_t count, Packed& out) const {
    bool settled = true;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const uint32_t high = (most[k / 2] >> (16 * (k % 2))) & 0xffffu,
                     low = (least[k / 2] >> (16 * (k % 2))) & 0xffffu;
      const int spread = static_cast<int>(high >> 8) - static_cast<int>(low >> 8);
      settled = settled && high < 0xff00u && spread <= kMostSpread<bfloat16>;
      settled = fold.finish_exact(sum[k], high != 0, old.at[k], count, out.at[k]) && settled;
    }
    return settled;
  }
};

// Every sum of a chunk of float16 fits one float64: all of them are multiples of 2^-24 below 2^24.
template <int V>
struct RowSums<SumFold<float16>, V> {
  using Fold = SumFold<float16>;
  using Packed = Pack<float16, V>;
  double sum[V];
  uint32_t any;  // a bit a column: whether a term was not zero

  __device__ explicit RowSums(const Fold&) : any(0) {
#pragma unroll
    for (int k = 0; k < V; ++k) sum[k] = -0.0;
  }
  __device__ void add(const Fold&, const Packed& value) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sum[k] += static_cast<double>(widen_narrow(value.at[k]));
      if ((value.at[k].bits & 0x7fffu) != 0) any |= 1u << k;
    }
  }
  __device__ bool finish(const Fold& fold, const Packed& old, int64_t count, Packed& out) const {
    bool settled = true;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      settled = settled && sum[k] - sum[k] == 0;  // neither infinite nor NaN
      settled =
          fold.finish_exact(sum[k], ((any >> k) & 1) != 0, old.at[k], count, out.at[k]) && settled;
    }
    return settled;
  }
};

}  // namespace sow::detail::cuda
