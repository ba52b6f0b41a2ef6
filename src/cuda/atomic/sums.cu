// Strategy sums: exact sums and means into any number of places in two launches. One adds every
// update to its cell by atomic operations, one rounds old value and cell, writes the result and
// clears the cell. What fixed point does not hold is linked to its cell and added as it is written.
#include "cuda/atomic/sums.cuh"

#include <algorithm>
#include <cmath>

#include "cuda/common/dependent_launch.cuh"
#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

constexpr int kAddThreads = 512, kAddBlocks = 2;  // per multiprocessor: all blocks run at once
constexpr int kUnroll = 4;
constexpr int kWriteBlocks = 4;
constexpr int64_t kFewCounts = 4096;

template <class F>
auto with_summed(DType dtype, F&& f) {
  return with_type<float16, bfloat16, float, double>(dtype, f);
}

// A batch of updates of one thread: load() starts reading them, add() adds them. So the first batch
// is on its way while the scale is chosen.

// Keys and values are two runs of memory.
template <class T, class Key>
struct SimpleBatch {
  using Word = WordOf<static_cast<int>(sizeof(T))>;
  static constexpr int kCount = kUnroll;
  Key key[kUnroll];
  T value[kUnroll];

  __device__ void load(const SumArgs& a, int64_t begin, int64_t step, bool&) {
    const Problem& p = a.p;
    const Key* keys = reinterpret_cast<const Key*>(p.keys[0].data);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = begin + u * step;
      if (at >= a.units) continue;
      key[u] = __ldcs(keys + at * p.walk.axis[0].stride[2]);
      value[u] = p.src == nullptr ? *reinterpret_cast<const T*>(p.scalar)
                                  : bit_cast<T>(__ldcs(reinterpret_cast<const Word*>(p.src) +
                                                       at * p.walk.axis[0].stride[1]));
    }
  }
  __device__ void add(const SumArgs& a, int first, int64_t begin, int64_t step, bool& bad) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = begin + u * step;
      int64_t place = key[u];
      if (at >= a.units || !is_kept(place, a.p, bad)) continue;
      if (a.counted) atomicAdd(a.counts + place, 1u);
      add_met_update<T>(a, first, place, value[u], static_cast<uint32_t>(at));
    }
  }
};

// V columns of a row, which lie side by side; V == 1: any column of any walk.
template <class T, int V>
struct ChunkBatch {
  static constexpr int kCount = V > 1 ? 2 : kUnroll;
  using Packed = Pack<T, V>;
  int64_t place[kCount];
  Packed value[kCount];

  __device__ void load(const SumArgs& a, int64_t begin, int64_t step, bool& bad) {
    const Problem& p = a.p;
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      const int64_t at = begin + u * step;
      place[u] = -1;
      if (at >= a.units) continue;
      const uint32_t position = a.chunk_divider.quotient(static_cast<uint32_t>(at)),
                     chunk = static_cast<uint32_t>(at) - position * a.chunk_divider.divisor;
      const Item item = decode(p, position, bad);
      place[u] = item.place;
      if (item.place < 0) continue;
      if (p.src == nullptr) {
#pragma unroll
        for (int k = 0; k < V; ++k) value[u].at[k] = *reinterpret_cast<const T*>(p.scalar);
      } else if constexpr (V == 1) {
        const int64_t column = a.columns == 1 ? 0 : column_at(p, chunk).src;
        value[u].at[0] = reinterpret_cast<const T*>(p.src)[item.src + column];
      } else {
        value[u] = *reinterpret_cast<const Packed*>(reinterpret_cast<const T*>(p.src) + item.src +
                                                    chunk * V);
      }
    }
  }
  __device__ void add(const SumArgs& a, int first, int64_t begin, int64_t step, bool&) {
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      const int64_t at = begin + u * step;
      if (place[u] < 0) continue;
      const uint32_t position = a.chunk_divider.quotient(static_cast<uint32_t>(at)),
                     chunk = static_cast<uint32_t>(at) - position * a.chunk_divider.divisor;
      if (a.counted && chunk == 0) atomicAdd(a.counts + place[u], 1u);
      const int64_t cell = place[u] * a.columns + chunk * V;
#pragma unroll
      for (int k = 0; k < V; ++k)
        add_update<T>(a, first, cell + k, value[u].at[k], static_cast<uint32_t>(at * V + k));
    }
  }
};

