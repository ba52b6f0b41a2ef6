// The copy past the caches with AVX2 stores.
#include <immintrin.h>

#include <cstring>

#include "core/isa.h"
#include "cpu/move_run.h"

namespace sow::detail {

SOW_TARGET_AVX2 void copy_streaming_avx2(char* dst, const char* src, size_t bytes) {
  const size_t head = -reinterpret_cast<uintptr_t>(dst) & 63;
  if (bytes < head + 256) {
    std::memcpy(dst, src, bytes);
    return;
  }
  std::memcpy(dst, src, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    const auto* from = reinterpret_cast<const __m256i*>(src + i);
    auto* to = reinterpret_cast<__m256i*>(dst + i);
    const __m256i low = _mm256_loadu_si256(from);
    const __m256i high = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, low);
    _mm256_stream_si256(to + 1, high);
  }
  std::memcpy(dst + i, src + i, bytes - i);
  // Another thread may read what was written as soon as this one says that it is done.
  _mm_sfence();
}

}  // namespace sow::detail
