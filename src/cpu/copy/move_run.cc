// SPDX-License-Identifier: Apache-2.0
// Moves of one run of elements: memcpy, fill, or a strided loop by width.
#include "cpu/copy/move_run.h"

#include <cstring>

#include "core/isa.h"
#include "cpu/common/byte_width.h"

namespace sow::detail {
namespace {

template <int Width>
void move_words(Word<Width>* dst, int64_t dst_stride, const Word<Width>* src, int64_t src_stride,
                int64_t count) {
  if (src_stride == 0) {
    const Word<Width> value = *src;
    if (dst_stride == 1) {
      for (int64_t i = 0; i < count; ++i) dst[i] = value;
    } else {
      for (int64_t i = 0; i < count; ++i) dst[i * dst_stride] = value;
    }
  } else if (dst_stride == 1) {
    for (int64_t i = 0; i < count; ++i) dst[i] = src[i * src_stride];
  } else if (src_stride == 1) {
    for (int64_t i = 0; i < count; ++i) dst[i * dst_stride] = src[i];
  } else {
    for (int64_t i = 0; i < count; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

}  // namespace

void move_run(size_t width, char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
              int64_t count) {
  if (dst_stride == 1 && src_stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(count) * width);
    return;
  }
  if (count == 0) return;
  with_width(width, [&](auto constant) {
    using Element = Word<decltype(constant)::value>;
    move_words(reinterpret_cast<Element*>(dst), dst_stride, reinterpret_cast<const Element*>(src),
               src_stride, count);
  });
}

bool can_stream() { return SOW_HAS_X86_KERNELS && current_isa() != Isa::portable; }

void stream_run(char* dst, const char* src, size_t bytes) {
  const size_t head = -reinterpret_cast<uintptr_t>(dst) & 63;
  // Lines that are written in part are read all the same: a run must have whole ones.
  if (!SOW_HAS_X86_KERNELS || bytes < (head == 0 ? 64 : head + 128)) {
    std::memcpy(dst, src, bytes);
    return;
  }
  if constexpr (SOW_HAS_X86_KERNELS) {
    const size_t lines = (bytes - head) & ~size_t{63};
    if (head != 0) std::memcpy(dst, src, head);
    stream_lines_avx2(dst + head, src + head, lines);
    const size_t done = head + lines;
    if (done != bytes) std::memcpy(dst + done, src + done, bytes - done);
  }
}

void finish_streams() {
  if constexpr (SOW_HAS_X86_KERNELS) finish_streams_avx2();
}

void copy_streaming(char* dst, const char* src, size_t bytes) {
  if (!can_stream()) {
    std::memcpy(dst, src, bytes);
    return;
  }
  stream_run(dst, src, bytes);
  finish_streams();
}

}  // namespace sow::detail