template <class T, class Batch>
__device__ inline void add_batches(const SumArgs& a, uint32_t* counts) {
  const int64_t step = grid_threads();
  bool bad = false;
  Batch batch;
  int64_t begin = global_thread();
  batch.load(a, begin, step, bad);
  // Every block looks at the same samples, so that nobody waits for their scale.
  const int first = scale_of_samples<T>(sampled_field<T>(a.p, threadIdx.x), a.binades, counts);
  if (blockIdx.x == 0 && threadIdx.x == 0) *a.first = first;
  for (;;) {
    batch.add(a, first, begin, step, bad);
    begin += Batch::kCount * step;
    if (begin >= a.units) break;
    batch.load(a, begin, step, bad);
  }
  if (bad) mark_bad(a.flag);
}

// V: columns of a chunk; 1: one update at a time; 0: keys and values are two runs of memory.
template <class T, int V>
__global__ void __launch_bounds__(kAddThreads, kAddBlocks)
    add_updates(const __grid_constant__ SumArgs a) {
  __shared__ uint32_t counts[1 << FloatTraits<T>::kExponentBits];
  allow_dependents();
  if constexpr (V == 0) {
    if (a.p.keys[0].is_int32)
      add_batches<T, SimpleBatch<T, int32_t>>(a, counts);
    else
      add_batches<T, SimpleBatch<T, long long>>(a, counts);
  } else {
    add_batches<T, ChunkBatch<T, V>>(a, counts);
  }
}

template <class T>
__device__ inline T* place_of_cell(const SumArgs& a, int64_t cell) {
  return reinterpret_cast<T*>(a.p.dst) + (a.plain_dst ? cell : offset_of_cell(a.p, cell));
}

template <class T>
__device__ inline FixedPoint<T> load_sum(const SumArgs& a, int64_t cell) {
  const auto* sums = reinterpret_cast<const long long*>(a.sums);
  if constexpr (kSumWordsOf<T> == 1) {
    return {sums[cell], 0};
  } else {
    const long long low = sums[cell * a.cell_step], high = sums[cell * a.cell_step + a.word_step];
    const long long carry = low >> a.low_bits;
    return {low - (carry << a.low_bits), high + carry};
  }
}

template <class T>
__device__ inline void clear_sum(const SumArgs& a, int64_t cell) {
  a.sums[kSumWordsOf<T> == 1 ? cell : cell * a.cell_step] = 0;
  if constexpr (kSumWordsOf<T> == 2) a.sums[cell * a.cell_step + a.word_step] = 0;
}

template <class T>
__device__ inline bool is_minus_zero(T value) {
  return Term<T>(value).magnitude() == 0 && Term<T>(value).negative();
}

// Whether only the keys can tell what becomes of a cell whose fixed-point sum is zero and that no
// update is linked to: whether terms cancelled there, or only zeros came, or nobody.
template <class T>
__device__ inline bool must_ask(const SumArgs& a, uint32_t word, T old) {
  if ((word & kSawPlusZero) != 0) return false;
  if ((word & kSawMinusZero) != 0) return !a.p.include_self || is_minus_zero(old);
  return !a.counted && (is_minus_zero(old) || Term<T>(old).nan());
}

// Writes a cell's place and clears the cell, unless it is left to later. False where the keys must
// be asked.
template <class T>
__device__ inline bool finish_cell(const SumArgs& a, int first, bool linked, int64_t cell,
                                   FixedPoint<T> sum, T old, T* at) {
  const uint32_t word = linked ? a.words[cell] : 0;
  int64_t count = 1;
  if (a.counted) count = a.counts[a.columns == 1 ? cell : cell / a.columns];
  if (count == 0) return true;  // nobody came
  if (sum.is_zero() && word >> kLinkShift == 0) {
    if (must_ask(a, word, old)) {
      a.words[cell] = word | kAsked;
      return false;
    }
    if (!a.counted && word == 0) return true;  // nobody came, or it changes nothing
  }
  if (word >> kLinkShift == 0 && (!a.p.include_self || Term<T>(old).finite())) {
    T out;
    if (finish_quickly(a, first, sum, count, old, out)) {
      *at = out;
      clear_sum<T>(a, cell);
      if (word != 0) a.words[cell] = 0;
      return true;
    }
  }
  T out;
  if (!finish_slowly(a, first, sum, word, count, old, out)) {
    a.long_cells[atomicAdd(&a.head->long_chains, 1u)] = static_cast<uint32_t>(cell);
    return true;
  }
  *at = out;
  clear_sum<T>(a, cell);
  if (word != 0) a.words[cell] = 0;
  return true;
}

