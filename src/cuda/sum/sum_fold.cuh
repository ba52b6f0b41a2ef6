// SPDX-License-Identifier: Apache-2.0
// Exact sums and means of the floating types as a Fold (fold/fold.cuh).
#pragma once

#include "core/exact/exact_sum.h"
#include "cuda/common/half.cuh"
#include "cuda/common/ordered_bits.cuh"

namespace sow::detail::cuda {

// As CheckedSum, in one float32: a chunk of the 16-bit types loses so little of it that the bound
// nearly always leaves one answer, and it takes half the time. Up to a chunk's terms, the bound's
// own rounding is far within the factor of two that it is widened by.
class HalfSum {
 public:
  __device__ void add(float value) {
    const float sum = high_ + value, part = sum - high_;
    lost_ += fabsf((high_ - (sum - part)) + (value - part));
    high_ = sum;
  }
  __device__ double high() const { return high_; }
  __device__ double low() const { return 0; }
  __device__ double lost() const { return lost_; }

 private:
  float high_ = -0.0f, lost_ = 0;
};

template <class T>
struct SumFold {
  using Stored = T;
  // One float64 nearly always holds a chunk of float32; a place may meet millions of terms, so
  // chunks are merged in two.
  static constexpr bool kHalf = sizeof(T) == 2;
  using Acc = std::conditional_t<kHalf, HalfSum, CheckedSum<T>>;
  using Partial = CheckedSum<T, 2>;
  using Long = LongAccumulator<T>;
  static constexpr bool kOrdered = false;
  static constexpr bool kRepairs = true;
  static constexpr bool kLongRows = true;
  static constexpr int kPack = sizeof(T) == 2 ? 4 : 2;

  bool include_self;
  bool negate;
  bool mean;

  __device__ Acc start() const { return Acc(); }
  __device__ void add(Acc& acc, T value) const {
    if constexpr (kHalf)
      acc.add(widen_narrow(signed_term(value)));
    else
      acc.add(signed_term(value));
  }
  __device__ Partial start_partial() const { return Partial(); }
  __device__ Partial to_partial(const Acc& acc) const {
    return Partial(acc.high(), acc.low(), acc.lost());
  }
  __device__ void merge(Partial& sum, const Partial& other) const { sum.merge(other); }
  __device__ bool finish(const Acc& acc, T old, int64_t count, T& out) const {
    if constexpr (kHalf)
      return resolve(CheckedSum<T>(acc.high(), 0, acc.lost()), old, count, out);
    else
      return resolve(acc, old, count, out);
  }
  __device__ bool finish_partial(const Partial& sum, T old, int64_t count, T& out) const {
    return resolve(sum, old, count, out);
  }

  // One term beside the old value: one addition rounds their sum, in float64 for a mean, half of
  // which is exact.
  __device__ bool finish_unique(T value, T old, T& out) const requires(!kHalf) {
    const T term = signed_term(value);
    if (mean) {
      const double sum = include_self ? (widen(old) + widen(term)) * 0.5 : widen(term);
      out = static_cast<T>(sum);
    } else {
      out = include_self ? old + term : term;
    }
    if (out != out) out = quiet_nan<T>();
    return true;
  }

  // Of a sum that lies between `least` and `most`, where that tells it. A zero has the sign of
  // `most`.
  template <class Bound>
  __device__ bool finish_between(Bound least, Bound most, int64_t count, T& out) const {
    out = rounded(most, count);
    if (least == most)
      return true;  // infinite by a term of theirs: rounding alone leads one of them there at most
    const Bound apart = most - least;
    if (apart - apart != 0) return false;  // something is not finite
    using Bits = typename FloatTraits<T>::Bits;
    return bit_cast<Bits>(rounded(least, count)) == bit_cast<Bits>(out);
  }

  __device__ void add(Long& sum, T value) const { sum.add(signed_term(value)); }
  __device__ T finish_long(Long sum, T old, int64_t count) const {
    if (include_self) sum.add(old);
    return mean ? divided(sum.to_double(), count) : sum.round();
  }

 private:
  __device__ T signed_term(T value) const { return negate ? flip_sign(value) : value; }
  template <class Sum>
  __device__ bool resolve(Sum sum, T old, int64_t count, T& out) const {
    if (include_self) sum.add(old);
    return mean ? resolve_mean(sum, count, out) : sum.round_to(out);
  }
  // Division by a count is monotone too: both ends of the interval that holds the sum must give one
  // mean.
  template <class Sum>
  __device__ bool resolve_mean(const Sum& sum, int64_t count, T& out) const {
    const double high = sum.high(), low = sum.low(), margin = 2 * sum.lost();
    if (!(absolute(high + low) <= 0x1.fffffffffffffp1023) || !(margin <= 0x1p1000)) return false;
    if (margin == 0) {
      out = divided(round_pair<double>(high, low), count);
      return true;
    }
    using Bits = typename FloatTraits<T>::Bits;
    out = divided(round_pair<double>(high, step_down(low - margin)), count);
    return bit_cast<Bits>(out) ==
           bit_cast<Bits>(divided(round_pair<double>(high, step_up(low + margin)), count));
  }
  template <class Bound>
  __device__ T rounded(Bound sum, int64_t count) const {
    return mean ? divided(sum, count) : narrow_nearest<T>(sum);
  }
  __device__ T divided(double sum, int64_t count) const {
    const double quotient = sum / static_cast<double>(count + (include_self ? 1 : 0));
    if (quotient != quotient) return quiet_nan<T>();
    return static_cast<T>(quotient);
  }
};

}  // namespace sow::detail::cuda
