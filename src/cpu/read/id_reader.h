// SPDX-License-Identifier: Apache-2.0
// Reads updates like UpdateReader, but numbers their places: what blocks of cells take.
#pragma once

#include <type_traits>

#include "cpu/read/offset_ids.h"
#include "cpu/read/update_reader.h"
#include "cpu/sum/fixed_point.h"
#include "transfer/index/key_runs.h"

namespace sow::detail {

// Items of a part of read_runs: enough that beginning one costs nothing.
inline constexpr int64_t kRunItems = 4096;

class IdReader {
 public:
  // Of a last axis on which the index does not depend, as the parts of complex numbers are.
  static constexpr int64_t kColumns = 2;

  IdReader(const Transfer& transfer, const Canonical& canonical, const FoldKernels& kernels,
           const OffsetIds& places);

  // Ids come straight from the keys, without offsets.
  bool decodes() const { return decodes_; }
  // And items are one axis.
  static bool can_decode(const Transfer&, const Canonical&, const OffsetIds&);

  // Whether values_of() gives them.
  static bool is_plain(const Transfer&, const Canonical&, const OffsetIds&);

  // Where it decodes, keys are checked when asked: reading stops at a bad one.
  static bool can_check(const Transfer&, const Canonical&, const OffsetIds&);
  void check_keys() { checks_ = decodes_ && transfer_.bounds == Bounds::error; }
  // Only checks them, if so.
  bool checks_out(const OuterBase& base, int64_t first, int64_t last) const {
    return !checks_ || good_keys(base, first, last);
  }

  // Inside of f: the keys after those of this call, which f may also take as another argument.
  const char* to_prefetch() const { return to_prefetch_; }

  // Calls f(ids, values, count) for the items [first, last) of an outer position; rows have one
  // column. Ids count from the lowest place of the position. False: a key was found to be bad.
  template <class F>
  bool read(const OuterBase& base, int64_t first, int64_t last, F&& f) {
    if (plain_) {
      for (int64_t at = first; at < last; at += kTileItems) {
        const int count = static_cast<int>(std::min<int64_t>(kTileItems, last - at));
        if (!decode_plain(base, at, count)) return false;
        if constexpr (std::is_invocable_v<F&, const uint32_t*, const char*, int, const char*>) {
          f(static_cast<const uint32_t*>(ids_), plain_values(base, at), count, to_prefetch_);
        } else {
          f(static_cast<const uint32_t*>(ids_), plain_values(base, at), count);
        }
      }
      return true;
    }
    if (!checks_out(base, first, last)) return false;
    reader_.read(base, first, last, 0, 1, [&](const Updates& updates) {
      encode(base, updates.offsets, updates.count);
      f(static_cast<const uint32_t*>(ids_), updates.values, updates.count);
    });
    return true;
  }

  // The values of all items of an outer position where they lie one after the other and none is
  // left out; else null.
  const char* values_of(const OuterBase& base) const {
    return plain_ ? plain_values(base, 0) : nullptr;
  }

  // The same with their keys, where those are the ids as they are, if they are good; else nulls.
  KeyedValues keys_of(const OuterBase& base) const;

  // Where keys and values are one run each: calls f(keys, int64_keys, run, values, count) for parts
  // of the items, whose ids are those that place_keys would give; nothing is checked. False: f said
  // so.
  bool has_runs() const { return plain_ && columns_ == 1; }
  template <class F>
  bool read_runs(const OuterBase& base, int64_t first, int64_t last, F&& f) const {
    const IndexOperand& index = transfer_.dst_index[0];
    const bool int64_keys = index.dtype != DType::int32;
    bool good = true;
    for (int64_t at = first; at < last && good; at += kRunItems) {
      each_run(at, std::min<int64_t>(kRunItems, last - at),
               [&](const KeyRun& run, int64_t item, int64_t count) {
                 const char* keys = index.data + (base.index[0] + item) * (int64_keys ? 8 : 4);
                 good = good &&
                        f(keys, int64_keys, run, plain_values(base, item), static_cast<int>(count));
               });
    }
    return good;
  }

  // Where it decodes: the ids of the first items of an outer position at once. False: a key was
  // found to be bad.
  bool ids_of(const OuterBase& base, int64_t count, uint32_t* out) const {
    return decode(base, 0, count, out);
  }

