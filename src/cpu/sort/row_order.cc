// SPDX-License-Identifier: Apache-2.0
// Sorts items by destination, every worker its share of each pass.
#include "cpu/sort/row_order.h"

#include <cstring>

#include "core/threads/parallel.h"
#include "cpu/read/id_reader.h"
#include "cpu/tuning.h"

namespace sow::detail {

namespace {

const FoldKernels kNoKernels{};

int bits_of(int64_t count) {
  int bits = 1;
  while (count > (int64_t{1} << bits)) ++bits;
  return bits;
}

}  // namespace

RowOrder::RowOrder(const Transfer& transfer, const Canonical& canonical, int workers,
                   Carver& carver)
    : transfer_(transfer),
      canonical_(canonical),
      places_(item_places(transfer)),
      sources_(item_sources(transfer, canonical)),
      workers_(workers),
      capacity_(canonical.item_count),
      run_(is_run(transfer, canonical)),
      queue_(workers, carver) {
  const int bits = bits_of(places_.count());
  passes_ = (bits + tuning::kDigitBits - 1) / tuning::kDigitBits;
  digit_bits_ = (bits + passes_ - 1) / passes_;
  low_bits_ = std::max({std::min(bits - 4, tuning::kBucketBits), bits - tuning::kDigitBits, 1});
  // Words, and what is left of blocks, are counted in 32 bits.
  bucketed_ = low_bits_ <= tuning::kDigitBits && places_.count() / 16 <= capacity_ &&
              capacity_ <= INT32_MAX;
  words32_ = bits_of(run_ ? capacity_ : sources_.count()) + low_bits_ <= 32;
  buckets_ = bucketed_ ? ((places_.count() - 1) >> low_bits_) + 1 : 0;
  take_memory(carver);
}

void RowOrder::take_memory(Carver& carver) {
  constexpr int kMostBlockBits = 9;
  first_keys_ = carver.take<uint32_t>(capacity_ + 1);
  first_ids_ = carver.take<uint32_t>(capacity_ + buckets_ + 1);
  sorted_ids_ = carver.take<uint32_t>(capacity_ + 1);
  found_ = carver.take<Found>(workers_);
  if (!bucketed_) {
    words_ = carver.take<char>((capacity_ + 1) * 4);
    starts_ = carver.take<uint32_t>(workers_ * (int64_t{1} << digit_bits_));
    return;
  }
  // A bucket's last block is half empty: small ones, where there are few items per bucket.
  const int64_t share = (capacity_ + workers_ - 1) / workers_;
  while (block_bits_ < kMostBlockBits && share >> (block_bits_ + 3) > buckets_) ++block_bits_;
  blocks_ = (share >> block_bits_) + buckets_;
  words_ = carver.take<char>((blocks_ * workers_ << block_bits_) * (words32_ ? 4 : 8));
  links_ = carver.take<uint32_t>(blocks_ * workers_);
  tops_ = carver.take<uint32_t>(workers_ * stride());
  full_ = carver.take<uint32_t>(workers_ * stride());
  ends_ = carver.take<uint32_t>(buckets_);
  bucket_segments_ = carver.take<uint32_t>(buckets_);
  counts_ = carver.take<uint32_t>(int64_t{workers_} << low_bits_);
  room_ = std::min(capacity_ / buckets_ * 4 + 64, tuning::kRoomItems);
  rooms_ = carver.take<uint32_t>(workers_ * (2 * room_ + (int64_t{2} << low_bits_)));
}

bool RowOrder::can_check(const Transfer& transfer, const Canonical& canonical) {
  return is_run(transfer, canonical) &&
         IdReader::can_decode(transfer, canonical, item_places(transfer));
}

bool RowOrder::is_run(const Transfer& transfer, const Canonical& canonical) {
  return canonical.items.size() == 1 && transfer.src_index.empty() &&
         transfer.bounds != Bounds::drop &&
         (transfer.src.data == nullptr || canonical.items[0].src > 0);
}

void RowOrder::build(const OuterBase& base) {
  parallel_team(workers_, [&](Team& team) { build(base, team); });
}

bool RowOrder::take(const OuterBase& base, Team& team) {
  team.each(workers_, [&](int worker, int) {
    if (run_) {
      decode_run(base, worker);
    } else {
      decode(base, worker);
    }
  });
  team.one([&] {
    items_ = 0;
    good_ = true;
    for (int w = 0; w < workers_; ++w) {
      items_ += found_[w].items;
      good_ = good_ && found_[w].good;
    }
    sorted_ = is_sorted();
  });
  if (!good_) return false;
  if (sorted_ || !bucketed_) return true;
  team.each(workers_, [&](int worker, int) { partition_remaining(worker); });
  team.one([&] { measure_buckets(); });
  return true;
}

void RowOrder::finish(Team& team) {
  if (bucketed_ && !sorted_) return sort_by_buckets(team);
  if (run_) {
    team.each(workers_, [&](int w, int) {
      const int64_t last = first_of(w + 1);
      uint32_t* ids = first_ids_;
      for (int64_t i = first_of(w); i < last; ++i) ids[i] = static_cast<uint32_t>(i);
    });
  }
  team.one([&] {
    if (!run_) close_gaps();
    keys_ = first_keys_;
    ids_ = first_ids_;
  });
  if (sorted_) return find_segments(first_keys_, sorted_ids_, team);
  sort_by_digits(team);
}

// Keys are kept while they ascend; with the first that does not, all are partitioned.
void RowOrder::decode_run(const OuterBase& base, int worker) {
  IdReader reader(transfer_, canonical_, kNoKernels, places_);
  if (checks_) reader.check_keys();
  const int64_t first = first_of(worker), last = first_of(worker + 1);
  uint32_t before = 0;
  bool ascending = true, good = true;
  for (int64_t at = first; at < last && good && (ascending || !bucketed_);) {
    const int64_t end = std::min<int64_t>(last, at + kTileItems);
    good = reader.read_ids(base, at, end, [&](const uint32_t* found, int count) {
      uint32_t falls = found[0] < before;
      for (int i = 1; i < count; ++i) falls |= static_cast<uint32_t>(found[i] < found[i - 1]);
      ascending = ascending && falls == 0;
      before = found[count - 1];
      std::memcpy(first_keys_ + at, found, static_cast<size_t>(count) * sizeof(uint32_t));
      at += count;
    });
  }
  found_[worker] = {
      last - first, 0, last > first ? first_keys_[first] : 0, before, ascending, false, good, 0};
  if (ascending || !bucketed_ || !good) return;
  open_writer(worker);
  int64_t source = first;
  found_[worker].good = reader.read_ids(base, first, last, [&](const uint32_t* found, int count) {
    partition(worker, found, count, source, nullptr);
    source += count;
  });
}

void RowOrder::decode(const OuterBase& base, int worker) {
  UpdateReader reader(transfer_, canonical_, kNoKernels);
  uint32_t* keys = first_keys_ + first_of(worker);
  uint32_t* ids = first_ids_ + first_of(worker);
  const OffsetIds places = places_, sources = sources_;
  int64_t kept = 0;
  uint32_t before = 0;
  bool ascending = true;
  reader.read_places(base, first_of(worker), first_of(worker + 1), kTileItems,
                     [&](const int64_t* to, const int64_t* from, int count, bool) {
                       for (int i = 0; i < count; ++i) {
                         const uint32_t key = static_cast<uint32_t>(places.id_of(to[i] - base.dst));
                         ascending = ascending & (key >= before);
                         before = key;
                         keys[kept + i] = key;
                         ids[kept + i] = static_cast<uint32_t>(sources.id_of(from[i] - base.src));
                       }
                       kept += count;
                     });
  found_[worker] = {kept, 0, kept > 0 ? keys[0] : 0, before, ascending, false, true, 0};
}

bool RowOrder::is_sorted() const {
  uint32_t before = 0;
  for (int w = 0; w < workers_; ++w) {
    const Found& piece = found_[w];
    if (piece.items == 0) continue;
    if (!piece.ascending || piece.first < before) return false;
    before = piece.last;
  }
  return true;
}

// Moves the workers' pieces together where items were dropped.
void RowOrder::close_gaps() {
  int64_t at = 0;
  for (int w = 0; w < workers_; ++w) {
    const size_t bytes = static_cast<size_t>(found_[w].items) * sizeof(uint32_t);
    if (at != first_of(w)) {
      std::memmove(first_keys_ + at, first_keys_ + first_of(w), bytes);
      std::memmove(first_ids_ + at, first_ids_ + first_of(w), bytes);
    }
    at += found_[w].items;
  }
}

void RowOrder::sort_by_digits(Team& team) {
  const int64_t digits = int64_t{1} << digit_bits_;
  const uint32_t mask = static_cast<uint32_t>(digits - 1);
  uint32_t* keys = first_keys_;
  uint32_t* ids = first_ids_;
  uint32_t* next_keys = reinterpret_cast<uint32_t*>(words_);
  uint32_t* next_codes = sorted_ids_;
  for (int shift = 0; shift < passes_ * digit_bits_; shift += digit_bits_) {
    team.each(workers_, [&](int w, int) {
      uint32_t* counts = starts_ + digits * w;
      std::memset(counts, 0, static_cast<size_t>(digits) * sizeof(uint32_t));
      const int64_t last = items_ * (w + 1) / workers_;
      for (int64_t i = items_ * w / workers_; i < last; ++i) ++counts[(keys[i] >> shift) & mask];
    });
    team.one([&] {
      uint32_t at = 0;
      for (int64_t d = 0; d < digits; ++d) {
        for (int w = 0; w < workers_; ++w) {
          uint32_t& start = starts_[digits * w + d];
          const uint32_t count = start;
          start = at;
          at += count;
        }
      }
    });
    team.each(workers_, [&](int w, int) {
      uint32_t* starts = starts_ + digits * w;
      const int64_t last = items_ * (w + 1) / workers_;
      for (int64_t i = items_ * w / workers_; i < last; ++i) {
        const uint32_t to = starts[(keys[i] >> shift) & mask]++;
        next_keys[to] = keys[i];
        next_codes[to] = ids[i];
      }
    });
    std::swap(keys, next_keys);
    std::swap(ids, next_codes);
  }
  team.one([&] {
    keys_ = keys;
    ids_ = ids;
  });
  find_segments(keys, next_keys, team);
}

// Each worker lists the beginnings in its share where they fit in any case; then they are moved
// together.
void RowOrder::find_segments(const uint32_t* keys, uint32_t* begins, Team& team) {
  team.each(workers_, [&](int w, int) {
    const int64_t first = items_ * w / workers_, last = items_ * (w + 1) / workers_;
    uint32_t* out = begins + first;
    int64_t found = 0;
    uint32_t before = first == 0 ? (items_ == 0 ? 0 : ~keys[0]) : keys[first - 1];
    for (int64_t i = first; i < last; ++i) {
      out[found] = static_cast<uint32_t>(i);
      found += keys[i] != before;
      before = keys[i];
    }
    found_[w].segments = found;
  });
  team.one([&] {
    begins_ = begins;
    segments_ = 0;
    for (int w = 0; w < workers_; ++w) {
      const int64_t found = found_[w].segments;
      std::memmove(begins + segments_, begins + items_ * w / workers_,
                   static_cast<size_t>(found) * sizeof(uint32_t));
      segments_ += found;
    }
    begins[segments_] = static_cast<uint32_t>(items_);
  });
}

void RowOrder::fill_keys() {
  for (int64_t s = 0; s < segments_; ++s) {
    std::fill(keys_ + begins_[s], keys_ + begins_[s + 1], keys_[begins_[s]]);
  }
}

}  // namespace sow::detail
