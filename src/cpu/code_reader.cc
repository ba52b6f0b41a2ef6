// The quick way from keys to codes.
#include "cpu/code_reader.h"

#include "transfer/key_runs.h"

namespace sow::detail {

namespace {

// Keys that lie one after the other, in runs long enough to be worth a call, and places that are
// found from them by multiplying.
bool is_one_run(const Transfer& t, const Canonical& c, const PlaceCode& places) {
  constexpr int64_t kShortest = 32;
  const bool checked = t.bounds == Bounds::error || t.bounds == Bounds::promise;
  if (!checked || t.dst_index.size() != 1 || !t.src_index.empty() || c.items.empty()) return false;
  if (c.items.size() > 1 && c.items.back().size < kShortest) return false;
  int64_t step = 1;
  for (size_t i = c.items.size(); i-- > 0;) {
    if (c.items[i].index[0] != step || c.items[i].dst < 0) return false;
    step *= c.items[i].size;
  }
  return t.dst_index[0].extent <= INT32_MAX && places.lowest() == 0 && places.count() <= UINT32_MAX;
}

bool is_dense(const Canonical& c) {
  int64_t step = 1;
  for (size_t i = c.items.size(); i-- > 0;) {
    if (c.items[i].src != step) return false;
    step *= c.items[i].size;
  }
  return true;
}

// Calls f(keys), the keys from number `first` on.
template <class F>
auto with_keys(const IndexOperand& index, int64_t first, F&& f) {
  if (index.dtype == DType::int32) return f(reinterpret_cast<const int32_t*>(index.data) + first);
  return f(reinterpret_cast<const int64_t*>(index.data) + first);
}

}  // namespace

CodeReader::CodeReader(const Transfer& t, const Canonical& c, const FoldKernels& kernels,
                       const PlaceCode& places)
    : transfer_(t),
      canonical_(c),
      kernels_(kernels),
      places_(places),
      reader_(t, c, kernels),
      decodes_(is_one_run(t, c, places)),
      plain_(is_plain(t, c, places)) {}

bool CodeReader::can_decode(const Transfer& t, const Canonical& c, const PlaceCode& places) {
  return is_one_run(t, c, places) && c.items.size() == 1 && c.items[0].dst == 0;
}
bool CodeReader::is_plain(const Transfer& t, const Canonical& c, const PlaceCode& places) {
  return is_one_run(t, c, places) && t.src.data != nullptr && is_dense(c) && !t.negate;
}
bool CodeReader::can_check(const Transfer& t, const Canonical& c, const PlaceCode& places) {
  return is_one_run(t, c, places);
}

bool CodeReader::good_keys(const OuterBase& base, int64_t first, int64_t last) const {
  const IndexOperand& index = transfer_.dst_index[0];
  return with_keys(index, base.index[0] + first, [&](const auto* keys) {
    return keys_in_range(keys, last - first, index.extent);
  });
}

KeyedValues CodeReader::keys_of(const OuterBase& base) const {
  KeyedValues keys;
  if (!plain_ || canonical_.items.size() != 1 || canonical_.items[0].dst != 0) return keys;
  const IndexOperand& index = transfer_.dst_index[0];
  if (index.extent > 1 && index.scale != places_.step()) return keys;
  keys.wide = index.dtype != DType::int32;
  keys.data = index.data + base.index[0] * (keys.wide ? 8 : 4);
  keys.extent = static_cast<uint32_t>(index.extent);
  keys.values = plain_values(base, 0);
  return keys;
}

bool CodeReader::decode(const OuterBase& base, int64_t first, int64_t count, uint32_t* out) const {
  if (!checks_out(base, first, first + count)) return false;
  with_keys(transfer_.dst_index[0], base.index[0] + first,
            [&](const auto* keys) { place_runs(keys, first, count, out); });
  return true;
}

template <class K>
void CodeReader::place_runs(const K* keys, int64_t first, int64_t count, uint32_t* out) const {
  each_run(first, count, [&](const KeyRun& run, int64_t item, int64_t some) {
    const int64_t at = item - first;
    if (run.scale == 1 && run.walk == 0) {
      wrap_keys(keys + at, some, run.extent, run.first, out + at);
    } else {
      place_keys(keys + at, some, run, out + at);
    }
  });
}

}  // namespace sow::detail
