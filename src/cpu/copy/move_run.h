// SPDX-License-Identifier: Apache-2.0
// Moves of one run of elements, by byte width.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sow::detail {

// dst[i * dst_stride] = src[i * src_stride] for i < count; strides count elements of `width` bytes.
void move_run(size_t width, char* dst, int64_t dst_stride, const char* src, int64_t src_stride,
              int64_t count);

// memcpy that writes past the caches where the machine has such stores: for destinations larger
// than the caches, whose lines would otherwise be read before they are written.
void copy_streaming(char* dst, const char* src, size_t bytes);

// The same for many short runs, where can_stream(): whole lines go past the caches, and are there
// for other threads only after finish_streams().
bool can_stream();
void stream_run(char* dst, const char* src, size_t bytes);
void finish_streams();

// Behind them, for AVX2 and better.
void stream_lines_avx2(char* dst, const char* src, size_t bytes);
void finish_streams_avx2();

// What a destination must have at least for streaming to pay.
inline constexpr int64_t kStreamingBytes = int64_t{8} << 20;

}  // namespace sow::detail
