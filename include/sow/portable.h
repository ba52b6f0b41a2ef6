// SPDX-License-Identifier: Apache-2.0
// What host and device code share: the mark for functions of both, and the two bit operations that
// the standard library offers to the host alone.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define SOW_HD __host__ __device__
#else
#define SOW_HD
#endif

namespace sow::detail {

template <class To, class From>
SOW_HD inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// Undefined for zero, like the instruction behind it.
SOW_HD inline int count_leading_zeros(uint64_t word) {
#if defined(__CUDA_ARCH__)
  return __clzll(static_cast<long long>(word));
#else
  return __builtin_clzll(word);
#endif
}

}  // namespace sow::detail
