// The items of one outer position in the order of their destinations: a stable radix sort.
#pragma once

#include "cpu/cell_fold.h"
#include "cpu/place_code.h"
#include "cpu/update_reader.h"

namespace sow::detail {

class RowOrder {
 public:
  RowOrder(const Transfer& transfer, const Canonical& canonical, int workers, Carver& carver);

  // Decodes and sorts; then the members below say what RowJob needs.
  void build(const OuterBase& base);

  const PlaceCode& places() const { return places_; }
  const PlaceCode& sources() const { return sources_; }
  const uint32_t* keys() const { return keys_[current_]; }    // the place of each item
  const uint32_t* codes() const { return codes_[current_]; }  // where each item is read
  const uint32_t* begins() const { return keys_[1 - current_]; }
  int64_t segments() const { return segments_; }
  int64_t items() const { return items_; }

 private:
  void decode(const OuterBase& base, int worker);
  void sort_by(int shift);
  void find_segments();
  int64_t first_of(int worker) const { return capacity_ * worker / workers_; }

  const Transfer& transfer_;
  const Canonical& canonical_;
  PlaceCode places_, sources_;
  int workers_;
  int passes_, digit_bits_;
  int64_t capacity_;
  uint32_t* keys_[2];
  uint32_t* codes_[2];
  uint32_t* starts_;  // [worker][digit]
  int64_t* kept_;     // [worker]: items after the first decoding, segments at the end
  int current_ = 0;
  bool compact_ = false;  // the workers' pieces have no gaps between them
  int64_t items_ = 0, segments_ = 0;
};

}  // namespace sow::detail
