// SPDX-License-Identifier: Apache-2.0
// Products of the floating and complex types as a Fold (fold/fold.cuh): in float64.
#pragma once

#include "core/exact/exact_sum.h"
#include "cuda/common/half.cuh"
#include "cuda/common/ordered_bits.cuh"

namespace sow::detail::cuda {

template <class R>
struct alignas(2 * sizeof(R)) Pair {
  R re, im;
};

__device__ inline double times(double a, double b) { return a * b; }
__device__ inline Pair<double> times(Pair<double> a, Pair<double> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class T>
__device__ inline T narrowed(double value) {
  if (value != value) return quiet_nan<T>();
  return static_cast<T>(value);
}

template <class T>
struct RealFactor {
  using Stored = T;
  using Wide = double;
  __device__ static Wide one() { return 1; }
  __device__ static Wide load(T value, bool negate) {
    return widen(negate ? flip_sign(value) : value);
  }
  __device__ static T store(Wide value) { return narrowed<T>(value); }
};

template <class R>
struct ComplexFactor {
  using Stored = Pair<R>;
  using Wide = Pair<double>;
  __device__ static Wide one() { return {1, 0}; }
  __device__ static Wide load(Stored value, bool negate) {
    return {negate ? -value.re : value.re, negate ? -value.im : value.im};
  }
  __device__ static Stored store(Wide value) {
    return {narrowed<R>(value.re), narrowed<R>(value.im)};
  }
};

template <class Kind>
struct ProductFold {
  using Stored = typename Kind::Stored;
  using Acc = typename Kind::Wide;
  using Partial = Acc;
  static constexpr bool kOrdered = true;
  static constexpr bool kRepairs = false;
  static constexpr bool kLongRows = true;
  static constexpr int kPack = sizeof(Stored) >= 8 ? 1 : 4;

  bool include_self;
  bool negate;

  __device__ Acc start() const { return Kind::one(); }
  __device__ void add(Acc& acc, Stored value) const { acc = times(acc, Kind::load(value, negate)); }
  __device__ Partial start_partial() const { return Kind::one(); }
  __device__ Partial to_partial(const Acc& acc) const { return acc; }
  __device__ void merge(Acc& acc, const Acc& other) const { acc = times(acc, other); }
  __device__ Acc first_chunk(const Acc& chunk, Stored old) const {
    return include_self ? times(Kind::load(old, false), chunk) : chunk;
  }
  __device__ bool finish(const Acc& acc, Stored old, int64_t, Stored& out) const {
    out = Kind::store(first_chunk(acc, old));
    return true;
  }
  __device__ bool finish_partial(const Acc& acc, Stored, int64_t, Stored& out) const {
    out = Kind::store(acc);
    return true;
  }
};

}  // namespace sow::detail::cuda
