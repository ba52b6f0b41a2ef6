// Strategy "partition": the updates are dealt out to buckets, each a range of the destination that
// fits the cache; then every bucket is folded on its own.
#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "core/parallel.h"
#include "cpu/block_fold.h"
#include "cpu/code_reader.h"
#include "cpu/dealt.h"
#include "cpu/direct_walk.h"
#include "cpu/singles_fold.h"
#include "cpu/strategies.h"
#include "cpu/touch.h"

namespace sow::detail {

namespace {

struct Layout {
  const FoldKernels* kernels;
  const WindowKernels* window;
  PlaceCode places;
  DealShape deal;
  bool direct;            // buckets are applied to the destination itself
  bool sparse;            // few places are met
  const PairFold* pairs;  // how they are applied, where that is quicker
  bool whole;             // there is nothing between the places that is not one

  bool constant() const { return deal.value_size == 0; }  // every update has the same value
  int64_t bucket_places() const { return int64_t{1} << deal.bits; }
};

// Enough buckets that their cells stay in the cache, and as many as deal quickly: few are met again
// too soon, many take turns in the first-level cache.
void choose_buckets(Layout& layout, int64_t cell_bytes) {
  const int64_t places = layout.places.count();
  int bits = tuning::kFewestBucketBits;
  const auto buckets = [&] { return ((places - 1) >> bits) + 1; };
  while (buckets() > tuning::kBuckets) ++bits;
  while ((cell_bytes << bits) > tuning::kBucketBytes && 2 * buckets() <= tuning::kMostBuckets)
    --bits;
  layout.deal.bits = bits;
  layout.deal.buckets = buckets();
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
  layout.window = window_kernels(t.dtype, t.reduce);
  layout.places = all_places(t, c);
  layout.direct = is_direct(t);
  const int64_t updates = c.outer_count * c.item_count * c.row.size;
  layout.sparse = !layout.direct && layout.places.count() > tuning::kSparsePlaces * updates;
  layout.pairs =
      layout.direct && layout.places.step() == 1 ? pair_fold(t.dtype, t.reduce) : nullptr;
  layout.whole = static_cast<double>(layout.places.count()) == place_count(t, c);
  layout.deal.updates = updates;
  layout.deal.value_size = t.src.data == nullptr ? 0 : layout.kernels->value_size;
  // Of narrow values only where the keys are wide: pairs must not be larger than both.
  layout.deal.paired =
      layout.deal.value_size == 4 ||
      (layout.deal.value_size == 2 && !t.dst_index.empty() && t.dst_index[0].dtype == DType::int64);
  layout.deal.workers = updates < tuning::kSerialUpdates ? 1 : threads;
  choose_buckets(layout, layout.direct || layout.sparse ? layout.kernels->value_size
                         : layout.window != nullptr     ? 8 * layout.window->words
                                                        : 4 + layout.kernels->state_size);
  return layout;
}

// What lies in the workspace.
struct Memory {
  Memory(const Layout& layout, char* workspace)
      : carver(workspace),
        dealt(layout.deal, carver),
        constant(carver.take<char>(layout.constant() ? kTileItems * 16 : 0)),
        fold_bytes(bytes_of(layout)),
        folds(carver.take<char>(fold_bytes * layout.deal.workers)) {}

  static int64_t bytes_of(const Layout& layout) {
    if (layout.direct) {
      const bool cells = layout.kernels->open_extremes != nullptr;
      return cells ? layout.bucket_places() * layout.kernels->state_size : 0;
    }
    Carver counter(nullptr);
    if (layout.sparse) {
      SinglesFold fold(*layout.kernels, layout.bucket_places(), layout.deal.updates, counter);
    } else {
      BlockFold fold(*layout.kernels, layout.window, layout.bucket_places(), layout.deal.updates,
                     counter);
    }
    return static_cast<int64_t>(counter.used());
  }

