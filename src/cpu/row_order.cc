// Sorts items by destination, every worker its share of each pass.
#include "cpu/row_order.h"

#include <atomic>
#include <cstring>

#include "core/parallel.h"
#include "cpu/code_reader.h"
#include "cpu/tuning.h"

namespace sow::detail {

namespace {

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
      capacity_(canonical.item_count) {
  const int bits = bits_of(places_.count());
  passes_ = (bits + tuning::kDigitBits - 1) / tuning::kDigitBits;
  digit_bits_ = (bits + passes_ - 1) / passes_;
  low_bits_ = std::max(std::min(bits - 4, tuning::kBucketBits), bits - tuning::kDigitBits);
  low_bits_ = std::max(low_bits_, 1);
  bucketed_ = low_bits_ <= tuning::kDigitBits && places_.count() / 16 <= capacity_;
  buckets_ = bucketed_ ? ((places_.count() - 1) >> low_bits_) + 1 : 0;
  keys_[0] = carver.take<uint32_t>(capacity_ + 1);
  codes_[0] = carver.take<uint32_t>(capacity_ + 1);
  pairs_ = carver.take<Pair>(capacity_ + 1);
  keys_[1] = reinterpret_cast<uint32_t*>(pairs_);
  codes_[1] = keys_[1] + capacity_ + 1;
  begins_ = keys_[1];
  starts_ = carver.take<uint32_t>(workers * std::max(buckets_, int64_t{1} << digit_bits_));
  ends_ = carver.take<uint32_t>(buckets_);
  bucket_segments_ = carver.take<uint32_t>(buckets_);
  counts_ = carver.take<uint32_t>(bucketed_ ? int64_t{workers} << low_bits_ : 0);
  found_ = carver.take<Found>(workers);
}

void RowOrder::build(const OuterBase& base) {
  current_ = 0;
  parallel_run(workers_, [&](int worker, int) {
    if (!decode_runs(base, worker)) decode(base, worker);
  });
  items_ = 0;
  for (int w = 0; w < workers_; ++w) items_ += found_[w].items;
  if (is_sorted()) {
    close_gaps();
    return find_segments();
  }
  if (bucketed_) return sort_by_buckets();
  close_gaps();
  for (int pass = 0; pass < passes_; ++pass) sort_by_digit(pass * digit_bits_);
  find_segments();
}

// One run of keys and sources, of which none is left out.
bool RowOrder::decode_runs(const OuterBase& base, int worker) {
  const bool one_run = canonical_.items.size() == 1 && transfer_.src_index.empty() &&
                       transfer_.bounds != Bounds::drop &&
                       (transfer_.src.data == nullptr || canonical_.items[0].src > 0);
  if (!one_run) return false;
  static const FoldKernels kNoKernels{};
  CodeReader reader(transfer_, canonical_, kNoKernels, places_);
  const int64_t first = first_of(worker), last = first_of(worker + 1);
  uint32_t* keys = keys_[0] + first;
  uint32_t before = 0;
  bool ascending = true;
  reader.read_codes(base, first, last, [&](const uint32_t* found, int count) {
    uint32_t falls = found[0] < before;
    for (int i = 1; i < count; ++i) falls |= static_cast<uint32_t>(found[i] < found[i - 1]);
    ascending = ascending && falls == 0;
    before = found[count - 1];
    std::memcpy(keys, found, static_cast<size_t>(count) * sizeof(uint32_t));
    keys += count;
  });
  uint32_t* codes = codes_[0];
  for (int64_t i = first; i < last; ++i) codes[i] = static_cast<uint32_t>(i);
  found_[worker] = {last - first, 0, last > first ? keys_[0][first] : 0, before, ascending};
  return true;
}

void RowOrder::decode(const OuterBase& base, int worker) {
  static const FoldKernels kNoKernels{};
  UpdateReader reader(transfer_, canonical_, kNoKernels);
  uint32_t* keys = keys_[0] + first_of(worker);
  uint32_t* codes = codes_[0] + first_of(worker);
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
      std::memmove(keys_[0] + at, keys_[0] + first_of(w), bytes);
      std::memmove(codes_[0] + at, codes_[0] + first_of(w), bytes);
    }
    at += found_[w].items;
  }
}

void RowOrder::sort_by_buckets() {
  begins_ = keys_[1];
  fill_buckets();
  std::atomic<int64_t> next{0};
  parallel_run(workers_, [&](int w, int) {
    uint32_t* counts = counts_ + (int64_t{w} << low_bits_);
    for (int64_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < buckets_;)
      count_out(b, counts);
  });
  // Every bucket left the beginnings of its segments where its pairs were.
  segments_ = 0;
  for (int64_t b = 0; b < buckets_; ++b) {
    const uint32_t* found = reinterpret_cast<const uint32_t*>(pairs_ + (b == 0 ? 0 : ends_[b - 1]));
    std::memmove(begins_ + segments_, found, bucket_segments_[b] * sizeof(uint32_t));
    segments_ += bucket_segments_[b];
  }
  begins_[segments_] = static_cast<uint32_t>(items_);
}

