// SPDX-License-Identifier: Apache-2.0
// Strategy "partition": the updates are partitioned into buckets, each a range of the destination
// that fits the cache; then every bucket is folded on its own.
#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "core/threads/parallel.h"
#include "cpu/common/prefetch.h"
#include "cpu/direct/direct_walk.h"
#include "cpu/fold/cell_block.h"
#include "cpu/fold/unique_fold.h"
#include "cpu/partition/bucket_writer.h"
#include "cpu/read/id_reader.h"
#include "cpu/strategies.h"

namespace sow::detail {

namespace {

struct Layout {
  const FoldKernels* kernels;
  const FixedPointKernels* fixed_point;
  OffsetIds places;
  BucketShape partition;
  bool direct;            // buckets are applied to the destination itself
  bool sparse;            // few places are met
  const PairFold* pairs;  // how they are applied, where that is quicker
  bool whole;             // there is nothing between the places that is not one

  bool constant() const { return partition.value_size == 0; }  // every update has the same value
  int64_t bucket_places() const { return int64_t{1} << partition.bits; }
};

// Enough buckets that their cells stay in the cache, and as many as partition quickly: few are met
// again too soon, many take turns in the first-level cache.
void choose_buckets(Layout& layout, int64_t cell_bytes) {
  const int64_t places = layout.places.count();
  int bits = tuning::kFewestBucketBits;
  const auto buckets = [&] { return ((places - 1) >> bits) + 1; };
  while (buckets() > tuning::kBuckets) ++bits;
  while ((cell_bytes << bits) > tuning::kBucketBytes && 2 * buckets() <= tuning::kMostBuckets)
    --bits;
  layout.partition.bits = bits;
  layout.partition.buckets = buckets();
}

double place_count(const Transfer& t, const Canonical& c) {
  double places = static_cast<double>(c.outer_count) * static_cast<double>(c.row.size);
  for (const IndexOperand& index : t.dst_index)
    places *= static_cast<double>(std::max<int64_t>(index.extent, 1));
  return places;
}

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout;
  layout.kernels = fold_kernels(t.dtype, t.reduce);
  layout.fixed_point = fixed_point_kernels(t.dtype, t.reduce);
  layout.places = all_places(t, c);
  layout.direct = is_direct(t);
  const int64_t updates = c.outer_count * c.item_count * c.row.size;
  layout.sparse = !layout.direct && layout.places.count() > tuning::kSparsePlaces * updates;
  layout.pairs =
      layout.direct && layout.places.step() == 1 ? pair_fold(t.dtype, t.reduce) : nullptr;
  layout.whole = static_cast<double>(layout.places.count()) == place_count(t, c);
  layout.partition.updates = updates;
  layout.partition.value_size = t.src.data == nullptr ? 0 : layout.kernels->value_size;
  // Of 16-bit values only where the keys are int64: pairs must not be larger than both.
  layout.partition.paired = layout.partition.value_size == 4 ||
                            (layout.partition.value_size == 2 && !t.dst_index.empty() &&
                             t.dst_index[0].dtype == DType::int64);
  layout.partition.workers = updates < tuning::kSerialUpdates ? 1 : threads;
  choose_buckets(layout, layout.direct || layout.sparse  ? layout.kernels->value_size
                         : layout.fixed_point != nullptr ? 8 * layout.fixed_point->words
                                                         : 4 + layout.kernels->state_size);
  return layout;
}

// What lies in the workspace.
struct Memory {
  Memory(const Layout& layout, char* workspace)
      : carver(workspace),
        store(layout.partition, carver),
        constant(carver.take<char>(layout.constant() ? kTileItems * 16 : 0)),
        fold_bytes(bytes_of(layout)),
        folds(carver.take<char>(fold_bytes * layout.partition.workers)) {}

