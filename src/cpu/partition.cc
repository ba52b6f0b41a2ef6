// Strategy "partition": the updates are dealt out to buckets, each a range of the destination that
// fits the cache; then every bucket is folded on its own.
#include <atomic>
#include <cstring>
#include <optional>

#include "core/parallel.h"
#include "cpu/block_fold.h"
#include "cpu/code_reader.h"
#include "cpu/direct_walk.h"
#include "cpu/sparse_fold.h"
#include "cpu/strategies.h"
#include "cpu/word.h"

namespace sow::detail {

namespace {

struct Layout {
  const FoldKernels* kernels;
  const WindowKernels* window;
  PlaceCode places;
  int64_t updates;
  int bucket_bits;  // a bucket has 2^bucket_bits places
  int64_t buckets;
  bool direct;    // buckets are applied to the destination itself
  bool sparse;    // few places are met
  bool constant;  // every update has the same value
  bool paired;    // cell and value are dealt as one number
  int workers;

  int64_t stride() const { return (buckets + 7) / 8 * 8; }  // workers share no line of counts
};

Layout layout_of(const Transfer& t, const Canonical& c, int threads) {
  Layout layout;
  layout.kernels = fold_kernels(t.dtype, t.reduce);
  layout.window = window_kernels(t.dtype, t.reduce);
  layout.places = all_places(t, c);
  layout.updates = c.outer_count * c.item_count * c.row.size;
  layout.direct = is_direct(t);
  layout.constant = t.src.data == nullptr;
  layout.paired = !layout.constant && layout.kernels->value_size == 4;
  layout.sparse = !layout.direct && layout.places.count() > tuning::kSparsePlaces * layout.updates;
  const int64_t bytes =
      layout.direct || layout.sparse ? layout.kernels->value_size : 4 + layout.kernels->state_size;
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
    if (layout.paired) {
      pairs = carver.take<uint64_t>(layout.updates);
    } else {
      cells = carver.take<uint32_t>(layout.updates);
      values = carver.take<char>(layout.constant ? kTileItems * 16
                                                 : layout.updates * layout.kernels->value_size);
    }
    ends = carver.take<int64_t>(layout.workers * layout.stride());
    starts = carver.take<int64_t>(layout.buckets + 1);
    folds = carver.take<char>(static_cast<int64_t>(fold_bytes(layout)) * layout.workers);
  }
  static size_t fold_bytes(const Layout& layout) {
    if (layout.direct) return 0;
    Carver counter(nullptr);
    const int64_t places = int64_t{1} << layout.bucket_bits;
    if (layout.sparse) {
      SparseFold fold(*layout.kernels, places, layout.updates, counter);
    } else {
      BlockFold fold(*layout.kernels, layout.window, places, layout.updates, counter);
    }
    return counter.used();
  }

  Carver carver;
  // The updates, bucket by bucket: their cells there, and their values.
  uint64_t* pairs = nullptr;  // cell and value of 4 bytes
  uint32_t* cells = nullptr;
  char* values = nullptr;  // a batch of the one value when it is constant
  int64_t* ends;           // [worker][bucket]: how many, then where the next one goes
  int64_t* starts;         // of each bucket
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

