// SPDX-License-Identifier: Apache-2.0
// The items of one outer position in the order of their destinations: a stable sort.
#pragma once

#include "core/threads/parallel.h"
#include "cpu/common/work_queue.h"
#include "cpu/fold/cell_fold.h"
#include "cpu/read/offset_ids.h"
#include "cpu/read/update_reader.h"

namespace sow::detail {

// Keys that are not far more than the items are partitioned into buckets by their upper bits, in
// one pass that counts nothing: a bucket takes blocks of memory as it needs them. Then each bucket
// is counted out inside the first-level cache. Other keys are sorted digit by digit. Keys that come
// in order are left where they are.
class RowOrder {
 public:
  RowOrder(const Transfer& transfer, const Canonical& canonical, int workers, Carver& carver);

  // Whether take() can look at the keys' bounds.
  static bool can_check(const Transfer& transfer, const Canonical& canonical);
  void check_keys() { checks_ = true; }

  // Decodes and sorts; then the members below say what RowJob needs.
  void build(const OuterBase& base);
  void build(const OuterBase& base, Team& team) {
    take(base, team);
    finish(team);
  }
  // The same in two steps. False: a key is out of bounds.
  bool take(const OuterBase& base, Team& team);
  void finish(Team& team);

  // Instead of finish(), where no bucket is too large for it: calls f(ids, keys, begins, items,
  // segments) for one bucket after the other, as a worker comes to them, in memory that stays in
  // its caches.
  bool has_small_buckets() const {
    return !sorted_ && bucketed_ && buckets_ >= 8 * workers_ && largest_ <= room_ &&
           largest_ <= items_ / (4 * workers_);
  }
  template <class F>
  void each_bucket(int worker, F&& f) {
    const Room room = room_of(worker);
    queue_.run(worker, [&](int64_t bucket) {
      const uint32_t segments = count_out(bucket, worker, 0, room);
      if (segments > 0) f(room.ids, room.keys, room.begins, bucket_items(bucket), segments);
    });
  }

  const OffsetIds& places() const { return places_; }
  const OffsetIds& sources() const { return sources_; }
  // keys()[begins()[s]] is the place of segment s; the keys of its other items are there only
  // after fill_keys().
  const uint32_t* keys() const { return keys_; }
  const uint32_t* ids() const { return ids_; }  // where each item is read
  const uint32_t* begins() const { return begins_; }
  int64_t segments() const { return segments_; }
  int64_t items() const { return items_; }
  void fill_keys();

 private:
  struct Found {
    int64_t items, segments;
    uint32_t first, last;  // keys
    bool ascending, store, good;
    uint32_t next_block;
  };
  // Where a bucket's items go.
  struct Room {
    uint32_t *ids, *keys, *begins;
  };

  // One run of keys and sources, of which none is left out: item i is read at i.
  static bool is_run(const Transfer& transfer, const Canonical& canonical);
  void take_memory(Carver& carver);
  void decode(const OuterBase& base, int worker);
  void decode_run(const OuterBase& base, int worker);
  void close_gaps();
  bool is_sorted() const;
  void open_writer(int worker);
  // Partitions `count` keys and their sources, which are source, source + 1, ... or, if they are
  // given, ids.
  void partition(int worker, const uint32_t* keys, int64_t count, int64_t source,
                 const uint32_t* ids);
  template <class Word, class Source>
  void partition_words(int worker, const uint32_t* keys, int64_t count, Source source);
  void partition_remaining(int worker);
  void measure_buckets();
  uint32_t bucket_items(int64_t bucket) const {
    return ends_[bucket] - (bucket == 0 ? 0 : ends_[bucket - 1]);
  }
  Room room_of(int worker) const;
  // Sorts a bucket, of which the first item is number `first` of the room; how many segments it
  // has.
  uint32_t count_out(int64_t bucket, int worker, uint32_t first, const Room& room);
  template <class Word>
  uint32_t count_out_words(int64_t bucket, int worker, uint32_t first, const Room& room);
  template <class Word, class F>
  void each_block(int64_t bucket, F&& f) const;
  void sort_by_buckets(Team& team);
  void sort_by_digits(Team& team);
  void find_segments(const uint32_t* keys, uint32_t* begins, Team& team);
  int64_t first_of(int worker) const { return capacity_ * worker / workers_; }
  int64_t stride() const { return (buckets_ + 15) / 16 * 16; }  // workers share no line

  const Transfer& transfer_;
  const Canonical& canonical_;
  OffsetIds places_, sources_;
  int workers_;
  int64_t capacity_;
  bool run_;
  bool checks_ = false;
  WorkQueue queue_;
  bool bucketed_;
  bool words32_;  // a source and a key inside its bucket fit 32 bits together
  int low_bits_;  // of a key inside its bucket
  int64_t buckets_;
  int block_bits_ = 4;       // of words
  int64_t blocks_ = 0;       // a worker's
  int64_t room_ = 0;         // items of a bucket that each_bucket() has memory for
  int passes_, digit_bits_;  // where there are no buckets
  uint32_t* first_keys_;     // as they are decoded, where they ascend or have no buckets
  uint32_t* first_ids_;      // of runs only where they are asked for
  char* words_;              // what is partitioned, block by block; or 8 bytes an item
  uint32_t* links_;          // the block after each
  uint32_t* tops_;           // [worker][bucket]: where the next word goes
  uint32_t* full_;           // [worker][bucket]: blocks before that one
  uint32_t* sorted_ids_;
  uint32_t* starts_;  // [worker][digit]
  uint32_t* ends_;    // of the buckets
  uint32_t* bucket_segments_;
  uint32_t* counts_;  // [worker][key inside a bucket]
  uint32_t* rooms_;   // [worker]: ids, keys and beginnings of one bucket
  Found* found_;      // [worker]
  uint32_t* keys_ = nullptr;
  const uint32_t* ids_ = nullptr;
  uint32_t* begins_ = nullptr;
  int64_t items_ = 0, segments_ = 0;
  uint32_t largest_ = 0;  // items of a bucket
  bool sorted_ = false;   // as they came
  bool good_ = true;
};

}  // namespace sow::detail
