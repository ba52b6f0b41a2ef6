// Fixed-point accumulation in one 64-bit integer: which binades it holds, where the range is laid
// (by a sample of the terms), and what a term adds.
#pragma once

#include "core/exact/exact_sum.h"
#include "cuda/common/dtypes.h"
#include "cuda/common/updates.cuh"

namespace sow::detail::cuda {

// The types whose sums 64-bit fixed point holds, and a call with a zero of one of them.
inline bool has_fixed_point(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32;
}
template <class F>
auto with_fixed_point(DType dtype, F&& f) {
  return with_type<float16, bfloat16, float>(dtype, f);
}

// Binades of a fixed-point sum that holds the sum of `terms` numbers of so many digits.
inline int fixed_point_binades(int digits, int most_shift, int64_t terms) {
  int bits = 0;
  while (bits < 40 && (int64_t{1} << bits) < terms) ++bits;
  return std::min(63 - digits - bits, most_shift + 1);
}

// What a term of these bits adds to a fixed-point sum of `binades` from the exponent field `first`
// (at least 1) on; false where it lies outside. Zeros and subnormals always do.
template <class T>
__device__ inline bool fixed_point_amount(T value, int first, int binades, int64_t& amount) {
  using Traits = FloatTraits<T>;
  const uint32_t bits = bit_cast<typename Traits::Bits>(value);
  const uint32_t exponent = (bits >> (Traits::kDigits - 1)) & ((1u << Traits::kExponentBits) - 1);
  const uint32_t shift = exponent - static_cast<uint32_t>(first);
  const uint64_t mantissa = (bits & (Traits::kHidden - 1u)) | Traits::kHidden;
  const int64_t magnitude = static_cast<int64_t>(mantissa << (shift & 63));
  amount = (bits & Traits::kSign) != 0 ? -magnitude : magnitude;
  return shift < static_cast<uint32_t>(binades);
}

// The exponent field where a fixed-point sum of `binades` should begin: the whole block looks at a
// sample, one term per thread, and takes the fixed-point range that holds most of them. `counts`
// are as many words as there are exponents.
template <class T>
__device__ inline int sample_scale(const Problem& p, int binades, uint32_t* counts) {
  using Traits = FloatTraits<T>;
  constexpr int kFields = (1 << Traits::kExponentBits) - 1;  // of finite numbers
  __shared__ unsigned long long highest, lowest;
  for (int i = static_cast<int>(threadIdx.x); i < kFields; i += static_cast<int>(blockDim.x))
    counts[i] = 0;
  if (threadIdx.x == 0) highest = lowest = 0;
  __syncthreads();
  const int64_t count = p.outer_count * p.item_count;
  const int64_t samples = grid_threads(),
                sample = static_cast<int64_t>(threadIdx.x) * gridDim.x + blockIdx.x;
  bool bad = false;
  const Item item =
      decode_any(p, count >= samples ? count / samples * sample : sample % count, bad);
  if (item.place >= 0) {
    const Term<T> term(load_value<T>(p, item.src));
    if (term.finite() && term.magnitude() != 0)
      atomicAdd(counts + (term.magnitude() >> (Traits::kDigits - 1)), 1u);
  }
  __syncthreads();
  const int last = max(kFields - binades, 1);
  for (int first = 1 + static_cast<int>(threadIdx.x); first <= last;
       first += static_cast<int>(blockDim.x)) {
    unsigned long long held = 0;
    for (int i = first; i < min(first + binades, kFields); ++i) held += counts[i];
    atomicMax(&highest, held << 32 | static_cast<uint32_t>(first));
    atomicMax(&lowest, held << 32 | static_cast<uint32_t>(kFields - first));
  }
  __syncthreads();
  // Of those that hold as many: one binade is spared above, the others below, where terms thin out
  // slowly.
  return static_cast<int>(
      min(kFields - static_cast<uint32_t>(lowest) + 1, static_cast<uint32_t>(highest)));
}

}  // namespace sow::detail::cuda
