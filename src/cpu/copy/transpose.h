// SPDX-License-Identifier: Apache-2.0
// Copies between two dimensions that the sides run through in opposite order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sow::detail {

// dst[r * dst_row + c * dst_column] = src[r * src_row + c * src_column]; strides count elements.
struct Tiles {
  char* dst;
  const char* src;
  int64_t rows, columns;
  int64_t dst_row, dst_column;
  int64_t src_row, src_column;
};
void copy_tiles(const Tiles& tiles, size_t width);

}  // namespace sow::detail
