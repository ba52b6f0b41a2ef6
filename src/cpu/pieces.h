// Work cut into pieces that threads take one after another.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/parallel.h"

namespace sow::detail {

// Piece p of [0, count) cut into `pieces` of nearly equal length, at multiples of `unit`.
struct Pieces {
  int64_t count;
  int pieces;
  int64_t unit = 1;

  int64_t begin(int piece) const {
    if (piece == pieces) return count;
    const int64_t at = count / pieces * piece + std::min<int64_t>(piece, count % pieces);
    return at - at % unit;
  }
  int64_t end(int piece) const { return begin(piece + 1); }
};

// How many pieces: one if there is not work for two threads, else a few a thread, so that a thread
// that is held up leaves its share to others.
inline int choose_pieces(int64_t work, int64_t grain, int threads, int a_thread) {
  if (threads <= 1 || work < 2 * grain) return 1;
  return static_cast<int>(std::min<int64_t>(work / grain, int64_t{a_thread} * threads));
}

// Calls f(piece) for every piece in [0, pieces), in any order.
template <class F>
void for_each_piece(int threads, int pieces, F&& f) {
  if (threads <= 1 || pieces <= 1) {
    for (int piece = 0; piece < pieces; ++piece) f(piece);
    return;
  }
  std::atomic<int> next{0};
  parallel_run(std::min(threads, pieces), [&](int, int) {
    for (int piece; (piece = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) f(piece);
  });
}

}  // namespace sow::detail
