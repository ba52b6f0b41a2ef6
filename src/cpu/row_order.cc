// Sorts items by destination, every worker its share of each pass.
#include "cpu/row_order.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/code_reader.h"
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
      run_(is_run()),
      shares_(workers, carver) {
  const int bits = bits_of(places_.count());
  passes_ = (bits + tuning::kDigitBits - 1) / tuning::kDigitBits;
  digit_bits_ = (bits + passes_ - 1) / passes_;
  low_bits_ = std::max({std::min(bits - 4, tuning::kBucketBits), bits - tuning::kDigitBits, 1});
  bucketed_ = low_bits_ <= tuning::kDigitBits && places_.count() / 16 <= capacity_;
  narrow_ = bits_of(run_ ? capacity_ : sources_.count()) + low_bits_ <= 32;
  buckets_ = bucketed_ ? ((places_.count() - 1) >> low_bits_) + 1 : 0;
  first_keys_ = carver.take<uint32_t>(capacity_ + 1);
  first_codes_ = carver.take<uint32_t>(capacity_ + buckets_ + 1);
  sorting_ = carver.take<char>((capacity_ + 1) * 8);
  sorted_codes_ = narrow_ || !bucketed_ ? reinterpret_cast<uint32_t*>(sorting_) + capacity_ + 1
                                        : carver.take<uint32_t>(capacity_);
  starts_ = carver.take<uint32_t>(workers * std::max(buckets_, int64_t{1} << digit_bits_));
  ends_ = carver.take<uint32_t>(buckets_);
  bucket_segments_ = carver.take<uint32_t>(buckets_);
  counts_ = carver.take<uint32_t>(bucketed_ ? int64_t{workers} << low_bits_ : 0);
  found_ = carver.take<Found>(workers);
}

bool RowOrder::is_run() const {
  return canonical_.items.size() == 1 && transfer_.src_index.empty() &&
         transfer_.bounds != Bounds::drop &&
         (transfer_.src.data == nullptr || canonical_.items[0].src > 0);
}

void RowOrder::build(const OuterBase& base) {
  parallel_team(workers_, [&](Team& team) { build(base, team); });
}

void RowOrder::build(const OuterBase& base, Team& team) {
  team.each(workers_, [&](int worker, int) {
    if (run_) {
      decode_run(base, worker);
    } else {
      decode(base, worker);
    }
  });
  team.one([&] {
    items_ = 0;
    for (int w = 0; w < workers_; ++w) items_ += found_[w].items;
    sorted_ = is_sorted();
    if (bucketed_ && !sorted_) return;
    if (run_) {
      for (int64_t i = 0; i < items_; ++i) first_codes_[i] = static_cast<uint32_t>(i);
    } else {
      close_gaps();
    }
    keys_ = first_keys_;
    codes_ = first_codes_;
  });
  if (sorted_) return find_segments(first_keys_, reinterpret_cast<uint32_t*>(sorting_), team);
  if (!bucketed_) return sort_by_digits(team);
  if (narrow_) return sort_by_buckets(reinterpret_cast<uint32_t*>(sorting_), team);
  sort_by_buckets(reinterpret_cast<uint64_t*>(sorting_), team);
}

void RowOrder::decode_run(const OuterBase& base, int worker) {
  CodeReader reader(transfer_, canonical_, kNoKernels, places_);
  const int64_t first = first_of(worker), last = first_of(worker + 1);
  uint32_t* keys = first_keys_ + first;
  uint32_t* counts = starts_ + buckets_ * worker;
  if (bucketed_) std::memset(counts, 0, static_cast<size_t>(buckets_) * sizeof(uint32_t));
  uint32_t before = 0;
  bool ascending = true;
  reader.read_codes(base, first, last, [&](const uint32_t* found, int count) {
    uint32_t falls = found[0] < before;
    for (int i = 1; i < count; ++i) falls |= static_cast<uint32_t>(found[i] < found[i - 1]);
    ascending = ascending && falls == 0;
    before = found[count - 1];
    std::memcpy(keys, found, static_cast<size_t>(count) * sizeof(uint32_t));
    keys += count;
    if (!bucketed_) return;
    for (int i = 0; i < count; ++i) ++counts[found[i] >> low_bits_];
  });
  found_[worker] = {last - first, 0, last > first ? first_keys_[first] : 0, before, ascending};
}

