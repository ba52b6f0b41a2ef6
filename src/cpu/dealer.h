// Deals updates out to buckets: each bucket's next few wait in a line of the cache and leave it
// together, so that memory sees whole lines however many buckets there are. A line leaves when the
// next one is begun: read right after its last store, it would wait for that store.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/stream.h"
#include "cpu/cell_fold.h"
#include "cpu/word.h"

namespace sow::detail {

// Where dealt updates lie: bucket after bucket, cells and values apart.
struct Dealt {
  uint32_t* cells = nullptr;
  char* values = nullptr;  // null: they are all the same
};

inline constexpr uint64_t kDealGroup = 16;  // cells that fill a line
inline constexpr uint64_t kDealRoom = 2 * kDealGroup;

// One worker's hand. Updates of bucket b go to the positions [next[b], ...) of Dealt, which the
// worker has to itself.
template <int Width>
class Dealer {
 public:
  static size_t bytes(int64_t buckets) {
    Carver carver(nullptr);
    Dealer(Dealt{}, buckets, nullptr, 0, carver);
    return carver.used();
  }

  Dealer(const Dealt& to, int64_t buckets, int64_t* next, int bucket_bits, Carver& carver)
      : to_(to),
        buckets_(buckets),
        next_(next),
        bits_(bucket_bits),
        mask_((uint32_t{1} << bucket_bits) - 1) {
    cells_ = carver.take<uint32_t>(buckets * static_cast<int64_t>(kDealRoom));
    values_ = carver.take<Word<Width>>(buckets * static_cast<int64_t>(kDealRoom));
    first_ = carver.take<int64_t>(buckets);
  }

  void start() { std::copy_n(next_, buckets_, first_); }

  void deal(const uint32_t* codes, const char* values, int count) {
    if (values == nullptr) return deal<false>(codes, nullptr, count);
    deal<true>(codes, reinterpret_cast<const Word<Width>*>(values), count);
  }

  // Everything that still waits.
  void end() {
    for (int64_t b = 0; b < buckets_; ++b) flush(b, next_[b]);
    end_streaming();
  }

 private:
  // Members are kept in locals: the compiler must think that stores change them.
  template <bool HasValues>
  void deal(const uint32_t* codes, const Word<Width>* from, int count) {
    uint32_t* cells = cells_;
    Word<Width>* values = values_;
    int64_t* next = next_;
    const int bits = bits_;
    const uint32_t mask = mask_;
    for (int i = 0; i < count; ++i) {
      const uint32_t code = codes[i], bucket = code >> bits;
      const int64_t at = next[bucket];
      const uint64_t slot = static_cast<uint64_t>(at) % kDealRoom;
      next[bucket] = at + 1;
      cells[bucket * kDealRoom + slot] = code & mask;
      if constexpr (HasValues) values[bucket * kDealRoom + slot] = from[i];
      if (slot % kDealGroup == 0) flush(bucket, at);
    }
  }

  // The group of a bucket that ends at position `end`, as far as it is ours.
  [[gnu::noinline]] void flush(int64_t bucket, int64_t end) {
    if (end <= first_[bucket]) return;
    const int64_t begin = (end - 1) & -static_cast<int64_t>(kDealGroup);
    const uint64_t slot =
        static_cast<uint64_t>(bucket) * kDealRoom + static_cast<uint64_t>(begin) % kDealRoom;
    const uint32_t* cells = cells_ + slot;
    const Word<Width>* values = values_ + slot;
    if (end - begin == static_cast<int64_t>(kDealGroup) && begin >= first_[bucket]) {
      stream_bytes(reinterpret_cast<char*>(to_.cells + begin), reinterpret_cast<const char*>(cells),
                   4 * kDealGroup);
      if (to_.values == nullptr) return;
      stream_bytes(to_.values + begin * Width, reinterpret_cast<const char*>(values),
                   Width * kDealGroup);
      return;
    }
    const int64_t own = std::max(begin, first_[bucket]);
    std::copy(cells + (own - begin), cells + (end - begin), to_.cells + own);
    if (to_.values == nullptr) return;
    std::copy(values + (own - begin), values + (end - begin),
              reinterpret_cast<Word<Width>*>(to_.values) + own);
  }

  Dealt to_;
  int64_t buckets_;
  int64_t* next_;
  int64_t* first_;
  int bits_;
  uint32_t mask_;
  uint32_t* cells_;
  Word<Width>* values_;
};

}  // namespace sow::detail