  void run() {
    parallel_run(layout_.workers, [&](int w, int) { count(w); });
    place_buckets();
    if (layout_.constant) {
      for (int i = 0; i < kTileItems; ++i) {
        std::memcpy(memory_.values + i * kernels_.value_size, transfer_.scalar,
                    kernels_.value_size);
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
    int64_t* counts = memory_.ends + layout_.stride() * w;
    std::fill_n(counts, layout_.buckets, 0);
    const int bits = layout_.bucket_bits;
    CodeReader reader(transfer_, flat_, kernels_, layout_.places);
    reader.read_codes(outer_base(flat_, 0), first_of(w), first_of(w + 1),
                      [&](const uint32_t* codes, int count) {
                        for (int i = 0; i < count; ++i) ++counts[codes[i] >> bits];
                      });
  }

  void place_buckets() {
    int64_t at = 0;
    for (int64_t b = 0; b < layout_.buckets; ++b) {
      memory_.starts[b] = at;
      for (int w = 0; w < layout_.workers; ++w) {
        int64_t& end = memory_.ends[layout_.stride() * w + b];
        const int64_t count = end;
        end = at;
        at += count;
      }
    }
    memory_.starts[layout_.buckets] = at;
  }

  // One store an update where it can be: 4 million pairs to 256 buckets took 1.2 ns each, cells and
  // values apart 2.1, and neither was quicker through lines that wait in the cache until they are
  // full (one core of a Zen 4 class EPYC, huge pages, 2026-11-15).
  template <int Width>
  void deal(int w) {
    int64_t* ends = memory_.ends + layout_.stride() * w;
    const int bits = layout_.bucket_bits;
    const uint32_t mask = (uint32_t{1} << bits) - 1;
    CodeReader reader(transfer_, flat_, kernels_, layout_.places);
    const OuterBase base = outer_base(flat_, 0);
    const auto read = [&](auto&& f) { reader.read(base, first_of(w), first_of(w + 1), f); };
    if (layout_.constant) {
      uint32_t* cells = memory_.cells;
      reader.read_codes(base, first_of(w), first_of(w + 1), [=](const uint32_t* codes, int count) {
        for (int i = 0; i < count; ++i) cells[ends[codes[i] >> bits]++] = codes[i] & mask;
      });
    } else if (layout_.paired) {
      uint64_t* pairs = memory_.pairs;
      read([=](const uint32_t* codes, const char* values, int count) {
        const auto* from = reinterpret_cast<const Word<4>*>(values);
        for (int i = 0; i < count; ++i) {
          const uint32_t value = bit_cast<uint32_t>(from[i]);
          pairs[ends[codes[i] >> bits]++] = (codes[i] & mask) | uint64_t{value} << 32;
        }
      });
    } else {
      uint32_t* cells = memory_.cells;
      auto* to = reinterpret_cast<Word<Width>*>(memory_.values);
      read([=](const uint32_t* codes, const char* values, int count) {
        const auto* from = reinterpret_cast<const Word<Width>*>(values);
        for (int i = 0; i < count; ++i) {
          const int64_t at = ends[codes[i] >> bits]++;
          cells[at] = codes[i] & mask;
          to[at] = from[i];
        }
      });
    }
  }

  // Calls f(cells, values, count) for the updates [begin, end), all of one bucket.
  template <class F>
  void read(int64_t begin, int64_t end, F&& f) const {
    uint32_t cells[kTileItems], values[kTileItems];
    for (int64_t at = begin; at < end; at += kTileItems) {
      const int count = static_cast<int>(std::min<int64_t>(kTileItems, end - at));
      if (!layout_.paired) {
        f(static_cast<const uint32_t*>(memory_.cells + at),
          memory_.values + (layout_.constant ? 0 : at * kernels_.value_size), count);
        continue;
      }
      for (int i = 0; i < count; ++i) {
        const uint64_t pair = memory_.pairs[at + i];
        cells[i] = static_cast<uint32_t>(pair);
        values[i] = static_cast<uint32_t>(pair >> 32);
      }
      f(static_cast<const uint32_t*>(cells), reinterpret_cast<const char*>(values), count);
    }
  }
  template <class F>
  void read_values(int64_t begin, int64_t end, F&& f) const {
    if (layout_.constant) return f(memory_.values, std::min<int64_t>(end - begin, kTileItems));
    if (!layout_.paired) return f(memory_.values + begin * kernels_.value_size, end - begin);
    read(begin, end,
         [&](const uint32_t*, const char* values, int count) { f(values, int64_t{count}); });
  }

  void fold_buckets(int w, std::atomic<int64_t>& next) const {
    Carver carver(memory_.folds + Memory::fold_bytes(layout_) * static_cast<size_t>(w));
    const int64_t places = int64_t{1} << layout_.bucket_bits;
    std::optional<SparseFold> sparse;
    std::optional<BlockFold> block;
    if (layout_.sparse) {
      sparse.emplace(kernels_, places, layout_.updates, carver);
      sparse->clear();
    } else if (!layout_.direct) {
      block.emplace(kernels_, layout_.window, places, layout_.updates, carver);
    }
    for (int64_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) < layout_.buckets;) {
      if (memory_.starts[b] == memory_.starts[b + 1]) continue;
      const Block range{
          transfer_.dst.data + layout_.places.offset_of(b * places) * kernels_.value_size,
          layout_.places.step(), transfer_.include_self};
      const auto walk = [&](auto&& f) { read(memory_.starts[b], memory_.starts[b + 1], f); };
      if (sparse) {
        sparse->run(
            range,
            [&](auto&& f) {
              walk([&](const uint32_t* cells, const char*, int n) { f(cells, n); });
            },
            walk);
      } else if (block) {
        fold_block(*block, range, b);
      } else {
        walk([&](const uint32_t* cells, const char* values, int count) {
          kernels_.apply_to_block(range, cells, values, count);
        });
      }
    }
  }

  void fold_block(BlockFold& fold, const Block& range, int64_t bucket) const {
    const int64_t places = int64_t{1} << layout_.bucket_bits;
    const int64_t begin = memory_.starts[bucket], end = memory_.starts[bucket + 1];
    fold.open(range, std::min(places, layout_.places.count() - bucket * places),
              range.include_self);
    fold.add(
        begin, end, false, [&](int64_t first, int64_t last, auto&& f) { read(first, last, f); },
        [&](int64_t first, int64_t last, auto&& f) { read_values(first, last, f); });
    fold.finish([&] {
      read(begin, end, [&](const uint32_t* cells, const char* values, int count) {
        fold.add_again(cells, values, count);
      });
    });
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
  double places = static_cast<double>(c.outer_count) * static_cast<double>(c.row.size);
  for (const IndexOperand& index : t.dst_index)
    places *= static_cast<double>(std::max<int64_t>(index.extent, 1));
  // Places far apart would leave most cells unused.
  return layout.places.count() < (int64_t{1} << 32) &&
         static_cast<double>(layout.places.count()) <= 4 * places + 1024 &&
         layout.updates < kCellTag && workspace(t, c, 1) <= workspace_allowed(t, c);
}

double cost(const Transfer& t, const Canonical& c, int threads) {
  const double rows = static_cast<double>(c.outer_count) * static_cast<double>(c.item_count);
  const double updates = rows * static_cast<double>(c.row.size);
  if (updates < tuning::kSerialUpdates) return tuning::kNeverNs;
  const Layout layout = layout_of(t, c, threads);
  const double places = static_cast<double>(layout.places.count());
  const tuning::BlockNs ns = block_ns(*layout.kernels, layout.window);
  const double fold = layout.direct   ? tuning::kDirectNs + tuning::kDirectColumnNs
                      : layout.sparse ? tuning::kSparseNs
                                      : ns.update + ns.cell * places / updates;
  const double buckets = static_cast<double>(layout.buckets) * tuning::kTaskNs;
  return over_budget(t, c, workspace(t, c, threads)) + tuning::kCallNs + 3 * tuning::kRegionNs +
         buckets + updates * (tuning::kPartitionNs + fold + decode_ns(t, c)) / layout.workers;
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