void RowOrder::fill_buckets() {
  const int shift = low_bits_;
  parallel_run(workers_, [&](int w, int) {
    uint32_t* counts = starts_ + buckets_ * w;
    std::memset(counts, 0, static_cast<size_t>(buckets_) * sizeof(uint32_t));
    const uint32_t* keys = keys_[0] + first_of(w);
    for (int64_t i = 0; i < found_[w].items; ++i) ++counts[keys[i] >> shift];
  });
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
  parallel_run(workers_, [&](int w, int) {
    uint32_t* starts = starts_ + buckets_ * w;
    const uint32_t* keys = keys_[0] + first_of(w);
    const uint32_t* codes = codes_[0] + first_of(w);
    Pair* pairs = pairs_;
    for (int64_t i = 0; i < found_[w].items; ++i)
      pairs[starts[keys[i] >> shift]++] = {keys[i], codes[i]};
  });
}

void RowOrder::count_out(int64_t bucket, uint32_t* counts) {
  const uint32_t first = bucket == 0 ? 0 : ends_[bucket - 1], last = ends_[bucket];
  bucket_segments_[bucket] = 0;
  if (first == last) return;
  const uint32_t places = uint32_t{1} << low_bits_, mask = places - 1;
  std::memset(counts, 0, places * sizeof(uint32_t));
  for (uint32_t i = first; i < last; ++i) ++counts[pairs_[i].key & mask];
  const uint32_t base = static_cast<uint32_t>(bucket) << low_bits_;
  uint32_t at = first;
  for (uint32_t place = 0; place < places; ++place) {
    const uint32_t count = counts[place];
    counts[place] = at;
    for (uint32_t i = 0; i < count; ++i) keys_[0][at + i] = base + place;
    at += count;
  }
  for (uint32_t i = first; i < last; ++i)
    codes_[0][counts[pairs_[i].key & mask]++] = pairs_[i].code;
  uint32_t* begins = reinterpret_cast<uint32_t*>(pairs_ + first);
  uint32_t segments = 0, begin = first;
  for (uint32_t place = 0; place < places; ++place) {  // counts are the ends by now
    begins[segments] = begin;
    segments += counts[place] != begin;
    begin = counts[place];
  }
  bucket_segments_[bucket] = segments;
}

void RowOrder::sort_by_digit(int shift) {
  const int64_t digits = int64_t{1} << digit_bits_;
  const uint32_t mask = static_cast<uint32_t>(digits - 1);
  const uint32_t* keys = keys_[current_];
  const uint32_t* codes = codes_[current_];
  uint32_t* sorted_keys = keys_[1 - current_];
  uint32_t* sorted_codes = codes_[1 - current_];
  parallel_run(workers_, [&](int w, int) {
    uint32_t* counts = starts_ + digits * w;
    std::memset(counts, 0, static_cast<size_t>(digits) * sizeof(uint32_t));
    for (int64_t i = items_ * w / workers_; i < items_ * (w + 1) / workers_; ++i) {
      ++counts[(keys[i] >> shift) & mask];
    }
  });
  uint32_t at = 0;
  for (int64_t d = 0; d < digits; ++d) {
    for (int w = 0; w < workers_; ++w) {
      uint32_t& start = starts_[digits * w + d];
      const uint32_t count = start;
      start = at;
      at += count;
    }
  }
  parallel_run(workers_, [&](int w, int) {
    uint32_t* starts = starts_ + digits * w;
    for (int64_t i = items_ * w / workers_; i < items_ * (w + 1) / workers_; ++i) {
      const uint32_t to = starts[(keys[i] >> shift) & mask]++;
      sorted_keys[to] = keys[i];
      sorted_codes[to] = codes[i];
    }
  });
  current_ = 1 - current_;
}

void RowOrder::find_segments() {
  const uint32_t* keys = keys_[current_];
  begins_ = keys_[1 - current_];
  const auto begins_here = [&](int64_t i) { return i == 0 || keys[i] != keys[i - 1]; };
  parallel_run(workers_, [&](int w, int) {
    int64_t found = 0;
    for (int64_t i = items_ * w / workers_; i < items_ * (w + 1) / workers_; ++i)
      found += begins_here(i);
    found_[w].segments = found;
  });
  segments_ = 0;
  for (int w = 0; w < workers_; ++w) {
    const int64_t found = found_[w].segments;
    found_[w].segments = segments_;
    segments_ += found;
  }
  parallel_run(workers_, [&](int w, int) {
    int64_t at = found_[w].segments;
    const int64_t last = items_ * (w + 1) / workers_;
    for (int64_t i = items_ * w / workers_; i < last; ++i) {
      if (begins_here(i)) begins_[at++] = static_cast<uint32_t>(i);
    }
  });
  begins_[segments_] = static_cast<uint32_t>(items_);
}

}  // namespace sow::detail
