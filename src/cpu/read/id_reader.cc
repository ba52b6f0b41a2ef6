// SPDX-License-Identifier: Apache-2.0
// The quick way from keys to ids.
#include "cpu/read/id_reader.h"

#include "transfer/index/key_runs.h"

namespace sow::detail {

namespace {

// Items of the last axis that share a key, and nothing else.
int64_t columns_of(const Canonical& c) {
  if (c.items.size() < 2) return 1;
  const Axis& last = c.items.back();
  const bool shared =
      last.size == IdReader::kColumns && !last.index.empty() && last.index[0] == 0 && last.dst == 1;
  return shared ? last.size : 1;
}

// Keys that lie one after the other, in runs long enough to be worth a call, and places that are
// found from them by multiplying.
bool is_one_run(const Transfer& t, const Canonical& c, const OffsetIds& places) {
  constexpr int64_t kShortest = 4;
  const bool checked = t.bounds == Bounds::error || t.bounds == Bounds::promise;
  if (!checked || t.dst_index.size() != 1 || !t.src_index.empty() || c.items.empty()) return false;
  // Workers ask, so that nothing is allocated here.
  const bool in_columns = columns_of(c) > 1;
  if (in_columns && places.step() != 1) return false;
  const size_t keyed = c.items.size() - (in_columns ? 1 : 0);
  if (keyed > 1 && c.items[keyed - 1].size < kShortest) return false;
  int64_t step = 1;
  for (size_t i = keyed; i-- > 0;) {
    if (c.items[i].dst < 0 || c.items[i].index[0] != step) return false;
    step *= c.items[i].size;
  }
  return t.dst_index[0].extent <= INT32_MAX && places.lowest() == 0 && places.count() <= UINT32_MAX;
}

// Shorter runs are not worth a call.
constexpr int64_t kCalled = 16;

// Calls f(keys), the keys from number `first` on.
template <class F>
auto with_keys(const IndexOperand& index, int64_t first, F&& f) {
  if (index.dtype == DType::int32) return f(reinterpret_cast<const int32_t*>(index.data) + first);
  return f(reinterpret_cast<const int64_t*>(index.data) + first);
}

}  // namespace

IdReader::IdReader(const Transfer& t, const Canonical& c, const FoldKernels& kernels,
                   const OffsetIds& places)
    : transfer_(t),
      canonical_(c),
      kernels_(kernels),
      places_(places),
      reader_(t, c, kernels),
      columns_(columns_of(c)),
      decodes_(is_one_run(t, c, places)),
      plain_(is_plain(t, c, places)) {}

bool IdReader::can_decode(const Transfer& t, const Canonical& c, const OffsetIds& places) {
  return is_one_run(t, c, places) && c.items.size() == 1 && c.items[0].dst == 0;
}
bool IdReader::is_plain(const Transfer& t, const Canonical& c, const OffsetIds& places) {
  return is_one_run(t, c, places) && t.src.data != nullptr && is_dense_source(c.items) && !t.negate;
}
bool IdReader::can_check(const Transfer& t, const Canonical& c, const OffsetIds& places) {
  return is_one_run(t, c, places);
}

bool IdReader::good_keys(const OuterBase& base, int64_t first, int64_t last) const {
  const IndexOperand& index = transfer_.dst_index[0];
  const int64_t begin = first / columns_, end = (last + columns_ - 1) / columns_;
  return with_keys(index, base.index[0] + begin, [&](const auto* keys) {
    return keys_in_range(keys, end - begin, index.extent);
  });
}

KeyedValues IdReader::keys_of(const OuterBase& base) const {
  KeyedValues keys;
  if (!plain_ || canonical_.items.size() != 1 || canonical_.items[0].dst != 0) return keys;
  const IndexOperand& index = transfer_.dst_index[0];
  if (index.extent > 1 && index.scale != places_.step()) return keys;
  keys.int64_keys = index.dtype != DType::int32;
  keys.data = index.data + base.index[0] * (keys.int64_keys ? 8 : 4);
  keys.extent = static_cast<uint32_t>(index.extent);
  keys.values = plain_values(base, 0);
  return keys;
}

bool IdReader::decode(const OuterBase& base, int64_t first, int64_t count, uint32_t* out) const {
  if (!checks_out(base, first, first + count)) return false;
  if (columns_ > 1) {
    spread_columns(base, first, count, out);
    return true;
  }
  with_keys(transfer_.dst_index[0], base.index[0] + first,
            [&](const auto* keys) { place_runs(keys, first, count, out); });
  return true;
}

void IdReader::spread_columns(const OuterBase& base, int64_t first, int64_t count,
                              uint32_t* out) const {
  static_assert(kColumns == 2);
  constexpr int64_t kSome = 128;
  uint32_t ids[kSome];
  const int64_t past = first + count;
  for (int64_t key = first / 2; 2 * key < past; key += kSome) {
    const int64_t some = std::min(kSome, (past + 1) / 2 - key);
    with_keys(transfer_.dst_index[0], base.index[0] + key,
              [&](const auto* keys) { place_runs(keys, key, some, ids); });
    int64_t begin = 0, end = some;
    if (2 * key < first) out[0] = ids[begin++] + 1;
    if (2 * (key + some) > past) out[past - 1 - first] = ids[--end];
    uint32_t* const to = out + 2 * (key + begin) - first;
    for (int64_t i = begin; i < end; ++i) {
      to[2 * (i - begin)] = ids[i];
      to[2 * (i - begin) + 1] = ids[i] + 1;
    }
  }
}

template <class K>
void IdReader::place_runs(const K* keys, int64_t first, int64_t count, uint32_t* out) const {
  each_run(first, count, [&](const KeyRun& run, int64_t item, int64_t some) {
    const int64_t at = item - first;
    if (some < kCalled) {
      for (int64_t i = at; i < at + some; ++i) {
        const auto key = static_cast<int32_t>(keys[i]);
        const uint32_t wrapped =
            static_cast<uint32_t>(key) + (static_cast<uint32_t>(key >> 31) & run.extent);
        out[i] = run.first + run.scale * wrapped + run.walk * static_cast<uint32_t>(i - at);
      }
    } else if (run.scale == 1 && run.walk == 0) {
      wrap_keys(keys + at, some, run.extent, run.first, out + at);
    } else {
      place_keys(keys + at, some, run, out + at);
    }
  });
}

}  // namespace sow::detail
