// SPDX-License-Identifier: Apache-2.0
// Pieces of the loops of pairs that every instruction set has.
#pragma once

#include <algorithm>

#include "cpu/common/byte_width.h"
#include "cpu/common/prefetch.h"
#include "cpu/partition/pair_kernels.h"
#include "transfer/canonical.h"

namespace sow::detail {

// Pairs of a line: the one that a bucket fills next is prefetched while it fills this one.
inline constexpr int kLinePairs = 8;

[[gnu::always_inline]] inline void unpack_pairs(const uint64_t* pairs, int64_t first, int64_t past,
                                                uint32_t* cells, void* values, int value_size) {
  for (int64_t i = first; i < past; ++i) {
    cells[i] = static_cast<uint32_t>(pairs[i]);
    const auto value = static_cast<uint32_t>(pairs[i] >> 32);
    if (value_size == 4) {
      static_cast<Word<4>*>(values)[i].bits = value;
    } else {
      static_cast<Word<2>*>(values)[i].bits = static_cast<uint16_t>(value);
    }
  }
}

// Calls f(first, last) for a line of pairs at a time. In between it prefetches the pairs that come
// next and, a share after each line, for the block that does.
template <class F>
[[gnu::always_inline]] inline void for_each_batch_of_pairs(const PlaceRange& block, int64_t count,
                                                           const void* to_prefetch, F&& f) {
  constexpr int64_t kBatch = 8, kLine = 64;
  const int64_t batches = std::max<int64_t>((count + kBatch - 1) / kBatch, 1);
  const int64_t lines = (block.to_prefetch_bytes + kLine - 1) / kLine;
  int64_t sent = 0, owed = 0;
  const auto send = [&](int64_t i) {
    prefetch_l2(to_prefetch, i * 8);
    for (owed += lines; owed >= batches; owed -= batches)
      prefetch_l2(block.to_prefetch, kLine * sent++);
  };
  int64_t i = 0;
  for (; i + kBatch <= count; i += kBatch) {
    send(i);
    f(i, i + kBatch);  // of so many, as the compiler sees
  }
  if (i == count) return;
  send(i);
  f(i, count);
}

}  // namespace sow::detail
