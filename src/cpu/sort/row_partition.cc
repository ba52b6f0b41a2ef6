// SPDX-License-Identifier: Apache-2.0
// The sort of RowOrder where keys are partitioned into buckets.
#include <cstring>

#include "cpu/common/bucket_blocks.h"
#include "cpu/sort/row_order.h"

namespace sow::detail {

void RowOrder::open_writer(int worker) {
  const auto first = static_cast<uint32_t>(blocks_ * worker);
  for (int64_t b = 0; b < buckets_; ++b) {
    tops_[stride() * worker + b] = (first + static_cast<uint32_t>(b)) << block_bits_;
    full_[stride() * worker + b] = 0;
  }
  found_[worker].next_block = first + static_cast<uint32_t>(buckets_);
  found_[worker].store = true;
}

// A word is where an item is read, and under it the lower bits of its key.
template <class Word, class Source>
void RowOrder::partition_words(int worker, const uint32_t* keys, int64_t count, Source source) {
  constexpr int kLineWords = 64 / sizeof(Word);
  const int shift = low_bits_;
  const uint32_t mask = (uint32_t{1} << shift) - 1;
  uint32_t* tops = tops_ + stride() * worker;
  Word* words = reinterpret_cast<Word*>(words_);
  BucketBlocks blocks{{{words_, sizeof(Word)}},
                      links_,
                      full_ + stride() * worker,
                      found_[worker].next_block,
                      block_bits_};
  const uint32_t last = blocks.last();
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bucket = keys[i] >> shift, at = tops[bucket];
    Word* to = words + at;
    __builtin_prefetch(to + kLineWords, 1);
    *to = static_cast<Word>(source(i)) << shift | (keys[i] & mask);
    tops[bucket] = (at & last) == last ? blocks.after(bucket, at) : at + 1;
  }
  found_[worker].next_block = blocks.next;
}

void RowOrder::partition(int worker, const uint32_t* keys, int64_t count, int64_t source,
                         const uint32_t* ids) {
  const auto next = [=](int64_t i) { return static_cast<uint64_t>(source + i); };
  const auto given = [=](int64_t i) { return uint64_t{ids[i]}; };
  if (words32_ && ids == nullptr) return partition_words<uint32_t>(worker, keys, count, next);
  if (words32_) return partition_words<uint32_t>(worker, keys, count, given);
  if (ids == nullptr) return partition_words<uint64_t>(worker, keys, count, next);
  partition_words<uint64_t>(worker, keys, count, given);
}

// What a worker decoded but did not partition: it ascended, or was no run.
void RowOrder::partition_remaining(int worker) {
  if (found_[worker].store) return;
  open_writer(worker);
  const int64_t first = first_of(worker);
  partition(worker, first_keys_ + first, found_[worker].items, first,
            run_ ? nullptr : first_ids_ + first);
}

void RowOrder::measure_buckets() {
  queue_.open(buckets_);
  const uint32_t last = (uint32_t{1} << block_bits_) - 1;
  uint32_t at = 0;
  largest_ = 0;
  for (int64_t b = 0; b < buckets_; ++b) {
    uint32_t items = 0;
    for (int w = 0; w < workers_; ++w) {
      const int64_t mine = stride() * w + b;
      items += (full_[mine] << block_bits_) + (tops_[mine] & last);
    }
    largest_ = std::max(largest_, items);
    ends_[b] = at += items;
  }
}

// Calls f(words, count) for a bucket's blocks, in the order of the items.
template <class Word, class F>
void RowOrder::each_block(int64_t bucket, F&& f) const {
  const Word* words = reinterpret_cast<const Word*>(words_);
  const uint32_t size = uint32_t{1} << block_bits_;
  for (int w = 0; w < workers_; ++w) {
    const uint32_t top = tops_[stride() * w + bucket];
    auto block = static_cast<uint32_t>(blocks_ * w + bucket);
    while (block != top >> block_bits_) {
      const uint32_t next = links_[block];
      // Blocks are too short for the hardware to see that they are read in order.
      const char* to_prefetch =
          reinterpret_cast<const char*>(words + (int64_t{next} << block_bits_));
      for (uint32_t i = 0; i < size * sizeof(Word); i += 64) __builtin_prefetch(to_prefetch + i);
      f(words + (int64_t{block} << block_bits_), size);
      block = next;
    }
    f(words + (int64_t{block} << block_bits_), top & (size - 1));
  }
}

RowOrder::Room RowOrder::room_of(int worker) const {
  uint32_t* ids = rooms_ + worker * (2 * room_ + (int64_t{2} << low_bits_));
  return {ids, ids + room_, ids + 2 * room_};
}

template <class Word>
uint32_t RowOrder::count_out_words(int64_t bucket, int worker, uint32_t first, const Room& room) {
  const uint32_t places = uint32_t{1} << low_bits_, mask = places - 1;
  uint32_t* counts = counts_ + (int64_t{worker} << low_bits_);
  std::memset(counts, 0, places * sizeof(uint32_t));
  each_block<Word>(bucket, [&](const Word* words, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) ++counts[words[i] & mask];
  });
  const uint32_t base = static_cast<uint32_t>(bucket) << low_bits_;
  uint32_t segments = 0, at = first;
  for (uint32_t place = 0; place < places; ++place) {
    const uint32_t count = counts[place];
    counts[place] = at;
    room.begins[segments] = at;
    if (count == 0) continue;
    room.keys[at] = base + place;
    at += count;
    ++segments;
  }
  room.begins[segments] = at;
  uint32_t* ids = room.ids;
  const int shift = low_bits_;
  each_block<Word>(bucket, [&](const Word* words, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      ids[counts[words[i] & mask]++] = static_cast<uint32_t>(words[i] >> shift);
    }
  });
  return segments;
}

uint32_t RowOrder::count_out(int64_t bucket, int worker, uint32_t first, const Room& room) {
  if (bucket_items(bucket) == 0) return 0;
  return words32_ ? count_out_words<uint32_t>(bucket, worker, first, room)
                  : count_out_words<uint64_t>(bucket, worker, first, room);
}

// The beginnings of a bucket's segments lie at the same items, one more for every bucket before,
// because there is one more of them than segments; then they are moved together.
void RowOrder::sort_by_buckets(Team& team) {
  team.one([&] {
    keys_ = first_keys_;
    ids_ = sorted_ids_;
    begins_ = first_ids_;
  });
  team.each(workers_, [&](int w, int) {
    queue_.run(w, [&](int64_t bucket) {
      const uint32_t first = ends_[bucket] - bucket_items(bucket);
      // Every line of these is about to be written, in no order that the hardware foresees.
      for (uint32_t i = first; i < ends_[bucket]; i += 16) {
        __builtin_prefetch(sorted_ids_ + i, 1);
        __builtin_prefetch(keys_ + i, 1);
      }
      const Room room{sorted_ids_, keys_, begins_ + first + bucket};
      bucket_segments_[bucket] = count_out(bucket, w, first, room);
    });
  });
  team.one([&] {
    segments_ = 0;
    for (int64_t b = 0; b < buckets_; ++b) {
      const uint32_t* found = begins_ + (b == 0 ? 0 : ends_[b - 1]) + b;
      std::memmove(begins_ + segments_, found, bucket_segments_[b] * sizeof(uint32_t));
      segments_ += bucket_segments_[b];
    }
    begins_[segments_] = static_cast<uint32_t>(items_);
  });
}

}  // namespace sow::detail
