// SPDX-License-Identifier: Apache-2.0
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

// Where the source of a sample lies, without reading keys that only say where it goes. Samples lie
// all over the updates, in every column.
__device__ inline int64_t sampled_source(const Problem& p, int64_t sample) {
  const int64_t columns = p.free.count * p.row;
  const auto update = static_cast<int64_t>(
      __umul64hi(static_cast<uint64_t>(sample) * 0x9e3779b97f4a7c15u,
                 static_cast<uint64_t>(p.outer_count * p.item_count * columns)));
  const int64_t position = columns == 1 ? update : update / columns;
  const int64_t column = columns == 1 ? 0 : column_at(p, update - position * columns).src;
  if (p.place_table != nullptr || p.src_keys != 0) {
    bool bad = false;
    const Item item = decode_any(p, position, bad);
    return item.place < 0 ? -1 : item.src + column;
  }
  int64_t at[2] = {};
  walk_to(p.walk, position, 2, at);
  return at[1] + column;
}

// One more than the exponent field of a term; 0 where it says nothing of the others.
template <class T>
__device__ inline int field_of(T value) {
  const Term<T> term(value);
  if (!term.finite() || term.magnitude() == 0) return 0;
  return 1 + static_cast<int>(term.magnitude() >> (FloatTraits<T>::kDigits - 1));
}
template <class T>
__device__ inline int sampled_field(const Problem& p, int64_t sample) {
  const int64_t src = sampled_source(p, sample);
  return src < 0 ? 0 : field_of(load_value<T>(p, src));
}

// The exponent field where a fixed-point sum of `binades` should begin: the whole block looks at
// its samples, one `field` per thread (0: none). `counts` are as many words as there are exponents.
template <class T>
__device__ inline int scale_of_samples(int field, int binades, uint32_t* counts) {
  constexpr int kFields = (1 << FloatTraits<T>::kExponentBits) - 1;  // of finite numbers
  const int latest = max(kFields - binades, 1);  // a later range would take infinities for numbers
  __shared__ int highest;
  __shared__ unsigned long long best;
  if (threadIdx.x == 0) {
    highest = 0;
    best = 0;
  }
  __syncthreads();
  const int of_warp = static_cast<int>(__reduce_max_sync(~0u, static_cast<unsigned>(field)));
  if (threadIdx.x % 32 == 0 && of_warp > highest) atomicMax(&highest, of_warp);
  const int samples = __syncthreads_count(field != 0);
  // One binade is spared above the highest sample, the others below, where terms thin out slowly.
  const int below = min(max(highest + 1 - binades, 1), latest);
  const int held = __syncthreads_count(field != 0 && max(field - 1, 1) >= below);
  if (8 * held >= 7 * samples) return below;
  // Most lie lower: the range that holds most of them. A best one begins where a sample lies.
  for (int i = static_cast<int>(threadIdx.x); i < kFields; i += static_cast<int>(blockDim.x))
    counts[i] = 0;
  __syncthreads();
  if (field != 0) atomicAdd(counts + field - 1, 1u);
  __syncthreads();
  if (field != 0) {
    const int begin = max(field - 1, 1), end = min(begin + binades, kFields);
    unsigned long long inside = 0;
    int top = begin;
    for (int i = begin; i < end; ++i) {
      inside += counts[i];
      if (counts[i] != 0) top = i;
    }
    const int first = min(max(min(begin, top + 2 - binades), 1), latest);
    const unsigned long long mine = inside << 32 | static_cast<uint32_t>(first);
    if (mine > best) atomicMax(&best, mine);
  }
  __syncthreads();
  return max(static_cast<int>(static_cast<uint32_t>(best)), 1);
}

// Every block of the grid looks at samples of its own.
template <class T>
__device__ inline int sample_scale(const Problem& p, int binades, uint32_t* counts) {
  const int64_t sample = static_cast<int64_t>(threadIdx.x) * gridDim.x + blockIdx.x;
  return scale_of_samples<T>(sampled_field<T>(p, sample), binades, counts);
}

}  // namespace sow::detail::cuda