  static int64_t bytes_of(const Layout& layout) {
    if (layout.direct) {
      const bool cells = layout.kernels->extremes.open != nullptr;
      return cells ? layout.bucket_places() * layout.kernels->state_size : 0;
    }
    Carver counter(nullptr);
    if (layout.sparse) {
      UniqueFold fold(*layout.kernels, layout.bucket_places(), layout.partition.updates, counter);
    } else {
      CellBlock fold(*layout.kernels, layout.fixed_point, layout.bucket_places(),
                     layout.partition.updates, counter);
    }
    return static_cast<int64_t>(counter.used());
  }

  Carver carver;
  BucketStore store;
  char* constant;  // a batch of the one value
  int64_t fold_bytes;
  char* folds;
};

class Partition {
 public:
  Partition(const Transfer& t, const Layout& layout, char* workspace)
      : transfer_(t),
        layout_(layout),
        kernels_(*layout.kernels),
        flat_(flatten(t)),
        memory_(layout, workspace) {}

  // False: there is a bad key, and nothing was written.
  bool run() {
    if (layout_.constant()) fill_constant();
    const int workers = layout_.partition.workers;
    std::array<MagnitudeRange, kMostWorkers> ranges;
    std::atomic<bool> bad{false};
    std::atomic<int64_t> next{0};
    parallel_team(workers, [&](Team& team) {
      team.each(workers, [&](int w, int) {
        MagnitudeRange range;
        if (!partition(w, range)) bad = true;
        if (w < kMostWorkers) ranges[w] = range;
      });
      if (bad) return;
      team.one([&] {
        for (int w = 0; w < std::min(workers, kMostWorkers); ++w) range_.include(ranges[w]);
        range_known_ = workers <= kMostWorkers && !layout_.constant();
      });
      team.each(workers, [&](int w, int) { fold_buckets(w, next); });
    });
    return !bad;
  }

 private:
  static constexpr int kMostWorkers = 64;
  static constexpr int64_t kPlacesLooked = 8;  // an update

  void fill_constant() {
    for (int i = 0; i < kTileItems; ++i) {
      std::memcpy(memory_.constant + i * kernels_.value_size, transfer_.scalar,
                  kernels_.value_size);
    }
    if (transfer_.negate) kernels_.negate(memory_.constant, kTileItems);
  }

  bool partition(int w, MagnitudeRange& range) {
    BucketStore::Writer hand(memory_.store, w);
    IdReader reader(transfer_, flat_, kernels_, layout_.places);
    reader.check_keys();
    const OuterBase base = outer_base(flat_, 0);
    const int64_t first = memory_.store.first_of(w), last = memory_.store.first_of(w + 1);
    if (layout_.constant()) {
      return reader.read_ids(base, first, last, [&](const uint32_t* ids, int count) {
        hand.partition_places(ids, count, reader.to_prefetch());
      });
    }
    const auto scan = [&](const char* values, int count) {
      if (layout_.fixed_point != nullptr) layout_.fixed_point->scan(values, count, range);
    };
    if (reader.has_runs() && hand.partitions_keys()) {
      return reader.read_runs(
          base, first, last,
          [&](const char* keys, bool int64_keys, const KeyRun& run, const char* values, int count) {
            const bool good = hand.partition_keys(keys, int64_keys, run, values, count);
            scan(values, count);  // which are near now
            return good;
          });
    }
    bool good = true;
    with_width(static_cast<size_t>(kernels_.value_size), [&](auto width) {
      good =
          reader.read(base, first, last, [&](const uint32_t* ids, const char* values, int count) {
            hand.partition<width()>(ids, values, count, reader.to_prefetch());
            scan(values, count);
          });
    });
    return good;
  }

