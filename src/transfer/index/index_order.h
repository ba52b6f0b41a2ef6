// SPDX-License-Identifier: Apache-2.0
// The order of a held index: its items by destination, ready for every later fold.
#pragma once

#include <cstdint>
#include <vector>

#include "core/memory/memory.h"
#include "sow/index.h"

namespace sow::detail {

// Numbers in the pool's memory: an order that is made and dropped again meets warm pages.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  explicit PoolAllocator(const PoolAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(detail::allocate(count * sizeof(T))); }
  void deallocate(T* block, size_t count) { detail::deallocate(block, count * sizeof(T)); }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};
using PoolNumbers = std::vector<uint32_t, PoolAllocator<uint32_t>>;

// The most items of a place that a device folds in one piece.
inline constexpr uint32_t kHeadItems = 256;

struct IndexOrder {
  int64_t size = 0;   // of the axis the keys address
  int64_t count = 0;  // of the keys, dropped ones included
  Bounds bounds = Bounds::error;
  IndexFacts facts;  // what is true of the keys, declared or not

  // The kept items sorted by key, ties in row-major order. Empty if there are 2^32 keys or more:
  // then every use sorts for itself.
  PoolNumbers keys;       // wrapped, ascending; of a destination's only the first need be right
  PoolNumbers positions;  // of each in the row-major index
  PoolNumbers begins;     // where each destination's items begin, and the end

  // The same in the memory of the CUDA device that the keys are on: `count` of each, those of
  // dropped items at the end with `size` for a key.
  Tensor on_device;
  const uint32_t* device_keys = nullptr;
  const uint32_t* device_positions = nullptr;
  // Where each place's items begin, how many they are, the place and 0, after a row that says how
  // many places there are; null where one has more than kHeadItems items.
  Tensor listed_on_device;
  const uint32_t* device_heads = nullptr;
  int64_t device_places = 0;

  bool kept() const { return !begins.empty(); }
  // Whether a use under these bounds finds the same keys. One whose keys were all in range when
  // they were held is not checked again.
  bool serves(Bounds use) const {
    return use == bounds || (use == Bounds::promise && bounds == Bounds::error);
  }
};

struct Canonical;
struct Transfer;

// The held order if the items are exactly the held keys, row-major, at every outer position.
const IndexOrder* usable_order(const Transfer& transfer, const Canonical& canonical);

// The keys as the destination of a Transfer whose sources are the positions 0, 1, 2, ...: what an
// order is made of, and in how much memory.
Transfer keys_alone(const Tensor& keys, int64_t size, Bounds bounds);
size_t order_workspace(const Transfer& keys, int threads);
// Fills in the order of checked keys; it allocates nothing where there is room for count + 1 each.
void order_keys(const Transfer& keys, int threads, char* workspace, IndexOrder& order);

}  // namespace sow::detail
