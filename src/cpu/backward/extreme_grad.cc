// SPDX-License-Identifier: Apache-2.0
// Gradients of extremes in vectors: an update has the whole gradient of the columns it attains.
#if !defined(SOW_LEVEL)

#include "cpu/backward/extreme_grad.h"

#include <algorithm>

#include "cpu/common/prefetch.h"

#define SOW_KERNELS "cpu/backward/extreme_grad.cc"
#include "cpu/common/for_each_level.h"

namespace sow::detail {

ExtremeGradKernel extreme_grad_kernel(DType dtype, int shift) {
  return SOW_BY_LEVEL(kernel_for)(dtype, shift);
}

}  // namespace sow::detail

#else

#include "cpu/rows/row_reader.h"

namespace sow::detail::SOW_LEVEL {
namespace {

template <Rows How>
bool extreme_grad(const ExtremeGrad& work) {
  constexpr int kVectors = kTileColumns / kColumns<float>;
  constexpr uint32_t kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;
  const RowReader<float, kVectors, How> reader(work.rows, 0);
  U32 best[kVectors], part[kVectors], ties[kVectors], bits[kVectors];
  U32 other = {};
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    const int64_t at = int64_t{kVectorBytes} * i;
    best[i] = load<U32>(work.result + at);
    part[i] = load<U32>(work.grad + at);
    // Values that are not numbers tie whatever their bits.
    other |= (U32)((best[i] & kMagnitude) > kInfinity);
    part[i] = (part[i] & kMagnitude) > kInfinity ? all_of<U32>(0x7fc00000u) : part[i];
    ties[i] = work.x == nullptr ? U32{} : (U32)(load<U32>(work.x + at) == best[i]);
    if (work.x_grad != nullptr) store(work.x_grad + at, part[i] & ties[i]);
  }
  if (any(other)) return false;
  for (int64_t k = 0; k < work.rows.count; ++k) {
    reader.prefetch_row(k);
    reader.read(k, bits);
    char* const to = work.source_grad + work.rows.ids[k] * work.rows.src_step;
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      const U32 wins = (U32)(bits[i] == best[i]);
      ties[i] += wins;
      bits[i] = part[i] & wins;
    }
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      if (work.streams) {
        stream(to + int64_t{kVectorBytes} * i, bits[i]);
      } else {
        store(to + int64_t{kVectorBytes} * i, bits[i]);
      }
    }
  }
  reader.prefetch_remaining();
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) other |= ~ties[i];  // which is -1 where one attains
  return !any(other);
}

// Only where all columns have their vectors in registers.
ExtremeGradKernel kernel_for(DType dtype, int shift) {
  if constexpr (kReadsLines) {
    if (dtype == DType::float32)
      return shift != 0 ? extreme_grad<Rows::shifted> : extreme_grad<Rows::whole>;
  }
  return nullptr;
}

}  // namespace
}  // namespace sow::detail::SOW_LEVEL

#endif