  void fold_buckets(int w, std::atomic<int64_t>& next) {
    Carver carver(memory_.folds + memory_.fold_bytes * w);
    std::optional<UniqueFold> sparse;
    std::optional<CellBlock> block;
    if (layout_.sparse) {
      sparse.emplace(kernels_, layout_.bucket_places(), layout_.partition.updates, carver);
      sparse->clear();
    } else if (!layout_.direct) {
      block.emplace(kernels_, layout_.fixed_point, layout_.bucket_places(),
                    layout_.partition.updates, carver);
    }
    BucketStore::Reader reader(memory_.store, layout_.constant() ? memory_.constant : nullptr);
    const auto take = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
    // The bucket after each is known, and prefetched, where there are enough of them to share.
    const BucketShape& partition = layout_.partition;
    const bool ahead = (layout_.sparse || layout_.pairs != nullptr) &&
                       partition.buckets >= 16 * partition.workers &&
                       is_touched(layout_.places.step(), layout_.bucket_places(),
                                  partition.updates / partition.buckets, kernels_.value_size);
    int64_t b = take(), after = 0;
    for (; b < layout_.partition.buckets; b = ahead ? after : take()) {
      if (ahead) after = take();
      reader.open(b);
      if (reader.count() == 0) continue;
      const int64_t first = layout_.places.offset_of(b << layout_.partition.bits);
      PlaceRange range{transfer_.dst.data + first * kernels_.value_size, layout_.places.step(),
                       transfer_.include_self};
      const auto walk = [&](auto&& f) { reader.read(f); };
      range.far = !ahead;
      if (ahead && after < layout_.partition.buckets) prefetch(after, range);
      if (sparse) {
        sparse->run(range, reader.count(), walk);
      } else if (block) {
        fold_block(*block, range, b, reader);
      } else {
        apply(range, b, reader, memory_.folds + memory_.fold_bytes * w);
      }
    }
  }

  void apply(PlaceRange& range, int64_t bucket, BucketStore::Reader& reader, char* states) const {
    const int64_t places = std::min(layout_.bucket_places(),
                                    layout_.places.count() - (bucket << layout_.partition.bits));
    const PairFold* pairs = layout_.constant() ? nullptr : layout_.pairs;
    // Looking at all places for a few updates would cost more than it saves.
    const bool worthwhile = kPlacesLooked * reader.count() >= places;
    if (pairs != nullptr &&
        (pairs->can_begin == nullptr || (worthwhile && pairs->can_begin(range, places))))
      return apply_pairs(*pairs, range, reader);
    range.to_prefetch = nullptr;
    // All places are written back, so that what lies between them must be nobody else's.
    const bool often = layout_.whole && reader.count() >= places;
    if (often && kernels_.extremes.open != nullptr &&
        kernels_.extremes.open(range, places, states)) {
      reader.read([&](const uint32_t* cells, const char* values, int count) {
        kernels_.extremes.add(states, cells, values, count);
      });
      return kernels_.extremes.close(range, places, states);
    }
    reader.read([&](const uint32_t* cells, const char* values, int count) {
      kernels_.apply.block(range, cells, values, count);
    });
  }

  // Pairs that cannot be applied as such are taken apart, and all that come after them.
  void apply_pairs(const PairFold& fold, const PlaceRange& range,
                   BucketStore::Reader& reader) const {
    int64_t done = 0;
    bool pairs_only = true;
    reader.read_pairs(
        0, reader.count(), [&](const uint64_t* pairs, int64_t count, const uint64_t* to_prefetch) {
          PlaceRange block = range;
          const int64_t from = range.to_prefetch_bytes * done / reader.count();
          done += count;
          block.to_prefetch += from;
          block.to_prefetch_bytes = range.to_prefetch_bytes * done / reader.count() - from;
          pairs_only = pairs_only && fold.apply(block, pairs, count, to_prefetch);
          if (pairs_only) return;
          uint32_t cells[kTileItems], values[kTileItems];
          block.to_prefetch = nullptr;
          for (int64_t at = 0; at < count; at += kTileItems) {
            const int64_t some = std::min<int64_t>(kTileItems, count - at);
            pair_kernels().unpack(pairs + at, some, cells, values, kernels_.value_size,
                                  to_prefetch);
            kernels_.apply.block(block, cells, reinterpret_cast<const char*>(values), some);
          }
        });
  }

