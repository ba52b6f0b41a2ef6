// What the window loops with AVX-512 share: the check of sixteen keys.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/isa.h"
#include "cpu/window_sum.h"

namespace sow::detail {

// Whether any of sixteen keys is not a cell.
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint64_t* keys, uint32_t extent) {
  const __m512i most =
      _mm512_maskz_max_epu64(0xff, _mm512_loadu_si512(keys), _mm512_loadu_si512(keys + 8));
  return _mm512_cmpge_epu64_mask(most, _mm512_set1_epi64(extent));
}
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint32_t* keys, uint32_t extent) {
  return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(keys),
                                 _mm512_set1_epi32(static_cast<int>(extent)));
}

// Calls f with the keys from the first on, as what they are.
template <class F>
[[gnu::always_inline]] inline int64_t with_keys(const KeyedValues& keys, int64_t first, F&& f) {
  if (keys.wide) return f(reinterpret_cast<const uint64_t*>(keys.data) + first);
  return f(reinterpret_cast<const uint32_t*>(keys.data) + first);
}

// The kernels of a type, where they are other than in plain C++.
template <class T>
void use_avx512(WindowKernels& kernels);
template <class T>
void use_avx512(WideSums& sums, bool mean);

}  // namespace sow::detail
