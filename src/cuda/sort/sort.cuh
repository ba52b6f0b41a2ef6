// SPDX-License-Identifier: Apache-2.0
// The radix sort, once for each width; each is instantiated in a file of its own to keep builds
// short.
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include "cuda/sort/sort.h"

namespace sow::detail::cuda {

template <class U>
size_t sort_workspace(int64_t count, int bits) {
  size_t bytes = 0;
  cub::DoubleBuffer<U> keys, values;
  check(
      cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, static_cast<U>(count), 0, bits),
      "sort");
  return bytes;
}

template <class U>
void sort_pairs(U* (&keys)[2], U* (&values)[2], int64_t count, int bits, char* workspace,
                size_t bytes, cudaStream_t stream) {
  cub::DoubleBuffer<U> key_buffer(keys[0], keys[1]), value_buffer(values[0], values[1]);
  check(cub::DeviceRadixSort::SortPairs(workspace, bytes, key_buffer, value_buffer,
                                        static_cast<U>(count), 0, bits, stream),
        "sort");
  keys[1] = key_buffer.Alternate();
  keys[0] = key_buffer.Current();
  values[1] = value_buffer.Alternate();
  values[0] = value_buffer.Current();
}

}  // namespace sow::detail::cuda
