// SPDX-License-Identifier: Apache-2.0
// How the gradient of a place is shared among its updates: what is accumulated over them, and what
// each of them gets. The bits are those of the rules in src/ops.
#pragma once

#include "core/exact/exact_traits.h"
#include "cuda/backward/backward.cuh"
#include "cuda/common/ordered_bits.cuh"

namespace sow::detail::cuda {

template <class T>
__device__ inline T zero_of() {
  return bit_cast<T>(typename FloatTraits<T>::Bits{0});
}

template <class T>
__device__ inline bool same_value(T a, T b) {
  using Traits = FloatTraits<T>;
  const auto x = bit_cast<typename Traits::Bits>(a), y = bit_cast<typename Traits::Bits>(b);
  if (x == y) return true;
  constexpr auto kMagnitude = static_cast<typename Traits::Bits>(~Traits::kSign);
  return (x & kMagnitude) > Traits::kInfinity && (y & kMagnitude) > Traits::kInfinity;
}

template <class T>
__device__ inline T narrowed_or_nan(double value) {
  return value == value ? static_cast<T>(value) : quiet_nan<T>();
}

// A gradient divided as `share` does it: in float64, rounded once.
template <class T>
__device__ inline T share_of(T grad, uint32_t parts) {
  return narrowed_or_nan<T>(static_cast<double>(grad) / static_cast<double>(parts > 1 ? parts : 1));
}

// amax, amin: those that attain the result share its gradient.
template <class T>
struct ExtremeRule {
  using Value = T;
  static constexpr bool kByBits = true;  // one bit says all about an update

  struct Sum {
    uint32_t ties = 0;
    __device__ void merge(const Sum& next) { ties += next.ties; }
    __device__ void save(double*, uint32_t* shares, int64_t at) const { shares[at] = ties; }
    __device__ void restore(const double*, const uint32_t* shares, int64_t at) {
      ties = shares[at];
    }
  };
  struct Share {
    T part;
    __device__ void save(double* values, uint32_t*, int64_t at) const {
      values[at] = static_cast<double>(part);
    }
    __device__ void restore(const double* values, const uint32_t*, int64_t at) {
      part = narrowed_or_nan<T>(values[at]);
    }
  };

  T result;
  bool self;

  __device__ void begin(const BackwardArgs<T>& b, int64_t dst, bool active) {
    result = active ? b.result[dst] : zero_of<T>();
    self = active && b.include_self && same_value(b.x[dst], result);
  }
  __device__ bool add(Sum& sum, T value) const {
    const bool attains = same_value(value, result);
    sum.ties += attains;
    return attains;
  }
  // The destination itself, after the first chunk of updates.
  __device__ void join(Sum& sum) const { sum.ties += self; }
  __device__ Share end(const BackwardArgs<T>& b, int64_t dst, const Sum& sum) const {
    const T part = share_of(b.grad[dst], sum.ties);
    if (b.x_grad != nullptr) b.x_grad[dst] = self ? part : zero_of<T>();
    return {part};
  }
  __device__ T part(const Share& share) const { return share.part; }
  __device__ T give(const Share& share, T value) const {
    return same_value(value, result) ? share.part : zero_of<T>();
  }
};

__device__ inline double plain(double value) {
  return value == value ? value : quiet_nan<double>();
}

// weighted / factor, rounded to float64 and then to T. Not inlined: for float32 it is seldom
// needed.
template <class T>
__device__ __noinline__ T divided_by(double weighted, T factor) {
  return static_cast<T>(plain(weighted / static_cast<double>(factor)));
}

// A float64 as two float32, for many divisions; not a number where the quick way below would not
// do.
struct Dividend {
  float high, low;

  __device__ explicit Dividend(double weighted) {
    const auto rounded = static_cast<float>(weighted);
    const bool fits = fabsf(rounded) > 0x1p-60f && fabsf(rounded) < 0x1p60f;
    high = fits ? rounded : __uint_as_float(FloatTraits<float>::kQuietNan);
    low = static_cast<float>(weighted - static_cast<double>(rounded));
  }

