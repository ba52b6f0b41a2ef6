// Updates dealt out to buckets, each a range of places, in one pass that counts nothing: a bucket
// takes blocks of memory as it needs them, every worker from a store of its own.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/cell_fold.h"
#include "cpu/pair_kernels.h"
#include "cpu/touch.h"
#include "cpu/word.h"
#include "transfer/canonical.h"

namespace sow::detail {

struct DealShape {
  int64_t updates = 0;
  int64_t buckets = 1;
  int bits = 0;  // a bucket has 2^bits places
  int workers = 1;
  int value_size = 0;   // 0: only places are dealt
  bool paired = false;  // values lie beside their cells: one store an update
};

class Dealt {
 public:
  Dealt(const DealShape& shape, Carver& carver) : shape_(shape) {
    const int64_t share = (shape.updates + shape.workers - 1) / shape.workers;
    // A bucket's last block is half empty: small ones, where there are few updates a bucket.
    while (block_bits_ < kMostBlockBits && share >> (block_bits_ + 3) > shape.buckets)
      ++block_bits_;
    // And a first block may be begun in its middle.
    blocks_ = (share >> block_bits_) + (block_bits_ >= kSpreadBits ? 2 : 1) * shape.buckets;
    const int64_t all = blocks_ * shape.workers, entries = all << block_bits_;
    if (paired()) {
      pairs_ = carver.take<uint64_t>(entries);
    } else {
      cells_ = carver.take<uint32_t>(entries);
      values_ = carver.take<char>(entries * shape.value_size);
    }
    links_ = carver.take<uint32_t>(all);
    ends_ = carver.take<uint32_t>(shape.workers * stride());
    full_ = carver.take<uint32_t>(shape.workers * stride());
  }

  bool paired() const { return shape_.paired; }
  int64_t first_of(int worker) const { return shape_.updates * worker / shape_.workers; }

  // One worker's share of the updates, in source order.
  class Hand {
   public:
    Hand(Dealt& dealt, int worker) : dealt_(dealt) {
      ends_ = dealt.ends_ + dealt.stride() * worker;
      blocks_.links = dealt.links_;
      blocks_.full = dealt.full_ + dealt.stride() * worker;
      blocks_.next = static_cast<uint32_t>(dealt.blocks_ * worker);
      blocks_.size_bits = dealt.block_bits_;
      if (dealt.paired()) {
        blocks_.entries[0] = {reinterpret_cast<const char*>(dealt.pairs_), sizeof(uint64_t)};
      } else {
        blocks_.entries[0] = {reinterpret_cast<const char*>(dealt.cells_), sizeof(uint32_t)};
        blocks_.entries[1] = {dealt.values_, dealt.shape_.value_size};
      }
      for (int64_t b = 0; b < dealt.shape_.buckets; ++b) {
        ends_[b] = (blocks_.next++ << dealt.block_bits_) + dealt.begin_of(b);
        blocks_.full[b] = 0;
      }
    }
    // 2^23 pairs to 256 buckets took 6.4 ms; 6.8 through rows of 64 that wait in the cache and are
    // written past it, 12.8 through rows of 8, which are full at times that no processor
    // guesses; 8.1 as records of 6 bytes (2 cores of a Zen 4 class EPYC, 2026-11-15). `soon` may be
    // keys that are read next: they and the next values are sent for meanwhile.
    template <int Width>
    void deal(const uint32_t* codes, const char* values, int count, const char* soon) {
      if (dealt_.paired()) {
        dealt_.dealers_.deal(pair_deal(), blocks_, codes, values, count, soon);
      } else {
        const auto* from = reinterpret_cast<const Word<Width>*>(values);
        const auto send = [=](int i) {
          send_for(soon, i * 8);
          send_for(values, (i + kTileItems) * Width);
        };
        uint32_t* cells = dealt_.cells_;
        auto* to = reinterpret_cast<Word<Width>*>(dealt_.values_);
        each(codes, count, send, [=](uint32_t at, uint32_t cell, int i) {
          cells[at] = cell;
          to[at] = from[i];
        });
      }
    }
    // Pairs from keys, where there is a way. False: a bad one.
    bool deals_keys() const { return dealt_.paired() && dealt_.dealers_.deal_keys != nullptr; }
    bool deal_keys(const char* keys, bool wide, const KeyRun& run, const char* values, int count) {
      return dealt_.dealers_.deal_keys(pair_deal(), blocks_, keys, wide, run, values, count);
    }
    void deal_places(const uint32_t* codes, int count, const char* soon) {
      uint32_t* cells = dealt_.cells_;
      const auto send = [=](int i) { send_for(soon, i * 8); };
      each(codes, count, send, [=](uint32_t at, uint32_t cell, int) { cells[at] = cell; });
    }

   private:
    PairDeal pair_deal() const {
      return {dealt_.pairs_, ends_, dealt_.shape_.bits, dealt_.shape_.value_size};
    }
    template <class Send, class Put>
    void each(const uint32_t* codes, int count, Send send, Put put) {
      constexpr int kStep = 8;
      int i = 0;
      for (; i + kStep <= count; i += kStep) {
        send(i);
        some(codes, i, i + kStep, put);
      }
      some(codes, i, count, put);
    }
    template <class Put>
    [[gnu::always_inline]] void some(const uint32_t* codes, int first, int past, Put put) {
      const int bits = dealt_.shape_.bits;
      const uint32_t mask = (uint32_t{1} << bits) - 1, last = blocks_.last();
      uint32_t* ends = ends_;
      for (int i = first; i < past; ++i) {
        const uint32_t bucket = codes[i] >> bits, at = ends[bucket];
        put(at, codes[i] & mask, i);
        ends[bucket] = (at & last) == last ? blocks_.after(bucket, at) : at + 1;
      }
    }