  void prefetch(int64_t bucket, PlaceRange& range) const {
    const int64_t places = std::min(layout_.bucket_places(),
                                    layout_.places.count() - (bucket << layout_.partition.bits));
    range.to_prefetch =
        transfer_.dst.data +
        layout_.places.offset_of(bucket << layout_.partition.bits) * kernels_.value_size;
    range.to_prefetch_bytes = places * kernels_.value_size;
  }

  void fold_block(CellBlock& fold, const PlaceRange& range, int64_t bucket,
                  BucketStore::Reader& reader) const {
    const int64_t places = layout_.bucket_places();
    fold.open(range, std::min(places, layout_.places.count() - bucket * places),
              range.include_self);
    const auto read = [&](int64_t first, int64_t last, auto&& f) {
      reader.read(first, last, f);
      return true;
    };
    fold.add(KeyedValues(), 0, reader.count(), read, range_known_ ? &range_ : nullptr);
    fold.finish([&] { reader.read(CellBlock::RepairPass{fold}); });
  }

  const Transfer& transfer_;
  const Layout& layout_;
  const FoldKernels& kernels_;
  const Canonical flat_;
  Memory memory_;
  MagnitudeRange range_;  // of all values
  bool range_known_ = false;
};

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  return Memory(layout_of(t, c, threads), nullptr).carver.used();
}

bool supports(const Transfer& t, const Canonical& c) {
  if (!is_fold(t)) return false;
  const Layout layout = layout_of(t, c, 1);
  // Places far apart would leave most cells unused.
  return layout.places.count() < (int64_t{1} << 32) &&
         static_cast<double>(layout.places.count()) <= 4 * place_count(t, c) + 1024 &&
         layout.partition.updates < kCellTag && workspace(t, c, 1) <= workspace_allowed(t, c);
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const double rows = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count);
  const double updates = rows * static_cast<double>(c.row.size);
  if (updates < tuning::kSerialUpdates) return tuning::kNeverNs;
  const Layout layout = layout_of(t, c, threads);
  const BucketShape& shape = layout.partition;
  const double places = static_cast<double>(layout.places.count());
  const tuning::BlockNs ns =
      block_ns(*layout.kernels, layout.fixed_point, updates / places, t.include_self);
  const double fold = layout.pairs != nullptr ? tuning::kPairNs
                      : layout.direct         ? element_ns(t)
                      : layout.sparse         ? tuning::kSparseNs
                                              : ns.update + ns.cell * places / updates;
  const double partition = shape.paired || shape.value_size == 0 ? tuning::kPartitionPairNs
                           : shape.value_size < 4                ? tuning::kPartitionByteNs
                                                                 : tuning::kPartitionUpdateNs;
  // Lines that are not prefetched in order.
  const bool near = is_touched(layout.places.step(), layout.bucket_places(),
                               shape.updates / shape.buckets, layout.kernels->value_size);
  const double lines = near ? 0 : std::min(updates, places * layout.kernels->value_size / 64);
  const double buckets = static_cast<double>(shape.buckets);
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + tuning::kTeamNs +
         updates * (partition + decode_ns(t, c)) / shape.workers +
         (updates * fold + buckets * tuning::kBucketNs + lines * tuning::kLineNs) /
             std::min<double>(shape.workers, buckets);
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  if (!IdReader::can_check(t, flatten(t), layout.places)) check_indices(t);
  if (!Partition(t, layout, memory).run()) check_indices(t);  // says which key it is
}

}  // namespace

const Strategy k_partition = {
    .name = "partition",
    .summary = "updates partitioned into ranges of the destination that fit the cache",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .checks_keys = true,
};

}  // namespace sow::detail
