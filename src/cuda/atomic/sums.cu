// Strategy sums: exact sums and means into any number of places in two launches. One adds every
// update to its cell by atomic operations, one rounds old value and cell, writes the result and
// clears the cell. What fixed point does not hold is linked to its cell and added as it is written.
#include "cuda/atomic/sums.cuh"

#include <algorithm>
#include <cmath>

#include "cuda/common/shared_memory.cuh"
#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

constexpr int kUnroll = 4;
constexpr int64_t kFewCounts = 4096;

template <class F>
auto with_summed(DType dtype, F&& f) {
  return with_type<float16, bfloat16, float, double>(dtype, f);
}

// Keys and values are two runs of memory: all of a batch are in flight before the first is used.
template <class T, class Key>
__device__ inline void add_simple(const SumArgs& a, int first, bool& bad) {
  using Word = WordOf<static_cast<int>(sizeof(T))>;
  const Problem& p = a.p;
  const int64_t step = grid_threads();
  const int64_t value_step = p.walk.axis[0].stride[1], key_step = p.walk.axis[0].stride[2];
  const Key* keys = reinterpret_cast<const Key*>(p.keys[0].data);
  for (int64_t begin = global_thread(); begin < a.updates; begin += kUnroll * step) {
    int64_t key[kUnroll];
    T value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = begin + u * step;
      if (at >= a.updates) continue;
      key[u] = static_cast<int64_t>(__ldcs(keys + at * key_step));
      value[u] = p.src == nullptr
                     ? *reinterpret_cast<const T*>(p.scalar)
                     : bit_cast<T>(__ldcs(reinterpret_cast<const Word*>(p.src) + at * value_step));
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = begin + u * step;
      if (at >= a.updates || !is_kept(key[u], p, bad)) continue;
      if (a.counted) atomicAdd(a.counts + key[u], 1u);
      add_met_update<T>(a, first, key[u], value[u], static_cast<uint32_t>(at));
    }
  }
}

// Chunks of V columns of a row, which lie side by side.
template <class T, int V>
__device__ inline void add_row_chunks(const SumArgs& a, int first, bool& bad) {
  const Problem& p = a.p;
  const uint32_t chunks = a.chunk_divider.divisor, total = static_cast<uint32_t>(a.updates / V),
                 step = static_cast<uint32_t>(grid_threads());
  for (uint32_t at = static_cast<uint32_t>(global_thread()); at < total; at += step) {
    const uint32_t position = a.chunk_divider.quotient(at), chunk = at - position * chunks;
    const Item item = decode(p, position, bad);
    if (item.place < 0) continue;
    if (a.counted && chunk == 0) atomicAdd(a.counts + item.place, 1u);
    using Packed = Pack<T, V>;
    Packed value;
    if (p.src == nullptr) {
#pragma unroll
      for (int k = 0; k < V; ++k) value.at[k] = *reinterpret_cast<const T*>(p.scalar);
    } else {
      value = *reinterpret_cast<const Packed*>(reinterpret_cast<const T*>(p.src) + item.src +
                                               chunk * V);
    }
    const int64_t cell = item.place * a.columns + chunk * V;
#pragma unroll
    for (int k = 0; k < V; ++k)
      add_update<T>(a, first, cell + k, value.at[k], at * V + static_cast<uint32_t>(k));
  }
}

// Any walk and any columns.
template <class T>
__device__ inline void add_any(const SumArgs& a, int first, bool& bad) {
  const Problem& p = a.p;
  const uint32_t total = static_cast<uint32_t>(a.updates),
                 step = static_cast<uint32_t>(grid_threads());
  for (uint32_t at = static_cast<uint32_t>(global_thread()); at < total; at += step) {
    const uint32_t position = a.chunk_divider.quotient(at),
                   column = at - position * a.chunk_divider.divisor;
    const Item item = decode(p, position, bad);
    if (item.place < 0) continue;
    if (a.counted && column == 0) atomicAdd(a.counts + item.place, 1u);
    const int64_t src = item.src + (a.columns == 1 ? 0 : column_at(p, column).src);
    add_update<T>(a, first, item.place * a.columns + column, load_value<T>(p, src), at);
  }
}

// V: columns of a chunk; 1: one update at a time; 0: keys and values are two runs of memory.
template <class T, int V>
__global__ void __launch_bounds__(kThreads) add_updates(const __grid_constant__ SumArgs a) {
  __shared__ uint32_t counts[1 << FloatTraits<T>::kExponentBits];
  // Every block looks at the same samples, so that nobody waits for their scale.
  const int first = scale_of_samples<T>(sampled_field<T>(a.p, threadIdx.x), a.binades, counts);
  if (blockIdx.x == 0 && threadIdx.x == 0) a.head->first = first;
  bool bad = false;
  if constexpr (V == 0) {
    if (a.p.keys[0].is_int32)
      add_simple<T, int32_t>(a, first, bad);
    else
      add_simple<T, long long>(a, first, bad);
  } else if constexpr (V == 1) {
    add_any<T>(a, first, bad);
  } else {
    add_row_chunks<T, V>(a, first, bad);
  }
  if (bad) mark_bad(a.flag);
}

template <class T>
__device__ inline T* place_of_cell(const SumArgs& a, int64_t cell) {
  return reinterpret_cast<T*>(a.p.dst) + (a.plain_dst ? cell : offset_of_cell(a.p, cell));
}

template <class T>
__device__ inline FixedPoint<T> load_sum(const SumArgs& a, int64_t cell) {
  const auto* sums = reinterpret_cast<const long long*>(a.sums) + cell * kSumWordsOf<T>;
  if constexpr (kSumWordsOf<T> == 1) {
    return {*sums, 0};
  } else {
    const longlong2 words = *reinterpret_cast<const longlong2*>(sums);
    const long long carry = words.x >> a.low_bits;
    return {words.x - (carry << a.low_bits), words.y + carry};
  }
}

