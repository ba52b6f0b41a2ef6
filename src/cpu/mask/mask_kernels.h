// SPDX-License-Identifier: Apache-2.0
// The inner loops under a mask, for contiguous runs, by instruction set and byte width.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/isa.h"

namespace sow::detail {

struct MaskKernels {
  // The trues among `count` bytes.
  using Count = int64_t (*)(const uint8_t* mask, int64_t count);
  // dst[i] = mask[i] ? src[rank] : base[i], and returns the trues. base == dst keeps false places.
  // `available` elements of src may be read, and there are at least as many as trues.
  using Expand = int64_t (*)(char* dst, const char* base, const uint8_t* mask, const char* src,
                             int64_t count, int64_t available);
  // dst[rank] = src[i] where mask[i], and returns the trues. `room` elements of dst may be
  // written, and there are at least as many as trues.
  using Compress = int64_t (*)(char* dst, const uint8_t* mask, const char* src, int64_t count,
                               int64_t room);
  // dst[i] = mask[i] ? src[i] : base[i].
  using Blend = void (*)(char* dst, const char* base, const uint8_t* mask, const char* src,
                         int64_t count);

  // By width_slot. `streaming` writes past the caches, for destinations larger than them.
  Count count;
  Expand expand[5];
  Expand expand_streaming[5];
  Compress compress[5];
  Blend blend[5];       // src is as long as dst
  Blend blend_same[5];  // src is one element, for all
};

extern const MaskKernels k_mask_kernels_portable;
extern const MaskKernels k_mask_kernels_avx2;
extern const MaskKernels k_mask_kernels_avx512;

// Those of the current instruction set.
const MaskKernels& mask_kernels();

}  // namespace sow::detail
