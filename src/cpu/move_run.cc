// Moves of one run of elements: memcpy, fill, or a strided loop by width.
#include "cpu/move_run.h"

#include <cstring>

#include "core/isa.h"
#include "cpu/word.h"

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

void copy_streaming(char* dst, const char* src, size_t bytes) {
  if constexpr (SOW_HAS_X86_KERNELS) {
    if (current_isa() != Isa::portable) return copy_streaming_avx2(dst, src, bytes);
  }
  std::memcpy(dst, src, bytes);
}

}  // namespace sow::detail
