// The sort of RowOrder where keys are cut into buckets.
#include <cstring>

#include "cpu/row_order.h"

namespace sow::detail {

template <class Word>
void RowOrder::sort_by_buckets(Word* words, Team& team) {
  fill_buckets(words, team);
  team.each(workers_, [&](int w, int) {
    uint32_t* counts = counts_ + (int64_t{w} << low_bits_);
    shares_.run(w, [&](int64_t bucket) { count_out(words, bucket, counts); });
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

// A word is where an item is read, and under it the lower bits of its key.
template <class Word>
void RowOrder::fill_buckets(Word* words, Team& team) {
  constexpr int kLineWords = 64 / sizeof(Word);
  const int shift = low_bits_;
  team.one([&] {
    keys_ = first_keys_;
    codes_ = sorted_codes_;
    begins_ = first_codes_;
    shares_.open(buckets_);
    uint32_t at = 0;
    for (int64_t b = 0; b < buckets_; ++b) {
      for (int w = 0; w < workers_; ++w) {
        uint32_t& start = starts_[buckets_ * w + b];
        const uint32_t count = start;
        start = at;
        at += count;
      }
      ends_[b] = at;
    }
  });
  team.each(workers_, [&](int w, int) {
    uint32_t* starts = starts_ + buckets_ * w;
    const uint32_t mask = (uint32_t{1} << shift) - 1;
    const int64_t first = first_of(w), last = first + found_[w].items;
    const uint32_t* keys = first_keys_;
    if (run_) {
      for (int64_t i = first; i < last; ++i) {
        Word* to = words + starts[keys[i] >> shift]++;
        __builtin_prefetch(to + kLineWords, 1);
        *to = static_cast<Word>(i) << shift | (keys[i] & mask);
      }
      return;
    }
    const uint32_t* codes = first_codes_;
    for (int64_t i = first; i < last; ++i) {
      Word* to = words + starts[keys[i] >> shift]++;
      __builtin_prefetch(to + kLineWords, 1);
      *to = static_cast<Word>(codes[i]) << shift | (keys[i] & mask);
    }
  });
}

// Sorts a bucket, and leaves the beginnings of its segments at the same items of begins_, one more
// for every bucket before, because the last of them may be written twice.
template <class Word>
void RowOrder::count_out(const Word* words, int64_t bucket, uint32_t* counts) {
  const uint32_t first = bucket == 0 ? 0 : ends_[bucket - 1], last = ends_[bucket];
  bucket_segments_[bucket] = 0;
  if (first == last) return;
  const uint32_t places = uint32_t{1} << low_bits_, mask = places - 1;
  std::memset(counts, 0, places * sizeof(uint32_t));
  // Every line of these is about to be written, in no order that the hardware foresees.
  for (uint32_t i = first; i < last; i += 16) {
    __builtin_prefetch(sorted_codes_ + i, 1);
    __builtin_prefetch(keys_ + i, 1);
  }
  for (uint32_t i = first; i < last; ++i) ++counts[words[i] & mask];
  const uint32_t base = static_cast<uint32_t>(bucket) << low_bits_;
  uint32_t* keys = keys_;
  uint32_t* begins = begins_ + first + bucket;
  uint32_t segments = 0, at = first;
  for (uint32_t place = 0; place < places; ++place) {
    const uint32_t count = counts[place];
    counts[place] = at;
    begins[segments] = at;
    if (count == 0) continue;
    keys[at] = base + place;
    at += count;
    ++segments;
  }
  bucket_segments_[bucket] = segments;
  for (uint32_t i = first; i < last; ++i) {
    sorted_codes_[counts[words[i] & mask]++] = static_cast<uint32_t>(words[i] >> low_bits_);
  }
}

template void RowOrder::sort_by_buckets(uint32_t* words, Team& team);
template void RowOrder::sort_by_buckets(uint64_t* words, Team& team);

}  // namespace sow::detail
