// SPDX-License-Identifier: Apache-2.0
// The portable kernels under a mask, and the choice among the instruction sets.
#include "cpu/mask/mask_kernels.h"

#include "cpu/mask/mask_loops.h"

namespace sow::detail {
namespace {

int64_t count_bytes(const uint8_t* mask, int64_t count) {
  int64_t total = 0;
  while (count > 0) {
    // As many as bytes can count, so that the compiler sums whole registers of them.
    const int64_t chunk = count < 255 * 16 ? count : 255 * 16;
    uint8_t lanes[16] = {};
    int64_t i = 0;
    for (; i + 16 <= chunk; i += 16) {
      for (int j = 0; j < 16; ++j) lanes[j] = static_cast<uint8_t>(lanes[j] + (mask[i + j] != 0));
    }
    for (const uint8_t lane : lanes) total += lane;
    for (; i < chunk; ++i) total += mask[i] != 0;
    mask += chunk;
    count -= chunk;
  }
  return total;
}

}  // namespace

const MaskKernels k_mask_kernels_portable = {
    count_bytes,
    {expand_loop<1>, expand_loop<2>, expand_loop<4>, expand_loop<8>, expand_loop<16>},
    {expand_loop<1>, expand_loop<2>, expand_loop<4>, expand_loop<8>, expand_loop<16>},
    {compress_loop<1>, compress_loop<2>, compress_loop<4>, compress_loop<8>, compress_loop<16>},
    {blend_loop<1, false>, blend_loop<2, false>, blend_loop<4, false>, blend_loop<8, false>,
     blend_loop<16, false>},
    {blend_loop<1, true>, blend_loop<2, true>, blend_loop<4, true>, blend_loop<8, true>,
     blend_loop<16, true>},
};

const MaskKernels& mask_kernels() {
  if constexpr (SOW_HAS_X86_KERNELS) {
    const Isa isa = current_isa();
    if (isa == Isa::avx512) return k_mask_kernels_avx512;
    if (isa == Isa::avx2) return k_mask_kernels_avx2;
  }
  return k_mask_kernels_portable;
}

}  // namespace sow::detail