  // Divided by the factor as divided_by does it; false where this cannot tell. The quotient's two
  // parts are within 2^-43 of it, so they round as it does unless they lie that near the middle of
  // two float32.
  __device__ bool divide(float factor, float& out) const {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(factor));
    const float first = high * inverse, rest = __fmaf_rn(-first, factor, high) + low,
                more = rest * inverse;
    out = first + more;
    const float lost = more - (out - first);
    const uint32_t bits = __float_as_uint(out);
    const float most = __uint_as_float(bits & 0x7f800000u) * (0x1p-24f * (1 - 0x1p-16f));
    // The neighbours of a power of two are not equally far.
    return fabsf(lost) < most && (bits & 0x7fffffu) != 0 && (bits >> 23 & 0xff) - 67 < 120;
  }
};

template <class T>
__device__ inline T factor_gradient(T factor, double weighted, uint32_t zeros) {
  const bool is_zero = static_cast<double>(factor) == 0;
  if (zeros != (is_zero ? 1u : 0u)) return zero_of<T>();
  return is_zero ? static_cast<T>(weighted) : divided_by<T>(weighted, factor);
}

// mul: each factor gets the product of the others, (g * P) / f, where P is the product of the
// factors that are not zero. With one zero only the zero itself has a gradient, with two nobody
// has.
template <class T>
struct ProductRule {
  using Value = T;
  static constexpr bool kByBits = false;

  struct Sum {
    double product = 1;
    uint32_t zeros = 0;
    __device__ void merge(const Sum& next) {
      product *= next.product;
      zeros += next.zeros;
    }
    __device__ void save(double* values, uint32_t* shares, int64_t at) const {
      values[at] = product;
      shares[at] = zeros;
    }
    __device__ void restore(const double* values, const uint32_t* shares, int64_t at) {
      product = values[at];
      zeros = shares[at];
    }
  };
  struct Share {
    double weighted = 0;  // the product, by the gradient
    uint32_t zeros = 0;
    Dividend dividend{0};

    __device__ void save(double* values, uint32_t* shares, int64_t at) const {
      values[at] = weighted;
      shares[at] = zeros;
    }
    __device__ void restore(const double* values, const uint32_t* shares, int64_t at) {
      *this = Share{values[at], shares[at], Dividend(values[at])};
    }
  };

  double self;

  __device__ void begin(const BackwardArgs<T>& b, int64_t dst, bool active) {
    self = active && b.include_self ? static_cast<double>(b.x[dst]) : 1;
  }
  __device__ bool add(Sum& sum, T value) const {
    const double factor = static_cast<double>(value);
    if (factor == 0)
      ++sum.zeros;
    else
      sum.product *= factor;
    return true;
  }
  __device__ void join(Sum& sum) const {
    if (self == 0)
      ++sum.zeros;
    else
      sum.product = self * sum.product;
  }
  __device__ Share end(const BackwardArgs<T>& b, int64_t dst, const Sum& sum) const {
    const double weighted = plain(static_cast<double>(b.grad[dst]) * plain(sum.product));
    if (b.x_grad != nullptr && b.include_self)
      b.x_grad[dst] = factor_gradient<T>(b.x[dst], weighted, sum.zeros);
    return {weighted, sum.zeros, Dividend(weighted)};
  }
  __device__ T part(const Share&) const { return zero_of<T>(); }
  __device__ T give(const Share& share, T value) const {
    if constexpr (std::is_same_v<T, float>) {
      float quick;
      if (share.zeros == 0 && share.dividend.divide(value, quick)) return quick;
    }
    return factor_gradient<T>(value, share.weighted, share.zeros);
  }
};

// The gradient of a place that no update reached, where the destination takes part itself.
template <class T>
__global__ void share_with_nobody(const T* grad, T* x_grad, int64_t elements) {
  for (int64_t i = global_thread(); i < elements; i += grid_threads())
    x_grad[i] = share_of(grad[i], 1);
}

}  // namespace sow::detail::cuda