  Carver carver;
  Dealt dealt;
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
    const int workers = layout_.deal.workers;
    std::array<WindowRange, kMostWorkers> ranges;
    std::atomic<bool> bad{false};
    std::atomic<int64_t> next{0};
    parallel_team(workers, [&](Team& team) {
      team.each(workers, [&](int w, int) {
        WindowRange range;
        if (!deal(w, range)) bad = true;
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

  bool deal(int w, WindowRange& range) {
    Dealt::Hand hand(memory_.dealt, w);
    CodeReader reader(transfer_, flat_, kernels_, layout_.places);
    reader.check_keys();
    const OuterBase base = outer_base(flat_, 0);
    const int64_t first = memory_.dealt.first_of(w), last = memory_.dealt.first_of(w + 1);
    if (layout_.constant()) {
      return reader.read_codes(base, first, last, [&](const uint32_t* codes, int count) {
        hand.deal_places(codes, count, reader.soon());
      });
    }
    const auto scan = [&](const char* values, int count) {
      if (layout_.window != nullptr) layout_.window->scan(values, count, range);
    };
    if (reader.has_runs() && hand.deals_keys()) {
      return reader.read_runs(
          base, first, last,
          [&](const char* keys, bool wide, const KeyRun& run, const char* values, int count) {
            const bool good = hand.deal_keys(keys, wide, run, values, count);
            scan(values, count);  // which are near now
            return good;
          });
    }
    bool good = true;
    with_width(static_cast<size_t>(kernels_.value_size), [&](auto width) {
      good =
          reader.read(base, first, last, [&](const uint32_t* codes, const char* values, int count) {
            hand.deal<width()>(codes, values, count, reader.soon());
            scan(values, count);
          });
    });
    return good;
  }

  void fold_buckets(int w, std::atomic<int64_t>& next) {
    Carver carver(memory_.folds + memory_.fold_bytes * w);
    std::optional<SinglesFold> sparse;
    std::optional<BlockFold> block;
    if (layout_.sparse) {
      sparse.emplace(kernels_, layout_.bucket_places(), layout_.deal.updates, carver);
      sparse->clear();
    } else if (!layout_.direct) {
      block.emplace(kernels_, layout_.window, layout_.bucket_places(), layout_.deal.updates,
                    carver);
    }
    Dealt::Reader reader(memory_.dealt, layout_.constant() ? memory_.constant : nullptr);
    const auto take = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
    // The bucket after each is known, and sent for, where there are enough of them to share.
    const DealShape& deal = layout_.deal;
    const bool ahead = (layout_.sparse || layout_.pairs != nullptr) &&
                       deal.buckets >= 16 * deal.workers &&
                       is_touched(layout_.places.step(), layout_.bucket_places(),
                                  deal.updates / deal.buckets, kernels_.value_size);
    int64_t b = take(), after = 0;
    for (; b < layout_.deal.buckets; b = ahead ? after : take()) {
      if (ahead) after = take();
      reader.open(b);
      if (reader.count() == 0) continue;
      const int64_t first = layout_.places.offset_of(b << layout_.deal.bits);
      Block range{transfer_.dst.data + first * kernels_.value_size, layout_.places.step(),
                  transfer_.include_self};
      const auto walk = [&](auto&& f) { reader.read(f); };
      range.far = !ahead;
      if (ahead && after < layout_.deal.buckets) send_for(after, range);
      if (sparse) {
        sparse->run(range, reader.count(), walk);
      } else if (block) {
        fold_block(*block, range, b, reader);
      } else {
        apply(range, b, reader, memory_.folds + memory_.fold_bytes * w);
      }
    }
  }

  void apply(Block& range, int64_t bucket, Dealt::Reader& reader, char* states) const {
    const int64_t places =
        std::min(layout_.bucket_places(), layout_.places.count() - (bucket << layout_.deal.bits));
    const PairFold* pairs = layout_.constant() ? nullptr : layout_.pairs;
    // Looking at all places for a few updates would cost more than it saves.
    const bool worthwhile = kPlacesLooked * reader.count() >= places;
    if (pairs != nullptr &&
        (pairs->can_begin == nullptr || (worthwhile && pairs->can_begin(range, places))))
      return apply_pairs(*pairs, range, reader);
    range.soon = nullptr;
    // All places are written back, so that what lies between them must be nobody else's.
    const bool often = layout_.whole && reader.count() >= places;
    if (often && kernels_.open_extremes != nullptr &&
        kernels_.open_extremes(range, places, states)) {
      reader.read([&](const uint32_t* cells, const char* values, int count) {
        kernels_.add_extremes(states, cells, values, count);
      });
      return kernels_.close_extremes(range, places, states);
    }
    reader.read([&](const uint32_t* cells, const char* values, int count) {
      kernels_.apply_to_block(range, cells, values, count);
    });
  }

  // Pairs that cannot be applied as such are taken apart, and all that come after them.
  void apply_pairs(const PairFold& fold, const Block& range, Dealt::Reader& reader) const {
    int64_t done = 0;
    bool pairs_only = true;
    reader.read_pairs(
        0, reader.count(), [&](const uint64_t* pairs, int64_t count, const uint64_t* soon) {
          Block block = range;
          const int64_t from = range.soon_bytes * done / reader.count();
          done += count;
          block.soon += from;
          block.soon_bytes = range.soon_bytes * done / reader.count() - from;
          pairs_only = pairs_only && fold.apply(block, pairs, count, soon);
          if (pairs_only) return;
          uint32_t cells[kTileItems], values[kTileItems];
          block.soon = nullptr;
          for (int64_t at = 0; at < count; at += kTileItems) {
            const int64_t some = std::min<int64_t>(kTileItems, count - at);
            pair_kernels().unpack(pairs + at, some, cells, values, kernels_.value_size, soon);
            kernels_.apply_to_block(block, cells, reinterpret_cast<const char*>(values), some);
          }
        });
  }

  void send_for(int64_t bucket, Block& range) const {
    const int64_t places =
        std::min(layout_.bucket_places(), layout_.places.count() - (bucket << layout_.deal.bits));
    range.soon = transfer_.dst.data +
                 layout_.places.offset_of(bucket << layout_.deal.bits) * kernels_.value_size;
    range.soon_bytes = places * kernels_.value_size;
  }

  void fold_block(BlockFold& fold, const Block& range, int64_t bucket,
                  Dealt::Reader& reader) const {
    const int64_t places = layout_.bucket_places();
    fold.open(range, std::min(places, layout_.places.count() - bucket * places),
              range.include_self);
    const auto read = [&](int64_t first, int64_t last, auto&& f) {
      reader.read(first, last, f);
      return true;
    };
    fold.add(KeyedValues(), 0, reader.count(), read, range_known_ ? &range_ : nullptr);
    fold.finish([&] { reader.read(BlockFold::Again{fold}); });
  }

  const Transfer& transfer_;
  const Layout& layout_;
  const FoldKernels& kernels_;
  const Canonical flat_;
  Memory memory_;
  WindowRange range_;  // of all values
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
         layout.deal.updates < kCellTag && workspace(t, c, 1) <= workspace_allowed(t, c);
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const double rows = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count);
  const double updates = rows * static_cast<double>(c.row.size);
  if (updates < tuning::kSerialUpdates) return tuning::kNeverNs;
  const Layout layout = layout_of(t, c, threads);
  const DealShape& shape = layout.deal;
  const double places = static_cast<double>(layout.places.count());
  const tuning::BlockNs ns = block_ns(*layout.kernels, layout.window, updates / places);
  const double fold = layout.pairs != nullptr ? tuning::kPairNs
                      : layout.direct         ? element_ns(t)
                      : layout.sparse         ? tuning::kSparseNs
                                              : ns.update + ns.cell * places / updates;
  const double deal = shape.paired || shape.value_size < 4 ? tuning::kDealPairNs : tuning::kDealNs;
  // Lines that are not sent for in order.
  const bool near = is_touched(layout.places.step(), layout.bucket_places(),
                               shape.updates / shape.buckets, layout.kernels->value_size);
  const double lines = near ? 0 : std::min(updates, places * layout.kernels->value_size / 64);
  const double buckets = static_cast<double>(shape.buckets);
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + tuning::kTeamNs +
         updates * (deal + decode_ns(t, c)) / shape.workers +
         (updates * fold + buckets * tuning::kBucketNs + lines * tuning::kLineNs) /
             std::min<double>(shape.workers, buckets);
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  if (!CodeReader::can_check(t, flatten(t), layout.places)) check_indices(t);
  if (!Partition(t, layout, memory).run()) check_indices(t);  // says which key it is
}

}  // namespace

const Strategy k_partition = {
    .name = "partition",
    .says = "updates dealt out to ranges of the destination that fit the cache",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
    .checks_keys = true,
};

}  // namespace sow::detail
