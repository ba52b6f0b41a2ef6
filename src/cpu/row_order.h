// The items of one outer position in the order of their destinations: a stable sort.
#pragma once

#include "cpu/cell_fold.h"
#include "cpu/place_code.h"
#include "cpu/update_reader.h"

namespace sow::detail {

// Keys that are not far more than the items are cut into buckets by their upper bits, then each
// bucket is counted out inside the first-level cache. Others are sorted digit by digit. Keys that
// come in order are left where they are.
class RowOrder {
 public:
  RowOrder(const Transfer& transfer, const Canonical& canonical, int workers, Carver& carver);

  // Decodes and sorts; then the members below say what RowJob needs.
  void build(const OuterBase& base);

  const PlaceCode& places() const { return places_; }
  const PlaceCode& sources() const { return sources_; }
  const uint32_t* keys() const { return keys_[current_]; }    // the place of each item
  const uint32_t* codes() const { return codes_[current_]; }  // where each item is read
  const uint32_t* begins() const { return begins_; }
  int64_t segments() const { return segments_; }
  int64_t items() const { return items_; }

 private:
  struct Found {
    int64_t items, segments;
    uint32_t first, last;  // keys
    bool ascending;
  };
  struct Pair {
    uint32_t key, code;
  };

  void decode(const OuterBase& base, int worker);
  bool decode_runs(const OuterBase& base, int worker);
  void close_gaps();
  bool is_sorted() const;
  void sort_by_buckets();
  void fill_buckets();
  void count_out(int64_t bucket, uint32_t* counts);
  void sort_by_digit(int shift);
  void find_segments();
  int64_t first_of(int worker) const { return capacity_ * worker / workers_; }

  const Transfer& transfer_;
  const Canonical& canonical_;
  PlaceCode places_, sources_;
  int workers_;
  bool bucketed_;
  int low_bits_;  // of a key inside its bucket
  int64_t buckets_;
  int passes_, digit_bits_;  // where there are no buckets
  int64_t capacity_;
  uint32_t* keys_[2];
  uint32_t* codes_[2];
  Pair* pairs_;  // in the memory of keys_[1] and codes_[1]
  uint32_t* begins_;
  uint32_t* starts_;  // [worker][digit or bucket]
  uint32_t* ends_;    // of the buckets
  uint32_t* bucket_segments_;
  uint32_t* counts_;  // [worker][key inside a bucket]
  Found* found_;      // [worker]
  int current_ = 0;
  int64_t items_ = 0, segments_ = 0;
};

}  // namespace sow::detail
