// What the window loops with AVX-512 share: the check of sixteen keys.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/isa.h"
#include "cpu/window_sum.h"

namespace sow::detail {

// Whether any of sixteen keys is not a cell.
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint64_t* keys, uint32_t extent) {
  const __m512i end = _mm512_set1_epi64(extent);
  return static_cast<uint32_t>(_mm512_cmpge_epu64_mask(_mm512_loadu_si512(keys), end)) |
         static_cast<uint32_t>(_mm512_cmpge_epu64_mask(_mm512_loadu_si512(keys + 8), end));
}
SOW_TARGET_AVX512 inline uint32_t not_cells(const uint32_t* keys, uint32_t extent) {
  return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(keys),
                                 _mm512_set1_epi32(static_cast<int>(extent)));
}

// The kernels of a type, where they are other than in plain C++.
template <class T>
void use_avx512(WindowKernels& kernels);
template <class T>
void use_avx512(WideSums& sums, bool mean);

}  // namespace sow::detail