void RowOrder::decode(const OuterBase& base, int worker) {
  UpdateReader reader(transfer_, canonical_, kNoKernels);
  uint32_t* keys = first_keys_ + first_of(worker);
  uint32_t* codes = first_codes_ + first_of(worker);
  uint32_t* counts = starts_ + buckets_ * worker;
  if (bucketed_) std::memset(counts, 0, static_cast<size_t>(buckets_) * sizeof(uint32_t));
  const PlaceCode places = places_, sources = sources_;
  int64_t kept = 0;
  uint32_t before = 0;
  bool ascending = true;
  reader.read_places(
      base, first_of(worker), first_of(worker + 1), kTileItems,
      [&](const int64_t* to, const int64_t* from, int count, bool) {
        for (int i = 0; i < count; ++i) {
          const uint32_t key = static_cast<uint32_t>(places.code_of(to[i] - base.dst));
          ascending = ascending & (key >= before);
          before = key;
          keys[kept + i] = key;
          codes[kept + i] = static_cast<uint32_t>(sources.code_of(from[i] - base.src));
        }
        for (int i = 0; i < count && bucketed_; ++i) ++counts[keys[kept + i] >> low_bits_];
        kept += count;
      });
  found_[worker] = {kept, 0, kept > 0 ? keys[0] : 0, before, ascending};
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
      std::memmove(first_codes_ + at, first_codes_ + first_of(w), bytes);
    }
    at += found_[w].items;
  }
}

void RowOrder::sort_by_digits(Team& team) {
  const int64_t digits = int64_t{1} << digit_bits_;
  const uint32_t mask = static_cast<uint32_t>(digits - 1);
  uint32_t* keys = first_keys_;
  uint32_t* codes = first_codes_;
  uint32_t* next_keys = reinterpret_cast<uint32_t*>(sorting_);
  uint32_t* next_codes = sorted_codes_;
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
        next_codes[to] = codes[i];
      }
    });
    std::swap(keys, next_keys);
    std::swap(codes, next_codes);
  }
  team.one([&] {
    keys_ = keys;
    codes_ = codes;
  });
  find_segments(keys, next_keys, team);
}

void RowOrder::find_segments(const uint32_t* keys, uint32_t* begins, Team& team) {
  const auto begins_here = [&](int64_t i) { return i == 0 || keys[i] != keys[i - 1]; };
  team.each(workers_, [&](int w, int) {
    int64_t found = 0;
    const int64_t last = items_ * (w + 1) / workers_;
    for (int64_t i = items_ * w / workers_; i < last; ++i) found += begins_here(i);
    found_[w].segments = found;
  });
  team.one([&] {
    begins_ = begins;
    segments_ = 0;
    for (int w = 0; w < workers_; ++w) {
      const int64_t found = found_[w].segments;
      found_[w].segments = segments_;
      segments_ += found;
    }
    begins[segments_] = static_cast<uint32_t>(items_);
  });
  team.each(workers_, [&](int w, int) {
    int64_t at = found_[w].segments;
    const int64_t last = items_ * (w + 1) / workers_;
    for (int64_t i = items_ * w / workers_; i < last; ++i) {
      if (begins_here(i)) begins[at++] = static_cast<uint32_t>(i);
    }
  });
}

void RowOrder::fill_keys() {
  for (int64_t s = 0; s < segments_; ++s) {
    std::fill(keys_ + begins_[s], keys_ + begins_[s + 1], keys_[begins_[s]]);
  }
}

}  // namespace sow::detail
