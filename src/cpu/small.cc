// SPDX-License-Identifier: Apache-2.0
// Strategy "small": all positions as one run of updates, where setting up anything else would cost
// more than the work.
#include <algorithm>
#include <cstring>
#include <optional>

#include "cpu/common/byte_width.h"
#include "cpu/direct/direct_walk.h"
#include "cpu/read/id_reader.h"
#include "cpu/strategies.h"
#include "cpu/transfer_facts.h"
#include "cpu/tuning.h"
#include "transfer/index/key_runs.h"

namespace sow::detail {

namespace {

constexpr int64_t kMostUpdates = 2048;
// Sums have a float64 for every place, met or not.
constexpr int64_t kMostPlaces = 2;  // for each update

bool is_one_run(const Canonical& c) { return c.outer_count == 1 && c.row.size == 1; }
int64_t updates_of(const Canonical& c) { return c.outer_count * c.item_count * c.row.size; }

bool is_applied(const Transfer& t, const FoldKernels& kernels) {
  return kernels.direct && (t.include_self || t.reduce == Reduce::assign);
}

bool supports(const Transfer& t, const Canonical& c) {
  if (!is_fold(t) || c.outer_count > kMostUpdates || c.row.size > kMostUpdates ||
      c.item_count > kMostUpdates || updates_of(c) > kMostUpdates) {
    return false;
  }
  const FoldKernels& kernels = *fold_kernels(t.dtype, t.reduce);
  const int64_t places = all_places(t, c).count();
  if (is_applied(t, kernels)) return places < int64_t{1} << 32;
  return folds_plainly(t, kernels) && places <= kMostPlaces * updates_of(c) + 64 &&
         k_block.supports(t, c);
}

double cost(const Transfer& t, const Canonical& c, int) {
  const auto updates = static_cast<double>(updates_of(c));
  const double start =
      tuning::kCallNs + (is_one_run(c) ? 0 : tuning::kTaskNs + tuning::kFlattenNs * updates);
  if (is_applied(t, *fold_kernels(t.dtype, t.reduce))) return start + element_ns(t) * updates;
  const auto places = static_cast<double>(all_places(t, c).count());
  return start + tuning::kPlainSumNs * updates + tuning::kPlainPlaceNs * places;
}

size_t sums_bytes(const Transfer& t, const Canonical& c) {
  if (is_applied(t, *fold_kernels(t.dtype, t.reduce))) return 0;
  const auto words = static_cast<size_t>(fold_kernels(t.dtype, t.reduce)->plain.words);
  return (static_cast<size_t>(all_places(t, c).count()) * words * sizeof(double) + 63) / 64 * 64;
}

// Sums that are not exact in one float64 are done as if this had never been tried.
size_t workspace(const Transfer& t, const Canonical& c, int) {
  const size_t sums = sums_bytes(t, c);
  return sums == 0 ? 0 : std::max(sums, k_block.workspace(t, c, 1));
}

const Strategy* fallback(const Transfer& t, const Canonical& c, int) {
  return sums_bytes(t, c) == 0 ? nullptr : &k_block;
}

// Every update of a Transfer at once: the ids of the places and the values, in source order.
struct Run {
  const uint32_t* cells;
  const char* values;
  int64_t count;
};

// One checked index, and values that lie one after the other or are all the same: nothing but ids
// has to be made.
bool is_plain(const Transfer& t, const Canonical& all) {
  if (t.dst_index.size() != 1 || !t.src_index.empty() || t.negate) return false;
  if (t.bounds != Bounds::error && t.bounds != Bounds::promise) return false;
  return t.src.data == nullptr || is_dense_source(all.items);
}

// The ids of the innermost axis, whose first element is `id` on and whose first key is `keys`.
template <class K>
void decode_axis(const Axis& axis, const IndexOperand& index, uint32_t step, const K* keys,
                 uint32_t id, uint32_t* cells) {
  const auto extent = static_cast<uint32_t>(index.extent);
  const uint32_t scale = static_cast<uint32_t>(index.scale / step),
                 walk = static_cast<uint32_t>(axis.dst / step);
  const int64_t stride = axis.index[0];
  if (stride == 1 && scale == 1 && walk == 0) return wrap_keys(keys, axis.size, extent, id, cells);
  for (int64_t i = 0; i < axis.size; ++i) {
    const auto key = static_cast<int32_t>(keys[i * stride]);
    const uint32_t wrapped =
        static_cast<uint32_t>(key) + (static_cast<uint32_t>(key >> 31) & extent);
    cells[i] = id + scale * wrapped + walk * static_cast<uint32_t>(i);
  }
}

template <class K>
void decode_plain(const Transfer& t, const Canonical& all, const OffsetIds& places,
                  uint32_t* cells) {
  const IndexOperand& index = t.dst_index[0];
  const Axis& inner = all.items.back();
  const auto step = static_cast<uint32_t>(places.step());
  for (int64_t first = 0; first < all.item_count; first += inner.size) {
    int64_t rest = first / inner.size, dst = 0, keys = 0;
    for (size_t i = all.items.size() - 1; i-- > 0;) {
      const Axis& axis = all.items[i];
      const int64_t at = i == 0 ? rest : rest % axis.size;
      if (i > 0) rest /= axis.size;
      dst += at * axis.dst;
      keys += at * axis.index[0];
    }
    decode_axis(inner, index, step, reinterpret_cast<const K*>(index.data) + keys,
                static_cast<uint32_t>(places.id_of(dst)), cells + first);
  }
}

void fill_values(const Transfer& t, int64_t count, int size, char* values) {
  with_width(static_cast<size_t>(size), [&](auto width) {
    Word<width()> value;
    std::memcpy(&value, t.scalar, sizeof(value));
    std::fill_n(reinterpret_cast<Word<width()>*>(values), count, value);
  });
}

// Calls f(Run) once, or not at all where every update was dropped.
template <class F>
void with_run(const Transfer& t, const Canonical& all, const OffsetIds& places,
              const FoldKernels& kernels, F&& f) {
  const bool few_places = places.count() <= INT32_MAX && places.step() <= INT32_MAX;
  uint32_t cells[kMostUpdates];
  alignas(16) char values[kMostUpdates * 16];
  if (few_places && !all.items.empty() && is_plain(t, all)) {
    if (t.dst_index[0].dtype == DType::int32) {
      decode_plain<int32_t>(t, all, places, cells);
    } else {
      decode_plain<int64_t>(t, all, places, cells);
    }
    if (t.src.data == nullptr) fill_values(t, all.item_count, kernels.value_size, values);
    return f(Run{cells, t.src.data == nullptr ? values : t.src.data, all.item_count});
  }
  int64_t count = 0;
  IdReader reader(t, all, kernels, places);
  reader.read(outer_base(all, 0), 0, all.item_count,
              [&](const uint32_t* ids, const char* from, int more) {
                std::copy(ids, ids + more, cells + count);
                std::memcpy(values + count * kernels.value_size, from,
                            static_cast<size_t>(more) * kernels.value_size);
                count += more;
              });
  if (count > 0) f(Run{cells, values, count});
}

void run(const Transfer& t, const Canonical& c, const Plan&, char* memory) {
  const FoldKernels& kernels = *fold_kernels(t.dtype, t.reduce);
  std::optional<Canonical> flat;
  if (!is_one_run(c)) flat = flatten(t);
  const OffsetIds places = all_places(t, c);
  const PlaceRange block{t.dst.data + places.lowest() * kernels.value_size, places.step(),
                         t.include_self};
  with_run(t, flat ? *flat : c, places, kernels, [&](const Run& run) {
    if (is_applied(t, kernels)) return kernels.apply.block(block, run.cells, run.values, run.count);
    auto* sums = reinterpret_cast<double*>(memory);
    if (kernels.plain.fold(block, places.count(), run.count, sums, run.cells, run.values,
                           run.count)) {
      return;
    }
    k_block.run(t, c, Plan{&k_block, 1, k_block.workspace(t, c, 1)}, memory);
  });
}

}  // namespace

const Strategy k_small = {
    .name = "small",
    .summary = "few updates in one run; sums in one plain float64 per place, where that is exact",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .fallback = fallback,
};

}  // namespace sow::detail
