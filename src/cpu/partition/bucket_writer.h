// SPDX-License-Identifier: Apache-2.0
// Updates partitioned into buckets, each a range of places, in one pass that counts nothing: a
// bucket takes blocks of memory as it needs them, every worker from a store of its own.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/common/byte_width.h"
#include "cpu/common/prefetch.h"
#include "cpu/fold/cell_fold.h"
#include "cpu/partition/pair_kernels.h"
#include "transfer/canonical.h"

namespace sow::detail {

struct BucketShape {
  int64_t updates = 0;
  int64_t buckets = 1;
  int bits = 0;  // a bucket has 2^bits places
  int workers = 1;
  int value_size = 0;   // 0: only places are partitioned
  bool paired = false;  // values lie beside their cells: one store an update
};

class BucketStore {
 public:
  BucketStore(const BucketShape& shape, Carver& carver) : shape_(shape) {
    const int64_t share = (shape.updates + shape.workers - 1) / shape.workers;
    // A bucket's last block is half empty: small ones, where there are few updates per bucket.
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
  class Writer {
   public:
    Writer(BucketStore& store, int worker) : store_(store) {
      ends_ = store.ends_ + store.stride() * worker;
      blocks_.links = store.links_;
      blocks_.full = store.full_ + store.stride() * worker;
      blocks_.next = static_cast<uint32_t>(store.blocks_ * worker);
      blocks_.size_bits = store.block_bits_;
      if (store.paired()) {
        blocks_.entries[0] = {reinterpret_cast<const char*>(store.pairs_), sizeof(uint64_t)};
      } else {
        blocks_.entries[0] = {reinterpret_cast<const char*>(store.cells_), sizeof(uint32_t)};
        blocks_.entries[1] = {store.values_, store.shape_.value_size};
      }
      for (int64_t b = 0; b < store.shape_.buckets; ++b) {
        ends_[b] = (blocks_.next++ << store.block_bits_) + store.begin_of(b);
        blocks_.full[b] = 0;
      }
    }
    // Straight to memory ([bucket_writer] in the notebook). `to_prefetch` may be keys that are read
    // next: they and the next values are prefetched meanwhile.
    template <int Width>
    void partition(const uint32_t* ids, const char* values, int count, const char* to_prefetch) {
      if (store_.paired()) {
        store_.partitioners_.partition(pair_target(), blocks_, ids, values, count, to_prefetch);
      } else {
        const auto* from = reinterpret_cast<const Word<Width>*>(values);
        const auto send = [=](int i) {
          prefetch(to_prefetch, i * 8);
          prefetch(values, (i + kTileItems) * Width);
        };
        uint32_t* cells = store_.cells_;
        auto* to = reinterpret_cast<Word<Width>*>(store_.values_);
        each(ids, count, send, [=](uint32_t at, uint32_t cell, int i) {
          cells[at] = cell;
          to[at] = from[i];
        });
      }
    }
    // Pairs from keys. False: a bad one.
    bool partitions_keys() const { return store_.paired(); }
    bool partition_keys(const char* keys, bool int64_keys, const KeyRun& run, const char* values,
                        int count) {
      return store_.partitioners_.partition_keys(pair_target(), blocks_, keys, int64_keys, run,
                                                 values, count);
    }
    void partition_places(const uint32_t* ids, int count, const char* to_prefetch) {
      uint32_t* cells = store_.cells_;
      const auto send = [=](int i) { prefetch(to_prefetch, i * 8); };
      each(ids, count, send, [=](uint32_t at, uint32_t cell, int) { cells[at] = cell; });
    }

   private:
    PairTarget pair_target() const {
      return {store_.pairs_, ends_, store_.shape_.bits, store_.shape_.value_size};
    }
    template <class Send, class Put>
    void each(const uint32_t* ids, int count, Send send, Put put) {
      constexpr int kStep = 8;
      int i = 0;
      for (; i + kStep <= count; i += kStep) {
        send(i);
        some(ids, i, i + kStep, put);
      }
      some(ids, i, count, put);
    }
    template <class Put>
    [[gnu::always_inline]] void some(const uint32_t* ids, int first, int past, Put put) {
      const int bits = store_.shape_.bits;
      const uint32_t mask = (uint32_t{1} << bits) - 1, last = blocks_.last();
      uint32_t* ends = ends_;
      for (int i = first; i < past; ++i) {
        const uint32_t bucket = ids[i] >> bits, at = ends[bucket];
        put(at, ids[i] & mask, i);
        ends[bucket] = (at & last) == last ? blocks_.after(bucket, at) : at + 1;
      }
    }

    BucketStore& store_;
    uint32_t* ends_;
    BucketBlocks blocks_;
  };

  // Reads the updates of one bucket after the other, as often as needed, once all were partitioned.
  class Reader {
   public:
    // `constant` stands for all values where none were partitioned: a batch of them.
    Reader(const BucketStore& store, const char* constant) : store_(store), constant_(constant) {}

    void open(int64_t bucket) {
      bucket_ = bucket;
      count_ = 0;
      const int64_t stride = store_.stride();
      for (int w = 0; w < store_.shape_.workers; ++w) {
        count_ += (int64_t{store_.full_[w * stride + bucket]} << store_.block_bits_) +
                  (store_.ends_[w * stride + bucket] & last()) - store_.begin_of(bucket);
      }
      restart();
    }
    int64_t count() const { return count_; }

    // Calls f(cells, values, count) for the updates [first, last) of the bucket, or, where f takes
    // that as well and they are pairs, f(pairs, count, where the next ones are).
    template <class F>
    void read(int64_t first, int64_t last, F&& f) {
      if constexpr (requires { f.takes_pairs(); }) {
        if (store_.paired() && f.takes_pairs()) return read_pairs(first, last, f);
      }
      uint32_t cells[kTileItems], values[kTileItems];
      for (int64_t at = first; at < last;) {
        seek(at);
        const int64_t entry = entry_ + at - begin_;
        const int count =
            static_cast<int>(std::min<int64_t>({kTileItems, last - at, begin_ + size_ - at}));
        at += count;
        if (!store_.paired()) {
          f(static_cast<const uint32_t*>(store_.cells_ + entry),
            constant_ != nullptr ? constant_ : store_.values_ + entry * store_.shape_.value_size,
            count);
          continue;
        }
        store_.kernels_.unpack(store_.pairs_ + entry, count, cells, values,
                               store_.shape_.value_size, after() + (entry - entry_));
        f(static_cast<const uint32_t*>(cells), reinterpret_cast<const char*>(values), count);
      }
    }
    template <class F>
    void read(F&& f) {
      read(0, count_, f);
    }

    // Calls f(pairs, count, soon) for the updates [first, last), which must be pairs: a cell below
    // its value. `to_prefetch` is where the next ones are.
    template <class F>
    void read_pairs(int64_t first, int64_t last, F&& f) {
      for (int64_t at = first; at < last;) {
        seek(at);
        const int64_t skip = at - begin_, count = std::min(size_ - skip, last - at);
        f(static_cast<const uint64_t*>(store_.pairs_ + entry_ + skip), count, after() + skip);
        at += count;
      }
    }

   private:
    uint32_t last() const { return (uint32_t{1} << store_.block_bits_) - 1; }
    uint32_t end() const { return store_.ends_[worker_ * store_.stride() + bucket_]; }

    void restart() {
      worker_ = 0;
      begin_ = 0;
      enter(static_cast<uint32_t>(bucket_), store_.begin_of(bucket_));
    }
    void enter(uint32_t block, uint32_t begin) {
      block_ = block;
      entry_ = (int64_t{block} << store_.block_bits_) + begin;
      const uint32_t end = this->end();
      const bool ends = end >> store_.block_bits_ == block;
      size_ = (ends ? end & last() : int64_t{last()} + 1) - begin;
    }
    // Blocks lie apart: no processor guesses where the next one is.
    const uint64_t* after() const {
      if (end() >> store_.block_bits_ == block_) return store_.pairs_ + entry_;
      return store_.pairs_ + (int64_t{store_.links_[block_]} << store_.block_bits_);
    }
    void seek(int64_t position) {
      if (position < begin_) restart();
      while (position >= begin_ + size_) {
        begin_ += size_;
        if (end() >> store_.block_bits_ != block_) {
          enter(store_.links_[block_], 0);
        } else {
          ++worker_;
          enter(static_cast<uint32_t>(store_.blocks_ * worker_ + bucket_),
                store_.begin_of(bucket_));
        }
      }
    }

    const BucketStore& store_;
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

  BucketShape shape_;
  const PairPartitioners& partitioners_ = pair_partitioners();
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
