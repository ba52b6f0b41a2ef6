// Strategy "partition": the updates are dealt out to buckets, each a range of the destination that
// fits the cache; then every bucket is folded on its own.
#include <atomic>
#include <cstring>

#include "core/parallel.h"
#include "cpu/cell_map.h"
#include "cpu/direct_walk.h"
#include "cpu/strategies.h"
#include "cpu/word.h"

namespace sow::detail {

namespace {

struct Layout {
  const FoldKernels* kernels;
  PlaceCode places;
  int64_t updates;
  int bucket_bits;  // a bucket has 2^bucket_bits places
  int64_t buckets;
  bool direct;    // buckets are applied to the destination itself
  bool constant;  // every update has the same value
  int workers;
};

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout;
  layout.kernels = fold_kernels(t.dtype, t.reduce);
  layout.places = all_places(t, c);
  layout.updates = c.outer_count * c.item_count * c.row.size;
  layout.direct = is_direct(t);
  layout.constant = t.src.data == nullptr;
  const int64_t bytes = layout.direct ? layout.kernels->value_size : 4 + layout.kernels->state_size;
  layout.bucket_bits = 4;
  const auto places_of = [&] { return int64_t{1} << layout.bucket_bits; };
  while (2 * places_of() * bytes <= tuning::kBucketBytes ||
         places_of() * tuning::kMostBuckets < layout.places.count()) {
    ++layout.bucket_bits;
  }
  layout.buckets = ((layout.places.count() - 1) >> layout.bucket_bits) + 1;
  layout.workers = layout.updates < tuning::kSerialUpdates ? 1 : threads;
  return layout;
}

// What lies in the workspace.
struct Memory {
  Memory(const Layout& layout, char* workspace) : carver(workspace) {
    keys = carver.take<uint32_t>(layout.updates);
    values = carver.take<char>(layout.constant ? kTileItems * 16 : layout.updates * layout.kernels->value_size);
    ends = carver.take<int64_t>(layout.workers * layout.buckets);
    starts = carver.take<int64_t>(layout.buckets + 1);
    cells = carver.take<char>(static_cast<int64_t>(cell_bytes(layout)) * layout.workers);
  }
  static size_t cell_bytes(const Layout& layout) {
    if (layout.direct) return 0;
    Carver counter(nullptr);
    CellFold fold(*layout.kernels, int64_t{1} << layout.bucket_bits, most_touched(layout), 1, counter);
    return counter.used();
  }
  static int64_t most_touched(const Layout& layout) {
    return std::min(int64_t{1} << layout.bucket_bits, layout.updates);
  }

  Carver carver;
  uint32_t* keys;   // the place of each update, bucket by bucket
  char* values;     // their values; a batch of the one value when it is constant
  int64_t* ends;    // [worker][bucket]: how many, then where the next one goes
  int64_t* starts;  // of each bucket
  char* cells;
};

class Partition {
 public:
  Partition(const Transfer& t, const Layout& layout, char* workspace)
      : transfer_(t), layout_(layout), kernels_(*layout.kernels), flat_(flatten(t)), memory_(layout, workspace) {}

  void run() {
    parallel_run(layout_.workers, [&](int w, int) { count(w); });
    place_buckets();
    if (layout_.constant) {
      for (int i = 0; i < kTileItems; ++i) {
        std::memcpy(memory_.values + i * kernels_.value_size, transfer_.scalar, kernels_.value_size);
      }
      if (transfer_.negate) kernels_.negate(memory_.values, kTileItems);
    }
    parallel_run(layout_.workers, [&](int w, int) {
      with_width(static_cast<size_t>(kernels_.value_size), [&](auto width) { deal<width()>(w); });
    });
    std::atomic<int64_t> next{0};
    parallel_run(layout_.workers, [&](int w, int) { fold_buckets(w, next); });
  }

 private:
  int64_t first_of(int w) const { return layout_.updates * w / layout_.workers; }

  void count(int w) {
    int64_t* counts = memory_.ends + layout_.buckets * w;
    std::fill_n(counts, layout_.buckets, 0);
    const PlaceCode places = layout_.places;
    const int bits = layout_.bucket_bits;
    UpdateReader reader(transfer_, flat_, kernels_);
    reader.read_places(outer_base(flat_, 0), first_of(w), first_of(w + 1), kTileItems,
                       [&](const int64_t* offsets, const int64_t*, int count, bool) {
                         for (int i = 0; i < count; ++i) ++counts[places.code_of(offsets[i]) >> bits];
                       });
  }

  void place_buckets() {
    int64_t at = 0;
    for (int64_t b = 0; b < layout_.buckets; ++b) {
      memory_.starts[b] = at;
      for (int w = 0; w < layout_.workers; ++w) {
        int64_t& end = memory_.ends[layout_.buckets * w + b];
        const int64_t count = end;
        end = at;
        at += count;
      }
    }
    memory_.starts[layout_.buckets] = at;
  }