// Calls f(cell, value) for every update that is kept, by one block.
template <class T, class F>
__device__ inline void for_each_by_block(const SumArgs& a, F&& f) {
  for (int64_t update = threadIdx.x; update < a.updates; update += blockDim.x) {
    const int64_t position = a.columns == 1 ? update : update / a.columns,
                  column = update - position * a.columns;
    bool bad = false;
    const Item item = decode_any(a.p, position, bad);
    if (item.place < 0) continue;
    const T value =
        load_value<T>(a.p, item.src + (a.columns == 1 ? 0 : column_at(a.p, column).src));
    f(item.place * a.columns + column, a.p.negate ? flip_sign(value) : value);
  }
}

// All updates of a cell that too many are linked to, whether fixed point holds them or not.
template <class T>
__device__ __noinline__ static void finish_long_chain(const SumArgs& a, int64_t cell) {
  __shared__ alignas(16) unsigned char memory[sizeof(LongAccumulator<T>)];
  __shared__ unsigned long long count;
  LongAccumulator<T>& all = *reinterpret_cast<LongAccumulator<T>*>(memory);
  LongAccumulator<T> mine;
  unsigned long long came = 0;
  for_each_by_block<T>(a, [&](int64_t of, T value) {
    if (of != cell) return;
    ++came;
    mine.add(value);
  });
  if (threadIdx.x == 0) {
    all.reset();
    count = 0;
  }
  __syncthreads();
  for (int thread = 0; thread < static_cast<int>(blockDim.x); ++thread) {
    if (static_cast<int>(threadIdx.x) == thread) {
      all.merge(mine);
      count += came;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    T* at = place_of_cell<T>(a, cell);
    *at = SumFold<T>{a.p.include_self, false, a.mean}.finish_long(all, *at,
                                                                  static_cast<int64_t>(count));
    clear_sum<T>(a, cell);
    a.words[cell] = 0;
  }
  __syncthreads();
}

// Cells of a block whose keys must be asked who came.
template <class T>
__device__ __noinline__ static void finish_asked(const SumArgs& a, int64_t begin, int64_t end) {
  for_each_by_block<T>(a, [&](int64_t cell, T value) {
    if (cell < begin || cell >= end) return;
    const uint32_t word = __ldcg(a.words + cell);
    if ((word & kAsked) != 0 && Term<T>(value).magnitude() != 0) a.words[cell] = word | kCame;
  });
  __syncthreads();
  for (int64_t cell = begin + threadIdx.x; cell < end; cell += blockDim.x) {
    const uint32_t word = __ldcg(a.words + cell);
    if ((word & kAsked) == 0) continue;
    a.words[cell] = 0;
    clear_sum<T>(a, cell);
    if ((word & (kCame | kSawMinusZero)) == 0) continue;
    T* at = place_of_cell<T>(a, cell);
    T out;
    // The count divides a zero or a NaN.
    finish_slowly(a, 1, FixedPoint<T>{}, word, 1, *at, out);
    *at = out;
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kThreads) write_sums(const __grid_constant__ SumArgs a) {
  const int64_t begin = blockIdx.x * a.cells_per_block,
                end = min(begin + a.cells_per_block, a.cells);
  constexpr int64_t kStep = kThreads;
  T old[kUnroll];
  T* place[kUnroll];
  const auto load_old = [&](int64_t at) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (at + u * kStep >= end) continue;
      place[u] = place_of_cell<T>(a, at + u * kStep);
      old[u] = *place[u];
    }
  };
  int64_t at = begin + threadIdx.x;
  load_old(at);  // of which the launch before writes nothing
  wait_for_launch_before();
  const bool bad = is_bad(a.flag), linked = a.head->linked != 0;
  const int first = *a.first;
  bool asked = false;
  for (; at < end; at += kUnroll * kStep) {
    FixedPoint<T> sum[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (at + u * kStep < end) sum[u] = load_sum<T>(a, at + u * kStep);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t cell = at + u * kStep;
      if (cell >= end) continue;
      if (bad) {
        clear_sum<T>(a, cell);
        a.words[cell] = 0;
      } else if (!finish_cell(a, first, linked, cell, sum[u], old[u], place[u])) {
        asked = true;
      }
    }
    load_old(at + kUnroll * kStep);
  }
  if (__syncthreads_or(asked)) finish_asked<T>(a, begin, end);
  if (a.counted && !a.counts_by_last) {
    for (int64_t of = begin / a.columns + threadIdx.x; of < end / a.columns; of += kStep)
      a.counts[of] = 0;
  }
  // What is seldom: the last block sees to it, and leaves the head zero.
  if (!bad && !linked && !a.counts_by_last) return;
  if (!is_last_block(&a.head->call.done)) return;
  if (a.counts_by_last) {
    for (int64_t of = threadIdx.x; of < a.cells / a.columns; of += kStep) a.counts[of] = 0;
  }
  if (bad) {
    if (a.reports) a.reporter.report_by_block();
  } else {
    const uint32_t chains = *const_cast<volatile uint32_t*>(&a.head->long_chains);
    for (uint32_t i = 0; i < chains; ++i) finish_long_chain<T>(a, __ldcg(a.long_cells + i));
  }
  __syncthreads();
  if (threadIdx.x == 0) *a.head = {};
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  const bool sums = p.reduce == Reduce::add || p.reduce == Reduce::mean;
  const bool summed = has_fixed_point(p.dtype) || p.dtype == DType::float64;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() || !sums || !summed ||
      !fits_problem(c.transfer, c.canonical))
    return false;
  const int64_t updates = p.positions() * p.columns(), cells = cell_count(p);
  return p.positions() < (int64_t{1} << 27) && p.columns() < (int64_t{1} << 27) && updates > 0 &&
         updates < kMostUpdates - 1 && cells > 0 && cells < (int64_t{1} << 31) &&
         cells <= std::max<int64_t>(4 * updates, 1 << 20);
}