  // Calls f(ids, count) without reading values.
  template <class F>
  bool read_ids(const OuterBase& base, int64_t first, int64_t last, F&& f) {
    if (decodes_) {
      for (int64_t at = first; at < last; at += kTileItems) {
        const int count = static_cast<int>(std::min<int64_t>(kTileItems, last - at));
        if (!decode_plain(base, at, count)) return false;
        f(static_cast<const uint32_t*>(ids_), count);
      }
      return true;
    }
    reader_.read_places(base, first, last, kTileItems,
                        [&](const int64_t* offsets, const int64_t*, int count, bool) {
                          encode(base, offsets, count);
                          f(static_cast<const uint32_t*>(ids_), count);
                        });
    return true;
  }

 private:
  bool decode_plain(const OuterBase& base, int64_t first, int count) {
    if (!decode(base, first, count, ids_)) return false;
    to_prefetch_ = key_at(base, first + count);
    return true;
  }
  bool decode(const OuterBase& base, int64_t first, int64_t count, uint32_t* out) const;
  void spread_columns(const OuterBase& base, int64_t first, int64_t count, uint32_t* out) const;
  template <class K>
  void place_runs(const K* keys, int64_t first, int64_t count, uint32_t* out) const;
  const char* key_at(const OuterBase& base, int64_t item) const {
    const IndexOperand& index = transfer_.dst_index[0];
    return index.data + (base.index[0] + item / columns_) * (index.dtype == DType::int32 ? 4 : 8);
  }
  // Calls f(run, first, count) for items whose places one run of keys tells.
  template <class F>
  void each_run(int64_t first, int64_t count, F&& f) const;
  bool good_keys(const OuterBase& base, int64_t first, int64_t last) const;
  void encode(const OuterBase& base, const int64_t* offsets, int count) {
    for (int i = 0; i < count; ++i)
      ids_[i] = static_cast<uint32_t>(places_.id_of(offsets[i] - base.dst));
  }
  const char* plain_values(const OuterBase& base, int64_t first) const {
    return transfer_.src.data + (base.src + first) * kernels_.value_size;
  }

  const Transfer& transfer_;
  const Canonical& canonical_;
  const FoldKernels& kernels_;
  const OffsetIds& places_;
  UpdateReader reader_;
  int64_t columns_;  // items that share a key
  bool decodes_;     // one run of keys, none of them dropped or clipped: ids need no offsets
  bool plain_;       // and the values are one run too
  bool checks_ = false;
  const char* to_prefetch_ = nullptr;
  uint32_t ids_[kTileItems];
};

template <class F>
void IdReader::each_run(int64_t first, int64_t count, F&& f) const {
  const IndexOperand& index = transfer_.dst_index[0];
  const size_t axes = canonical_.items.size() - (columns_ > 1 ? 1 : 0);
  const Axis& inner = canonical_.items[axes - 1];
  KeyRun run;
  run.extent = static_cast<uint32_t>(index.extent);
  run.scale = static_cast<uint32_t>(index.scale / places_.step());
  run.walk = static_cast<uint32_t>(inner.dst / places_.step());
  run.first = 0;
  if (axes == 1 && run.scale == 1 && run.walk == 0) return f(run, first, count);
  // Where the run of the innermost axis begins; then one run after the other, with carries.
  Dims coordinates(axes, 0);
  int64_t rest = first, dst = 0;
  for (size_t i = axes; i-- > 0;) {
    const Axis& axis = canonical_.items[i];
    coordinates[i] = i == 0 ? rest : rest % axis.size;
    rest /= axis.size;
    dst += coordinates[i] * axis.dst;
  }
  for (int64_t done = 0; done < count;) {
    size_t last = axes - 1;
    const int64_t some = std::min(inner.size - coordinates[last], count - done);
    run.first = static_cast<uint32_t>(places_.step() == 1 ? dst : dst / places_.step());
    f(run, first + done, some);
    done += some;
    coordinates[last] += some;
    dst += some * inner.dst;
    for (; last > 0 && coordinates[last] == canonical_.items[last].size; --last) {
      dst += canonical_.items[last - 1].dst - coordinates[last] * canonical_.items[last].dst;
      coordinates[last] = 0;
      ++coordinates[last - 1];
    }
  }
}

}  // namespace sow::detail
