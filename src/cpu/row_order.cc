// Sorts items by destination: least significant digit first, every worker its share of each pass.
#include "cpu/row_order.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/tuning.h"

namespace sow::detail {

RowOrder::RowOrder(const Transfer& transfer, const Canonical& canonical, int workers, Carver& carver)
    : transfer_(transfer),
      canonical_(canonical),
      places_(item_places(transfer)),
      sources_(item_sources(transfer, canonical)),
      workers_(workers),
      capacity_(canonical.item_count) {
  int bits = 1;
  while (places_.count() > (int64_t{1} << bits)) ++bits;
  passes_ = (bits + tuning::kDigitBits - 1) / tuning::kDigitBits;
  digit_bits_ = (bits + passes_ - 1) / passes_;
  for (int i = 0; i < 2; ++i) {
    keys_[i] = carver.take<uint32_t>(capacity_ + 1);
    codes_[i] = carver.take<uint32_t>(capacity_);
  }
  starts_ = carver.take<uint32_t>(int64_t{workers} << digit_bits_);
  kept_ = carver.take<int64_t>(workers);
}

void RowOrder::build(const OuterBase& base) {
  current_ = 0;
  compact_ = false;
  parallel_run(workers_, [&](int worker, int) { decode(base, worker); });
  items_ = 0;
  for (int w = 0; w < workers_; ++w) items_ += kept_[w];
  for (int pass = 0; pass < passes_; ++pass) sort_by(pass * digit_bits_);
  find_segments();
}

void RowOrder::decode(const OuterBase& base, int worker) {
  static const FoldKernels kNoKernels{};
  UpdateReader reader(transfer_, canonical_, kNoKernels);
  uint32_t* keys = keys_[0] + first_of(worker);
  uint32_t* codes = codes_[0] + first_of(worker);
  const PlaceCode places = places_, sources = sources_;
  int64_t kept = 0;
  reader.read_places(base, first_of(worker), first_of(worker + 1), kTileItems,
                     [&](const int64_t* to, const int64_t* from, int count, bool) {
                       for (int i = 0; i < count; ++i) {
                         keys[kept + i] = static_cast<uint32_t>(places.code_of(to[i] - base.dst));
                         codes[kept + i] = static_cast<uint32_t>(sources.code_of(from[i] - base.src));
                       }
                       kept += count;
                     });
  kept_[worker] = kept;
}

void RowOrder::sort_by(int shift) {
  const int64_t digits = int64_t{1} << digit_bits_;
  const uint32_t mask = static_cast<uint32_t>(digits - 1);
  const uint32_t* keys = keys_[current_];
  const uint32_t* codes = codes_[current_];
  uint32_t* sorted_keys = keys_[1 - current_];
  uint32_t* sorted_codes = codes_[1 - current_];
  const auto piece = [&](int w, int64_t& first, int64_t& last) {
    first = compact_ ? items_ * w / workers_ : first_of(w);
    last = compact_ ? items_ * (w + 1) / workers_ : first + kept_[w];
  };
  parallel_run(workers_, [&](int w, int) {
    uint32_t* counts = starts_ + digits * w;
    std::memset(counts, 0, static_cast<size_t>(digits) * sizeof(uint32_t));
    int64_t first, last;
    piece(w, first, last);
    for (int64_t i = first; i < last; ++i) ++counts[(keys[i] >> shift) & mask];
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
    int64_t first, last;
    piece(w, first, last);
    for (int64_t i = first; i < last; ++i) {
      const uint32_t to = starts[(keys[i] >> shift) & mask]++;
      sorted_keys[to] = keys[i];
      sorted_codes[to] = codes[i];
    }
  });
  compact_ = true;
  current_ = 1 - current_;
}

void RowOrder::find_segments() {
  const uint32_t* keys = keys_[current_];
  uint32_t* begins = keys_[1 - current_];
  const auto begins_here = [&](int64_t i) { return i == 0 || keys[i] != keys[i - 1]; };
  parallel_run(workers_, [&](int w, int) {
    int64_t found = 0;
    for (int64_t i = items_ * w / workers_; i < items_ * (w + 1) / workers_; ++i) found += begins_here(i);
    kept_[w] = found;
  });
  segments_ = 0;
  for (int w = 0; w < workers_; ++w) {
    const int64_t found = kept_[w];
    kept_[w] = segments_;
    segments_ += found;
  }
  parallel_run(workers_, [&](int w, int) {
    int64_t at = kept_[w];
    for (int64_t i = items_ * w / workers_; i < items_ * (w + 1) / workers_; ++i) {
      if (begins_here(i)) begins[at++] = static_cast<uint32_t>(i);
    }
  });
  begins[segments_] = static_cast<uint32_t>(items_);
}

}  // namespace sow::detail