template <class T>
__device__ inline void clear_sum(const SumArgs& a, int64_t cell) {
  a.sums[cell * kSumWordsOf<T>] = 0;
  if constexpr (kSumWordsOf<T> == 2) a.sums[cell * 2 + 1] = 0;
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

// Writes a cell's place. The cell is cleared, unless it is left to the last block.
template <class T>
__device__ inline void finish_cell(const SumArgs& a, int first, bool linked, int64_t cell,
                                   FixedPoint<T> sum, T old, T* at) {
  const uint32_t word = linked ? a.words[cell] : 0;
  int64_t count = 1;
  if (a.counted) count = a.counts[a.columns == 1 ? cell : cell / a.columns];
  if (count == 0) return;  // nobody came
  if (sum.is_zero() && word >> kLinkShift == 0) {
    if (must_ask(a, word, old)) {
      a.words[cell] = word | kAsked;
      a.head->ambiguous = 1;
      return;
    }
    if (!a.counted && word == 0) return;  // nobody came, or it changes nothing
  } else if (word >> kLinkShift == 0 && (!a.p.include_self || Term<T>(old).finite())) {
    T out;
    if (finish_quickly(a, first, sum, count, old, out)) {
      *at = out;
      clear_sum<T>(a, cell);
      if (word != 0) a.words[cell] = 0;
      return;
    }
  }
  T out;
  if (!finish_slowly(a, first, sum, word, count, old, out)) {
    a.long_cells[atomicAdd(&a.head->long_chains, 1u)] = static_cast<uint32_t>(cell);
    return;
  }
  *at = out;
  clear_sum<T>(a, cell);
  if (word != 0) a.words[cell] = 0;
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

// Cells whose keys must be asked who came.
template <class T>
__device__ __noinline__ static void finish_asked(const SumArgs& a) {
  for_each_by_block<T>(a, [&](int64_t cell, T value) {
    const uint32_t word = __ldcg(a.words + cell);
    if ((word & kAsked) != 0 && Term<T>(value).magnitude() != 0) a.words[cell] = word | kCame;
  });
  __syncthreads();
  for (int64_t cell = threadIdx.x; cell < a.cells; cell += blockDim.x) {
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
  const bool bad = is_bad(a.flag), linked = a.head->linked != 0;
  const int first = a.head->first;
  const int64_t begin = blockIdx.x * a.cells_per_block,
                end = min(begin + a.cells_per_block, a.cells);
  constexpr int64_t kStep = kThreads;
  for (int64_t at = begin + threadIdx.x; at < end; at += kUnroll * kStep) {
    FixedPoint<T> sum[kUnroll];
    T old[kUnroll];
    T* place[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t cell = at + u * kStep;
      if (cell >= end) continue;
      sum[u] = load_sum<T>(a, cell);
      place[u] = place_of_cell<T>(a, cell);
      old[u] = *place[u];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t cell = at + u * kStep;
      if (cell >= end) continue;
      if (bad) {
        clear_sum<T>(a, cell);
        a.words[cell] = 0;
      } else {
        finish_cell(a, first, linked, cell, sum[u], old[u], place[u]);
      }
    }
  }
  if (a.counted && !a.counts_by_last) {
    __syncthreads();
    for (int64_t place = begin / a.columns + threadIdx.x; place < end / a.columns; place += kStep)
      a.counts[place] = 0;
  }
  // The last block sees to what is seldom, and leaves the head zero.
  if (!is_last_block(&a.head->call.done)) return;
  if (a.counted && a.counts_by_last) {
    for (int64_t place = threadIdx.x; place < a.cells / a.columns; place += kStep)
      a.counts[place] = 0;
  }
  volatile SumHead* head = a.head;
  if (bad) {
    if (a.reports) a.reporter.report_by_block();
  } else {
    for (uint32_t i = 0; i < head->long_chains; ++i)
      finish_long_chain<T>(a, __ldcg(a.long_cells + i));
    if (head->ambiguous != 0) finish_asked<T>(a);
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
  const int most = p.dtype == DType::float64 ? 2 : 4;
  const bool whole = p.free.count == 1 && p.row % most == 0;
  if (!whole) return 1;
  if (p.src == nullptr) return most;
  return row_alignment(p) >= most * p.width ? most : 1;
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
  a.counts_by_last = places <= kFewCounts;
  // A thread follows a chain as long as the last block takes to look at all updates.
  a.most_chain = static_cast<int>(64 + a.updates / 2048);
  layout.blocks =
      blocks_for(a.updates / std::max(layout.chunk, 1), kThreads, 8 * c.device.processors);
  layout.finish_blocks = blocks_for(a.cells, kThreads, 8 * c.device.processors);
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

template <class T>
void run_as(const Launch& launch, const SumLayout& layout, const SumArgs& a) {
  constexpr int kChunk = sizeof(T) == 8 ? 2 : 4;
  const auto blocks = static_cast<unsigned>(layout.blocks);
  if (layout.chunk == 0)
    add_updates<T, 0><<<blocks, kThreads, 0, launch.stream>>>(a);
  else if (layout.chunk == 1)
    add_updates<T, 1><<<blocks, kThreads, 0, launch.stream>>>(a);
  else
    add_updates<T, kChunk><<<blocks, kThreads, 0, launch.stream>>>(a);
  write_sums<T><<<static_cast<unsigned>(layout.finish_blocks), kThreads, 0, launch.stream>>>(a);
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
