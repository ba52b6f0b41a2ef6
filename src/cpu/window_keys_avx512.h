// What the window loops with AVX-512 share: how keys are checked, and what is sent for.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/isa.h"
#include "cpu/touch.h"
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

// How far ahead keys and values are sent for, in bytes.
inline constexpr int64_t kStream = 16384;
// Cells that leave the second-level cache are sent for as well. 2^22 float32 to 131,072 places on
// two threads: 2.05 ms with those of 32 updates ahead sent to the first level, 2.3 with those of
// 128 ahead sent to the second; to 524,288 places 2.9 and 2.5, to 2^20 on one thread 6.0 and 5.1,
// and 9.9 where nothing is sent for (a Zen 4 class EPYC, 2026-11-16).
struct Near {
  static constexpr int kAhead = 0;
};
struct Beyond {
  static constexpr int kAhead = 32;
  static constexpr uint32_t kBytes = 768 * 1024;
  static void send(const void* cells, int64_t bytes) { send_for(cells, bytes); }
};
struct Far {
  static constexpr int kAhead = 128;
  static constexpr uint32_t kBytes = 2 * 1024 * 1024;
  static void send(const void* cells, int64_t bytes) { send_ahead(cells, bytes); }
};

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
