// SPDX-License-Identifier: Apache-2.0
// Copies past the caches with AVX2 stores.
#include <immintrin.h>

#include "core/isa.h"
#include "cpu/copy/move_run.h"

namespace sow::detail {

SOW_TARGET_AVX2 void stream_lines_avx2(char* dst, const char* src, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    const auto* from = reinterpret_cast<const __m256i*>(src + i);
    auto* to = reinterpret_cast<__m256i*>(dst + i);
    const __m256i low = _mm256_loadu_si256(from);
    const __m256i high = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, low);
    _mm256_stream_si256(to + 1, high);
  }
}

// Another thread may read what was written as soon as this one says that it is done.
SOW_TARGET_AVX2 void finish_streams_avx2() { _mm_sfence(); }

}  // namespace sow::detail