  template <int Width>
  void deal(int w) {
    int64_t* ends = memory_.ends + layout_.buckets * w;
    const PlaceCode places = layout_.places;
    const int bits = layout_.bucket_bits;
    uint32_t* keys = memory_.keys;
    auto* to = reinterpret_cast<Word<Width>*>(memory_.values);
    UpdateReader reader(transfer_, flat_, kernels_);
    const auto base = outer_base(flat_, 0);
    if (layout_.constant) {
      reader.read_places(base, first_of(w), first_of(w + 1), kTileItems,
                         [&](const int64_t* offsets, const int64_t*, int count, bool) {
                           for (int i = 0; i < count; ++i) {
                             const uint64_t code = places.code_of(offsets[i]);
                             keys[ends[code >> bits]++] = static_cast<uint32_t>(code);
                           }
                         });
      return;
    }
    reader.read(base, first_of(w), first_of(w + 1), 0, 1, [&](const Updates& updates) {
      const auto* from = reinterpret_cast<const Word<Width>*>(updates.values);
      for (int i = 0; i < updates.count; ++i) {
        const uint64_t code = places.code_of(updates.offsets[i]);
        const int64_t at = ends[code >> bits]++;
        keys[at] = static_cast<uint32_t>(code);
        to[at] = from[i];
      }
    });
  }

  // Calls f(Updates) for a bucket's updates.
  template <class F>
  void read_bucket(int64_t bucket, F&& f) const {
    int64_t offsets[kTileItems];
    uint32_t cells[kTileItems];
    const uint32_t first = static_cast<uint32_t>(bucket << layout_.bucket_bits);
    const PlaceCode places = layout_.places;
    for (int64_t at = memory_.starts[bucket]; at < memory_.starts[bucket + 1]; at += kTileItems) {
      Updates updates;
      updates.count = static_cast<int>(std::min<int64_t>(kTileItems, memory_.starts[bucket + 1] - at));
      for (int i = 0; i < updates.count; ++i) {
        const uint32_t code = memory_.keys[at + i];
        cells[i] = code - first;
        offsets[i] = places.offset_of(code);
      }
      updates.offsets = offsets;
      updates.cells = cells;
      updates.values = memory_.values + (layout_.constant ? 0 : at * kernels_.value_size);
      f(updates);
    }
  }

  void fold_buckets(int w, std::atomic<int64_t>& next) const {
    const Destination dst{transfer_.dst.data, 1, transfer_.include_self};
    Carver carver(memory_.cells + Memory::cell_bytes(layout_) * static_cast<size_t>(w));
    if (layout_.direct) {
      for (int64_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < layout_.buckets;) {
        read_bucket(b, [&](const Updates& updates) { kernels_.apply(dst, updates, 1); });
      }
      return;
    }
    CellFold fold(kernels_, int64_t{1} << layout_.bucket_bits, Memory::most_touched(layout_), 1, carver);
    fold.clear();
    for (int64_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < layout_.buckets;) {
      const auto walk = [&](auto&& take) { read_bucket(b, take); };
      walk([&](const Updates& updates) { fold.add(dst, updates); });
      fold.finish(dst, walk);
    }
  }

  const Transfer& transfer_;
  const Layout& layout_;
  const FoldKernels& kernels_;
  const Canonical flat_;
  Memory memory_;
};

size_t workspace(const Transfer& t, const Canonical& c, int threads) {
  return Memory(layout_of(t, c, threads), nullptr).carver.used();
}

bool supports(const Transfer& t, const Canonical& c) {
  if (!is_fold(t)) return false;
  const Layout layout = layout_of(t, c, 1);
  int64_t places = c.outer_count * c.row.size;
  for (const IndexOperand& index : t.dst_index) places *= std::max<int64_t>(index.extent, 1);
  // Places far apart would leave most cells unused.
  return layout.places.count() < (int64_t{1} << 32) && layout.places.count() <= 4 * places + 1024 &&
         layout.updates < kCellTag && workspace(t, c, 1) <= workspace_allowed(t, c);
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const Layout layout = layout_of(t, c, threads);
  const double updates = static_cast<double>(layout.updates);
  const double fold = layout.direct ? tuning::kDirectNs : tuning::kCellNs;
  const double buckets = static_cast<double>(layout.buckets) * tuning::kTaskNs;
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + 3 * tuning::kRegionNs + buckets +
         updates * (tuning::kPartitionNs + fold) / layout.workers;
}

void run(const Transfer& t, const Canonical& c, const Plan& plan, char* memory) {
  const Layout layout = layout_of(t, c, plan.threads);
  Partition(t, layout, memory).run();
}

}  // namespace

const Strategy k_partition = {
    .name = "partition",
    .says = "updates dealt out to ranges of the destination that fit the cache",
    .supports = supports,
    .cost = cost,
    .workspace = workspace,
    .run = run,
};

}  // namespace sow::detail
