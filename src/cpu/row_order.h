// The items of one outer position in the order of their destinations: a stable sort.
#pragma once

#include "core/parallel.h"
#include "cpu/cell_fold.h"
#include "cpu/place_code.h"
#include "cpu/task_shares.h"
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
  void build(const OuterBase& base, Team& team);

  const PlaceCode& places() const { return places_; }
  const PlaceCode& sources() const { return sources_; }
  // keys()[begins()[s]] is the place of segment s; the keys of its other items are there only
  // after fill_keys().
  const uint32_t* keys() const { return keys_; }
  const uint32_t* codes() const { return codes_; }  // where each item is read
  const uint32_t* begins() const { return begins_; }
  int64_t segments() const { return segments_; }
  int64_t items() const { return items_; }
  void fill_keys();

 private:
  struct Found {
    int64_t items, segments;
    uint32_t first, last;  // keys
    bool ascending;
  };

  // One run of keys and sources, of which none is left out: item i is read at i.
  bool is_run() const;
  void decode(const OuterBase& base, int worker);
  void decode_run(const OuterBase& base, int worker);
  void close_gaps();
  bool is_sorted() const;
  template <class Word>
  void sort_by_buckets(Word* words, Team& team);
  template <class Word>
  void fill_buckets(Word* words, Team& team);
  template <class Word>
  void count_out(const Word* words, int64_t bucket, uint32_t* counts);
  void sort_by_digits(Team& team);
  void find_segments(const uint32_t* keys, uint32_t* begins, Team& team);
  int64_t first_of(int worker) const { return capacity_ * worker / workers_; }

  const Transfer& transfer_;
  const Canonical& canonical_;
  PlaceCode places_, sources_;
  int workers_;
  int64_t capacity_;
  bool run_;
  TaskShares shares_;
  bool bucketed_;
  bool narrow_;   // a source and a key inside its bucket fit 32 bits together
  int low_bits_;  // of a key inside its bucket
  int64_t buckets_;
  int passes_, digit_bits_;  // where there are no buckets
  uint32_t* first_keys_;     // as they are decoded
  uint32_t* first_codes_;    // of runs only where they are asked for
  char* sorting_;            // 8 bytes an item
  uint32_t* sorted_codes_;
  uint32_t* starts_;  // [worker][digit or bucket]
  uint32_t* ends_;    // of the buckets
  uint32_t* bucket_segments_;
  uint32_t* counts_;  // [worker][key inside a bucket]
  Found* found_;      // [worker]
  uint32_t* keys_ = nullptr;
  const uint32_t* codes_ = nullptr;
  uint32_t* begins_ = nullptr;
  int64_t items_ = 0, segments_ = 0;
  bool sorted_ = false;  // as they came
};

}  // namespace sow::detail
