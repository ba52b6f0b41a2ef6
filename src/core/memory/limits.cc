// SPDX-License-Identifier: Apache-2.0
// What callers allow an operation to take, and how much it may work on at a time.
#include "sow/limits.h"

#include <atomic>
#include <mutex>

#include "core/fail.h"

namespace sow {

namespace {

std::atomic<int64_t> scratch_bytes{0};
std::mutex tiles_mutex;
std::atomic<bool> has_tiles{false};
Dims& tiles_for_all() {
  static Dims* const tiles = new Dims;  // never destroyed: threads may outlive main
  return *tiles;
}
thread_local std::optional<Dims> tiles_here;

void expect_tiles(const Dims& shape) {
  for (const int64_t extent : shape) {
    if (extent < 1)
      detail::fail(ErrorKind::argument,
                   "tiles: the shape has an extent of {}; a tile must hold one element at least",
                   extent);
  }
}

}  // namespace

void limit_memory(int64_t bytes) {
  if (bytes < 0)
    detail::fail(ErrorKind::argument, "limit_memory: {} bytes; it must not be negative", bytes);
  scratch_bytes.store(bytes);
}
int64_t scratch_limit() { return scratch_bytes.load(std::memory_order_relaxed); }

void set_tile_shape(const Dims& shape) {
  expect_tiles(shape);
  const std::lock_guard lock(tiles_mutex);
  tiles_for_all() = shape;
  has_tiles.store(!shape.empty());
}

Tiles::Tiles(const Dims& shape) : previous_(tiles_here) {
  expect_tiles(shape);
  tiles_here = shape;
}
Tiles::~Tiles() { tiles_here = previous_; }

bool has_tile_shape() {
  return tiles_here ? !tiles_here->empty() : has_tiles.load(std::memory_order_relaxed);
}

Dims tile_shape() {
  if (tiles_here) return *tiles_here;
  if (!has_tiles.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(tiles_mutex);
  return tiles_for_all();
}

}  // namespace sow
