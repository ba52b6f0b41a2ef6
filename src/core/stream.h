// Stores that go past the caches, for data that is read again only after they have been filled
// anew.
#pragma once

#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace sow::detail {

// `bytes` is a multiple of 16 and `to` is aligned to 16.
inline void stream_bytes(char* to, const char* from, size_t bytes) {
#if defined(__x86_64__)
  for (size_t at = 0; at < bytes; at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

// Once after the last of them, before another thread reads.
inline void end_streaming() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace sow::detail