int sum_words(const Problem& p) { return p.dtype == DType::float64 ? 2 : 1; }

double cost(const Case& c) {
  const Problem& p = c.problem;
  const double updates = static_cast<double>(p.positions()) * p.columns(),
               cells = static_cast<double>(cell_count(p)), words = sum_words(p);
  const double bytes = cells * 8 * words;
  const bool cached = bytes <= static_cast<double>(c.device.l2_bytes) * 0.7;
  const double waits = p.columns() == 1 ? 1 + 70 / std::sqrt(cells) : 1;
  const double each =
      p.columns() == 1 ? 0.0125 * waits * (cached ? 1 : 3) : 0.0065 * (cached ? 1 : 2);
  return 2 * kLaunchNs + 2000 + (2 * bytes + 2 * cells * p.width) / kBytesPerNs +
         updates * each * words;
}

struct SumLayout {
  SumArgs args;
  int chunk;  // columns that are added at a time; 0: keys and values are two runs
  int blocks, finish_blocks;
};

void carve_zeroed(Carver& carver, SumArgs& a, int words) {
  a.head = carver.take<SumHead>(1);
  a.sums = carver.take<unsigned long long>(a.cells * words);
  a.words = carver.take<uint32_t>(a.cells);
  a.counts = carver.take<uint32_t>(a.counted ? a.cells / a.columns : 0);
}

void carve(Carver& carver, SumArgs& a) {
  a.first = carver.take<int>(1);
  a.before = carver.take<uint32_t>(a.updates);
  a.long_cells = carver.take<uint32_t>(a.updates / a.most_chain + 1);
}

bool is_simple_problem(const Problem& p) {
  return !p.materialised && p.outer_count == 1 && p.columns() == 1 && p.walk.rank == 1 &&
         p.dst_keys == 1 && p.src_keys == 0;
}

// How many columns of a row can be read at a time.
int chunk_of(const Problem& p) {
  if (is_simple_problem(p)) return 0;
  if (p.free.count != 1) return 1;
  for (const int chunk : {4, 2}) {
    if (p.row % chunk != 0 || chunk * p.width > 16) continue;
    if (p.src == nullptr || row_alignment(p) >= chunk * p.width) return chunk;
  }
  return 1;
}

