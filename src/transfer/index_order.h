// The order of a held index: its items by destination, ready for every later fold.
#pragma once

#include <cstdint>
#include <vector>

#include "sow/index.h"

namespace sow::detail {

struct IndexOrder {
  int64_t size = 0;   // of the axis the keys address
  int64_t count = 0;  // of the keys, dropped ones included
  Bounds bounds = Bounds::error;
  IndexFacts facts;  // what is true of the keys, declared or not

  // The kept items sorted by key, ties in row-major order. Empty if there are 2^32 keys or more:
  // then every use sorts for itself.
  std::vector<uint32_t> keys;       // wrapped, ascending
  std::vector<uint32_t> positions;  // of each in the row-major index
  std::vector<uint32_t> begins;     // where each destination's items begin, and the end

  bool kept() const { return !begins.empty(); }
  // Whether a use under these bounds finds the same keys. One whose keys were all in range when
  // they were held is not checked again.
  bool serves(Bounds use) const {
    return use == bounds || (use == Bounds::promise && bounds == Bounds::error);
  }
};

}  // namespace sow::detail
