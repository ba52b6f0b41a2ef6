// SPDX-License-Identifier: Apache-2.0
// Offsets that are all multiples of one step from a lowest one, as small numbers without gaps.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "transfer/canonical.h"

namespace sow::detail {

class OffsetIds {
 public:
  OffsetIds() = default;

  // Offsets grow by multiples of `stride` up to (extent - 1) * stride.
  void add(int64_t extent, int64_t stride) {
    if (extent <= 1 || stride == 0) return;
    if (stride < 0) lowest_ += (extent - 1) * stride;
    span_ += (extent - 1) * std::abs(stride);
    step_ = std::gcd(step_, std::abs(stride));
  }
  // Once everything was added.
  void close() {
    if (step_ == 0) step_ = 1;
    shift_ = __builtin_ctzll(static_cast<uint64_t>(step_));
    // Newton's iteration for the inverse of an odd number modulo 2^64.
    const uint64_t odd = static_cast<uint64_t>(step_) >> shift_;
    inverse_ = odd;
    for (int i = 0; i < 5; ++i) inverse_ *= 2 - odd * inverse_;
  }

  int64_t count() const { return span_ / step_ + 1; }
  int64_t step() const { return step_; }
  int64_t lowest() const { return lowest_; }
  // Offsets count from the base that the caller subtracts; the division is exact.
  uint64_t id_of(int64_t offset) const {
    return (static_cast<uint64_t>(offset - lowest_) >> shift_) * inverse_;
  }
  int64_t offset_of(uint64_t id) const { return lowest_ + static_cast<int64_t>(id) * step_; }

 private:
  int64_t lowest_ = 0, span_ = 0, step_ = 0;
  int shift_ = 0;
  uint64_t inverse_ = 1;
};

// The places that the index reaches from one outer position.
inline OffsetIds item_places(const Transfer& transfer) {
  OffsetIds places;
  for (const IndexOperand& index : transfer.dst_index) places.add(index.extent, index.scale);
  places.close();
  return places;
}

// The places of the whole destination; offsets count from its first element.
inline OffsetIds all_places(const Transfer& transfer, const Canonical& canonical) {
  OffsetIds places;
  for (const Axis& axis : canonical.outer) places.add(axis.size, axis.dst);
  places.add(canonical.row.size, canonical.row.dst);
  for (const IndexOperand& index : transfer.dst_index) places.add(index.extent, index.scale);
  places.close();
  return places;
}

// Where the items of one outer position are read.
inline OffsetIds item_sources(const Transfer& transfer, const Canonical& canonical) {
  OffsetIds places;
  for (const Axis& axis : canonical.items) places.add(axis.size, axis.src);
  for (const IndexOperand& index : transfer.src_index) places.add(index.extent, index.scale);
  places.close();
  return places;
}

}  // namespace sow::detail