    Dealt& dealt_;
    uint32_t* ends_;
    DealBlocks blocks_;
  };

  // Reads the updates of one bucket after the other, as often as needed, once all were dealt.
  class Reader {
   public:
    // `constant` stands for all values where none were dealt: a batch of them.
    Reader(const Dealt& dealt, const char* constant) : dealt_(dealt), constant_(constant) {}

    void open(int64_t bucket) {
      bucket_ = bucket;
      count_ = 0;
      const int64_t stride = dealt_.stride();
      for (int w = 0; w < dealt_.shape_.workers; ++w) {
        count_ += (int64_t{dealt_.full_[w * stride + bucket]} << dealt_.block_bits_) +
                  (dealt_.ends_[w * stride + bucket] & last()) - dealt_.begin_of(bucket);
      }
      restart();
    }
    int64_t count() const { return count_; }

    // Calls f(cells, values, count) for the updates [first, last) of the bucket, or, where f takes
    // that as well and they are pairs, f(pairs, count, where the next ones are).
    template <class F>
    void read(int64_t first, int64_t last, F&& f) {
      if constexpr (requires { f.takes_pairs(); }) {
        if (dealt_.paired() && f.takes_pairs()) return read_pairs(first, last, f);
      }
      uint32_t cells[kTileItems], values[kTileItems];
      for (int64_t at = first; at < last;) {
        seek(at);
        const int64_t entry = entry_ + at - begin_;
        const int count =
            static_cast<int>(std::min<int64_t>({kTileItems, last - at, begin_ + size_ - at}));
        at += count;
        if (!dealt_.paired()) {
          f(static_cast<const uint32_t*>(dealt_.cells_ + entry),
            constant_ != nullptr ? constant_ : dealt_.values_ + entry * dealt_.shape_.value_size,
            count);
          continue;
        }
        dealt_.kernels_.unpack(dealt_.pairs_ + entry, count, cells, values,
                               dealt_.shape_.value_size, after() + (entry - entry_));
        f(static_cast<const uint32_t*>(cells), reinterpret_cast<const char*>(values), count);
      }
    }
    template <class F>
    void read(F&& f) {
      read(0, count_, f);
    }

    // Calls f(pairs, count, soon) for the updates [first, last), which must be pairs: a cell below
    // its value. `soon` is where the next ones are.
    template <class F>
    void read_pairs(int64_t first, int64_t last, F&& f) {
      for (int64_t at = first; at < last;) {
        seek(at);
        const int64_t skip = at - begin_, count = std::min(size_ - skip, last - at);
        f(static_cast<const uint64_t*>(dealt_.pairs_ + entry_ + skip), count, after() + skip);
        at += count;
      }
    }

   private:
    uint32_t last() const { return (uint32_t{1} << dealt_.block_bits_) - 1; }
    uint32_t end() const { return dealt_.ends_[worker_ * dealt_.stride() + bucket_]; }

    void restart() {
      worker_ = 0;
      begin_ = 0;
      enter(static_cast<uint32_t>(bucket_), dealt_.begin_of(bucket_));
    }
    void enter(uint32_t block, uint32_t begin) {
      block_ = block;
      entry_ = (int64_t{block} << dealt_.block_bits_) + begin;
      const uint32_t end = this->end();
      const bool ends = end >> dealt_.block_bits_ == block;
      size_ = (ends ? end & last() : int64_t{last()} + 1) - begin;
    }
    // Blocks lie apart: no processor guesses where the next one is.
    const uint64_t* after() const {
      if (end() >> dealt_.block_bits_ == block_) return dealt_.pairs_ + entry_;
      return dealt_.pairs_ + (int64_t{dealt_.links_[block_]} << dealt_.block_bits_);
    }
    void seek(int64_t position) {
      if (position < begin_) restart();
      while (position >= begin_ + size_) {
        begin_ += size_;
        if (end() >> dealt_.block_bits_ != block_) {
          enter(dealt_.links_[block_], 0);
        } else {
          ++worker_;
          enter(static_cast<uint32_t>(dealt_.blocks_ * worker_ + bucket_),
                dealt_.begin_of(bucket_));
        }
      }
    }

    const Dealt& dealt_;
    const char* constant_;
    int64_t bucket_ = 0, count_ = 0;
    int worker_ = 0;
    uint32_t block_ = 0;
    int64_t entry_ = 0;             // the block's first
    int64_t begin_ = 0, size_ = 0;  // of the block, among the updates of the bucket
  };

 private:
  static constexpr int kMostBlockBits = 10;
  static constexpr int kSpreadBits = 8;

  int64_t stride() const { return (shape_.buckets + 15) / 16 * 16; }  // workers share no line
  // Where a bucket begins in its first block. Ends that all lie at the same place of their page
  // would take each other's lines of the cache: 2^23 updates to 1024 buckets 10.7 ms, and 7.4 so.
  uint32_t begin_of(int64_t bucket) const {
    if (block_bits_ < kSpreadBits) return 0;
    return static_cast<uint32_t>(bucket * 37) & ((uint32_t{1} << block_bits_) - 1);
  }

  DealShape shape_;
  const PairDealers& dealers_ = pair_dealers();
  const PairKernels& kernels_ = pair_kernels();
  int block_bits_ = 4;
  int64_t blocks_ = 0;  // a worker's
  // The updates, block by block: their cells in the bucket, and their values.
  uint64_t* pairs_ = nullptr;
  uint32_t* cells_ = nullptr;
  char* values_ = nullptr;
  uint32_t* links_ = nullptr;  // the block after each
  uint32_t* ends_ = nullptr;   // [worker][bucket]: where the next one goes
  uint32_t* full_ = nullptr;   // [worker][bucket]: blocks before that one
};

}  // namespace sow::detail
