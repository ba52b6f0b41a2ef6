// Pieces of the loops of pairs that every instruction set has.
#pragma once

#include <algorithm>

#include "cpu/pair_kernels.h"
#include "cpu/touch.h"
#include "cpu/word.h"
#include "transfer/canonical.h"

namespace sow::detail {

// Pairs of a line: the one that a bucket fills next is sent for while it fills this one.
inline constexpr int kLinePairs = 8;

[[gnu::always_inline]] inline void deal_pairs(const PairDeal& to, DealBlocks& blocks,
                                              const uint32_t* codes, const char* values, int first,
                                              int past) {
  const auto value_of = [&](int i) -> uint64_t {
    return to.value_size == 4 ? uint64_t{reinterpret_cast<const Word<4>*>(values)[i].bits}
                              : uint64_t{reinterpret_cast<const Word<2>*>(values)[i].bits};
  };
  const uint32_t mask = (uint32_t{1} << to.bits) - 1, last = blocks.last();
  for (int i = first; i < past; ++i) {
    const uint32_t bucket = codes[i] >> to.bits, at = to.ends[bucket];
    send_ahead(to.pairs, (int64_t{at} + kLinePairs) * 8);
    to.pairs[at] = (codes[i] & mask) | value_of(i) << 32;
    to.ends[bucket] = (at & last) == last ? blocks.after(bucket, at) : at + 1;
  }
}

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

// Calls f(first, last) for a line of pairs at a time. In between it sends for the pairs that come
// next and, a share after each line, for the block that does.
template <class F>
[[gnu::always_inline]] inline void for_each_strip_of_pairs(const Block& block, int64_t count,
                                                           const void* soon, F&& f) {
  constexpr int64_t kStrip = 8, kLine = 64;
  const int64_t strips = std::max<int64_t>((count + kStrip - 1) / kStrip, 1);
  const int64_t lines = (block.soon_bytes + kLine - 1) / kLine;
  int64_t sent = 0, owed = 0;
  const auto send = [&](int64_t i) {
    send_ahead(soon, i * 8);
    for (owed += lines; owed >= strips; owed -= strips) send_ahead(block.soon, kLine * sent++);
  };
  int64_t i = 0;
  for (; i + kStrip <= count; i += kStrip) {
    send(i);
    f(i, i + kStrip);  // of so many, as the compiler sees
  }
  if (i == count) return;
  send(i);
  f(i, count);
}

}  // namespace sow::detail