void lay_out(const Case& c, Plan& plan) {
  const Problem& p = c.problem;
  SumLayout layout = {};
  SumArgs& a = layout.args;
  a.updates = p.positions() * p.columns();
  a.columns = p.columns();
  a.cells = cell_count(p);
  a.mean = p.reduce == Reduce::mean;
  a.counted = a.mean || !p.include_self;
  const int words = sum_words(p);
  if (words == 1) {
    a.binades = with_fixed_point(p.dtype, [&](auto zero) {
      using T = decltype(zero);
      return fixed_point_binades(FloatTraits<T>::kDigits, LimbFormat<T>::kMaxShift, p.positions());
    });
  } else {
    // All updates of a place stay below 2^62 in either word, and a finished low word below 2^53.
    int bits = 0;
    while ((int64_t{1} << bits) < p.positions()) ++bits;
    a.low_bits = std::min(62 - bits, 50);
    a.binades = 2 * a.low_bits - FloatTraits<double>::kDigits;
  }
  layout.chunk = chunk_of(p);
  a.chunk_divider.set(
      static_cast<uint32_t>(layout.chunk > 1 ? a.columns / layout.chunk : a.columns));
  a.plain_dst = p.outer_count == 1 && p.dst_keys == 1 && p.free.count == 1 &&
                p.keys[0].scale == a.columns && (a.columns == 1 || p.row_dst == 1);
  const int64_t places = a.cells / a.columns;
  a.counts_by_last = a.counted && places <= kFewCounts;
  a.units = a.updates / std::max(layout.chunk, 1);
  const bool side_by_side = a.columns > 1;
  a.cell_step = side_by_side ? 1 : words;
  a.word_step = side_by_side ? a.cells : 1;
  // A thread follows a chain as long as the last block takes to look at all updates.
  a.most_chain = static_cast<int>(64 + a.updates / 2048);
  layout.blocks = blocks_for(a.units, kAddThreads, kAddBlocks * c.device.processors);
  layout.finish_blocks = blocks_for(a.cells, kThreads, kWriteBlocks * c.device.processors);
  a.cells_per_block = (a.cells + layout.finish_blocks - 1) / layout.finish_blocks;
  if (a.counted && !a.counts_by_last)
    a.cells_per_block = (a.cells_per_block + a.columns - 1) / a.columns * a.columns;
  layout.finish_blocks = static_cast<int>((a.cells + a.cells_per_block - 1) / a.cells_per_block);
  plan.reports = c.transfer.dst_index.size() + c.transfer.src_index.size() == 1;
  Carver zeroed(nullptr), carver(nullptr);
  carve_zeroed(zeroed, a, words);
  carve(carver, a);
  plan.zeroed = zeroed.used();
  plan.workspace = carver.used();
  a.p = {};
  plan.set_layout(layout);
}

template <class T, int V>
void add_all(const Launch& launch, const SumLayout& layout, const SumArgs& a) {
  add_updates<T, V><<<static_cast<unsigned>(layout.blocks), kAddThreads, 0, launch.stream>>>(a);
}

template <class T>
void run_as(const Launch& launch, const SumLayout& layout, const SumArgs& a) {
  if (layout.chunk == 0)
    add_all<T, 0>(launch, layout, a);
  else if (layout.chunk == 1)
    add_all<T, 1>(launch, layout, a);
  else if (layout.chunk == 2)
    add_all<T, 2>(launch, layout, a);
  else if constexpr (sizeof(T) < 8)
    add_all<T, 4>(launch, layout, a);
  launch_dependent<write_sums<T>>(launch, layout.finish_blocks, kThreads, a);
  check_launch("sums");
}

void run(const Launch& launch) {
  const SumLayout& layout = launch.plan.layout_as<SumLayout>();
  SumArgs a = layout.args;
  a.p = launch.problem;
  Carver zeroed(launch.zeroed), carver(launch.workspace);
  carve_zeroed(zeroed, a, sum_words(a.p));
  carve(carver, a);
  a.flag = launch.flag;
  if (a.flag == nullptr) {
    a.flag = &a.head->call.flag;
    a.reports = launch.plan.reports && !launch.plan.held &&
                make_reporter(launch.context, launch.transfer, a.reporter) == 1;
  }
  with_summed(a.p.dtype, [&](auto zero) { run_as<decltype(zero)>(launch, layout, a); });
}

}  // namespace

const Strategy k_sums = {
    "sums",
    "exact fixed-point sums in global memory, one atomic addition per update, two launches",
    supports,
    cost,
    lay_out,
    run};

}  // namespace sow::detail::cuda
