// SPDX-License-Identifier: Apache-2.0
// Strategy sums: exact sums and means into any number of places in two launches. One adds every
// update to its cell by atomic operations, one rounds old value and cell, writes the result and
// clears the cell. What fixed point does not hold is linked to its cell and added as it is written.
// Rows are listed by their places and added up in registers instead, in two launches before; only
// where a list overflows they are added to cells, and the third launch has something to do.
#include "cuda/atomic/sums.cuh"

#include <algorithm>
#include <cmath>

#include "cuda/atomic/memory_order.h"
#include "cuda/atomic/row_lists.cuh"
#include "cuda/common/dependent_launch.cuh"
#include "cuda/plan/strategies.h"

namespace sow::detail::cuda {

namespace {

// Blocks per multiprocessor: all run at once.
constexpr int kAddBlocks = 3, kWriteBlocks = 3;
constexpr int kAddUnroll = 4, kWriteUnroll = 2;
constexpr int64_t kFewCounts = 4096;

template <class F>
auto with_summed(DType dtype, F&& f) {
  return with_type<float16, bfloat16, float, double>(dtype, f);
}

// As add_updates, of single elements whose keys and values are two runs of memory.
template <class T>
__global__ void __launch_bounds__(kThreads, kAddBlocks)
    add_simple_updates(const __grid_constant__ SumArgs a) {
  __shared__ uint32_t counts[1 << FloatTraits<T>::kExponentBits];
  allow_dependents();
  const int step = static_cast<int>(gridDim.x * kThreads);
  bool bad = false;
  SimpleBatch<T, kAddUnroll> batch;
  int begin = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  batch.start(a.simple, a.p, begin, step);
  const int first = scale_of_samples<T>(sampled_field<T>(a.p, threadIdx.x), a.binades, counts);
  if (blockIdx.x == 0 && threadIdx.x == 0) *a.first = first;
  for (;;) {
    batch.resolve(a.simple, a.p, begin, step, bad);
#pragma unroll
    for (int u = 0; u < kAddUnroll; ++u) {
      const int cell = batch.cell[u];
      if (cell < 0) continue;
      if (a.counted) atomicAdd(a.counts + cell, 1u);
      add_met_update<T>(a, first, cell, batch.value[u], static_cast<uint32_t>(begin + u * step));
    }
    begin += kAddUnroll * step;
    if (begin >= a.simple.count) break;
    batch.start(a.simple, a.p, begin, step);
  }
  if (bad) mark_bad(a.flag);
}

template <class T>
__device__ inline void add_all(const SumArgs& a) {
  __shared__ uint32_t counts[1 << FloatTraits<T>::kExponentBits];
  const Problem& p = a.p;
  const int64_t step = grid_threads();
  bool bad = false;
  CellBatch<T, kAddUnroll, int> batch;
  int64_t begin = global_thread();
  batch.start(p, a.by_offset, begin, step, a.updates, bad);
  // The first batch is on its way while the scale is chosen. Every block looks at the same samples,
  // so that nobody waits for it.
  const int first = scale_of_samples<T>(sampled_field<T>(p, threadIdx.x), a.binades, counts);
  if (blockIdx.x == 0 && threadIdx.x == 0) *a.first = first;
  for (;;) {
    batch.resolve(p, a.by_offset, bad);
#pragma unroll
    for (int u = 0; u < kAddUnroll; ++u) {
      const int cell = batch.cell[u];
      if (cell < 0) continue;
      if (a.columns == 1) {
        if (a.counted) atomicAdd(a.counts + cell, 1u);
        add_met_update<T>(a, first, cell, batch.value[u], static_cast<uint32_t>(begin + u * step));
      } else {
        if (a.counted && cell % a.columns == 0) atomicAdd(a.counts + cell / a.columns, 1u);
        add_update<T>(a, first, cell, batch.value[u], static_cast<uint32_t>(begin + u * step));
      }
    }
    begin += kAddUnroll * step;
    if (begin >= a.updates) break;
    batch.start(p, a.by_offset, begin, step, a.updates, bad);
  }
  if (bad) mark_bad(a.flag);
}

template <class T>
__global__ void __launch_bounds__(kThreads, kAddBlocks)
    add_updates(const __grid_constant__ SumArgs a) {
  allow_dependents();
  add_all<T>(a);
}

__global__ void __launch_bounds__(kThreads) list_all_rows(const __grid_constant__ SumArgs a) {
  allow_dependents();
  list_rows(a);
}

// Rows by their lists, where these hold them all; else nothing is written, and all updates are
// added to cells.
template <class T>
__global__ void __launch_bounds__(kThreads, kAddBlocks)
    sum_rows(const __grid_constant__ SumArgs a) {
  wait_for_launch_before();
  allow_dependents();
  const bool bad = is_bad(a.flag), over = a.head->overflowed != 0;
  if (over && !bad) {
    for (int64_t place = global_thread(); place < a.cells / a.columns; place += grid_threads())
      a.list_counts[place] = 0;
    return add_all<T>(a);
  }
  sum_lists<T>(a, bad);
  if (!bad || !is_last_block(&a.head->call.done)) return;
  if (a.reports) a.reporter.report_by_block();
  __syncthreads();
  if (threadIdx.x == 0) *a.head = {};
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

// Writes a cell's place and clears the cell; or says what it is left to.
enum class Finished { yes, asked, long_chain };
template <class T>
__device__ inline Finished finish_cell(const SumArgs& a, int first, int64_t cell, FixedPoint<T> sum,
                                       uint32_t word, uint32_t count, T old, T* at) {
  if (count == 0) return Finished::yes;  // nobody came
  if (sum.is_zero() && word >> kLinkShift == 0) {
    if (must_ask(a, word, old)) {
      a.words[cell] = word | kAsked;
      return Finished::asked;
    }
    // Two words may hold a zero that is not zeros.
    if (kSumWordsOf<T> == 2 && a.sums[cell * a.cell_step] != 0) clear_sum<T>(a, cell);
    if (!a.counted && word == 0) return Finished::yes;  // nobody came, or it changes nothing
  }
  if (!a.p.include_self || Term<T>(old).finite()) {
    T out;
    if (finish_quickly(a, first, sum, word, count, old, out)) {
      *at = out;
      clear_sum<T>(a, cell);
      if (word != 0) a.words[cell] = 0;
      return Finished::yes;
    }
  }
  T out;
  if (!finish_slowly(a, first, sum, word, count, old, out)) {
    a.words[cell] = word | kLong;
    return Finished::long_chain;
  }
  *at = out;
  clear_sum<T>(a, cell);
  if (word != 0) a.words[cell] = 0;
  return Finished::yes;
}

// Calls f(cell, value) for every update that is kept, of one column or (-1) of all, by one block.
template <class T, class F>
__device__ inline void for_each_by_block(const SumArgs& a, int64_t column, F&& f) {
  constexpr int kUnroll = 4;
  const int64_t step = blockDim.x, count = column < 0 ? a.updates : a.updates / a.columns;
  for (int64_t first = threadIdx.x; first < count; first += kUnroll * step) {
    int64_t cell[kUnroll];
    T value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t at = first + u * step;
      cell[u] = -1;
      if (at >= count) continue;
      const int64_t position = column >= 0 || a.columns == 1 ? at : at / a.columns,
                    of = column >= 0 ? column : at - position * a.columns;
      bool bad = false;
      const Item item = decode_any(a.p, position, bad);
      if (item.place < 0) continue;
      cell[u] = a.by_offset ? item.dst : item.place * a.columns + of;
      value[u] = load_value<T>(a.p, item.src + (a.columns == 1 ? 0 : column_at(a.p, of).src));
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (cell[u] >= 0) f(cell[u], a.p.negate ? flip_sign(value[u]) : value[u]);
    }
  }
}

// By the whole block: all updates of a cell that too many are linked to, whether fixed point holds
// them or not.
template <class T>
__device__ __noinline__ static void finish_long_chain(const SumArgs& a, int64_t cell) {
  __shared__ alignas(16) unsigned char memory[sizeof(LongAccumulator<T>)];
  __shared__ unsigned long long count;
  LongAccumulator<T>& all = *reinterpret_cast<LongAccumulator<T>*>(memory);
  LongAccumulator<T> mine;
  unsigned long long came = 0;
  for_each_by_block<T>(a, cell % a.columns, [&](int64_t of, T value) {
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

// By the whole block: those of its cells whose keys must be asked who came.
template <class T>
__device__ __noinline__ static void finish_asked(const SumArgs& a, int64_t begin, int64_t end) {
  for_each_by_block<T>(a, -1, [&](int64_t cell, T value) {
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
__device__ __noinline__ static void finish_long_chains(const SumArgs& a, int64_t begin,
                                                       int64_t end) {
  __shared__ unsigned long long next;
  for (int64_t from = begin; from < end;) {
    if (threadIdx.x == 0) next = static_cast<unsigned long long>(end);
    __syncthreads();
    for (int64_t cell = from + threadIdx.x; cell < end; cell += blockDim.x) {
      if ((__ldcg(a.words + cell) & kLong) == 0) continue;
      atomicMin(&next, static_cast<unsigned long long>(cell));
      break;
    }
    __syncthreads();
    const auto cell = static_cast<int64_t>(next);
    __syncthreads();
    if (cell < end) finish_long_chain<T>(a, cell);
    from = cell + 1;
  }
}

// Elements: cells are single elements and lie as the destination does.
template <class T, bool Elements>
__global__ void __launch_bounds__(kThreads, kWriteBlocks)
    write_sums(const __grid_constant__ SumArgs a) {
  using Number = std::conditional_t<Elements, int, int64_t>;
  const Number begin = static_cast<Number>(blockIdx.x) * static_cast<Number>(a.cells_per_block),
               end = static_cast<Number>(
                   min(static_cast<int64_t>(begin) + a.cells_per_block, a.cells));
  constexpr Number kStep = kThreads;
  T old[kWriteUnroll];
  const auto place = [&](Number cell) {
    if constexpr (Elements)
      return reinterpret_cast<T*>(a.p.dst) + cell;
    else
      return place_of_cell<T>(a, cell);
  };
  const auto load_old = [&](Number at) {
#pragma unroll
    for (int u = 0; u < kWriteUnroll; ++u) {
      if (at + u * kStep < end) old[u] = *place(at + u * kStep);
    }
  };
  Number at = begin + static_cast<Number>(threadIdx.x);
  load_old(at);  // of which the launch before writes nothing
  wait_for_launch_before();
  if (a.slots != 0 && a.head->overflowed == 0) return;
  const bool bad = is_bad(a.flag), linked = a.head->linked != 0;
  const int first = *a.first;
  bool asked = false, chained = false;
  for (; at < end; at += kWriteUnroll * kStep) {
    FixedPoint<T> sum[kWriteUnroll];
    uint32_t word[kWriteUnroll], count[kWriteUnroll];
#pragma unroll
    for (int u = 0; u < kWriteUnroll; ++u) {
      const Number cell = at + u * kStep;
      word[u] = 0;
      count[u] = 1;
      if (cell >= end) continue;
      sum[u] = load_sum<T>(a, cell);
      if (linked) word[u] = a.words[cell];
      if (a.counted) count[u] = a.counts[Elements || a.columns == 1 ? cell : cell / a.columns];
    }
#pragma unroll
    for (int u = 0; u < kWriteUnroll; ++u) {
      const Number cell = at + u * kStep;
      if (cell >= end) continue;
      if (bad) {
        clear_sum<T>(a, cell);
        if (linked) a.words[cell] = 0;
      } else {
        const Finished finished =
            finish_cell(a, first, cell, sum[u], word[u], count[u], old[u], place(cell));
        asked = asked || finished == Finished::asked;
        chained = chained || finished == Finished::long_chain;
      }
    }
    load_old(at + kWriteUnroll * kStep);
  }
  if (__syncthreads_or(asked)) finish_asked<T>(a, begin, end);
  if (__syncthreads_or(chained)) finish_long_chains<T>(a, begin, end);
  if (a.counted && !a.counts_by_last) {
    for (int64_t of = begin / a.columns + threadIdx.x; of < end / a.columns; of += kStep)
      a.counts[of] = 0;
  }
  // What is seldom: the last block leaves the head zero.
  if (!bad && !linked && !a.counts_by_last && a.slots == 0) return;
  if (!is_last_block(&a.head->call.done)) return;
  if (a.counts_by_last) {
    for (int64_t of = threadIdx.x; of < a.cells / a.columns; of += kStep) a.counts[of] = 0;
  }
  if (bad && a.reports) a.reporter.report_by_block();
  __syncthreads();
  if (threadIdx.x == 0) *a.head = {};
}

bool supports(const Case& c) {
  const Problem p = in_memory_order(c.problem).p;
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

// Whether offsets of the source fit the entries of lists.
bool has_short_offsets(const Problem& p) {
  if (p.src == nullptr) return true;
  int64_t last = 0;
  for (int i = 0; i < p.walk.rank; ++i) {
    if (p.walk.axis[i].stride[1] < 0) return false;
    last += (p.walk.axis[i].size - 1) * p.walk.axis[i].stride[1];
  }
  for (int k = p.dst_keys; k < p.dst_keys + p.src_keys; ++k) {
    if (p.keys[k].scale < 0) return false;
    last += p.keys[k].extent * p.keys[k].scale;
  }
  return last <= UINT32_MAX;
}

// How long the lists of places are, so that hardly any overflows where rows are spread evenly; 0:
// it is better to add to cells, because rows are short, or few, or many to a place. 10^6 float32 in
// rows of 2, 3, 7, 33 and 255: 39, 32, 22, 17 and 15 us, by cells 27, 26, 25, 20 and 22; float64 in
// rows of 7 31 and 25; 10^5 float32 in rows of 64 11.0 and 10.6 (H200, 2026-11-18).
int list_slots(const Problem& p) {
  constexpr int64_t kMostEach = 32, kMostRows = 1 << 20, kFewUpdates = 200'000;
  if (p.columns() < (p.width == 8 ? 16 : 5) || p.positions() * p.columns() < kFewUpdates) return 0;
  const int64_t each = p.positions() / std::max<int64_t>(p.places, 1);
  if (p.columns() > INT32_MAX / kThreads || p.positions() > kMostRows ||
      p.places > 2 * p.positions() || each > kMostEach || !has_short_offsets(p))
    return 0;
  int slots = 16;
  while (slots < 2 * each + 12) slots *= 2;
  return slots;
}

double cost(const Case& c) {
  const OrderedProblem ordered = in_memory_order(c.problem);
  const Problem& p = ordered.p;
  const double updates = static_cast<double>(p.positions()) * p.columns(),
               cells = static_cast<double>(cell_count(p)), words = sum_words(p);
  if (list_slots(p) != 0) {
    return 2 * kLaunchNs + 3000 + static_cast<double>(p.positions()) * 0.02 +
           (updates + 2 * cells) * p.width / (kBytesPerNs / 2);
  }
  const double bytes = cells * 8 * words;
  const double share = static_cast<double>(ordered.places_at_once) / static_cast<double>(p.places);
  const bool cached = bytes * share <= static_cast<double>(c.device.l2_bytes) * 0.45;
  const double waits = p.columns() == 1 ? 1 + 70 / std::sqrt(cells) : 1;
  // Of 10^7 elements to half as many places, means took 680 us (H200, 2026-11-18): counts are
  // atomic additions too.
  const double counts = p.columns() == 1 && p.reduce == Reduce::mean ? 1.8 : 1;
  const double each =
      p.columns() == 1 ? 0.0125 * waits * counts * (cached ? 1 : 3) : 0.0065 * (cached ? 1 : 2);
  // 10^6 and 10^7 elements to twice as many places along an axis: 47 and 428 us (H200, 2026-11-18).
  const double written =
      p.columns() == 1 ? cells * 0.0145 * words : (2 * bytes + 2 * cells * p.width) / kBytesPerNs;
  return 2 * kLaunchNs + 2000 + written + updates * each * words;
}

struct SumLayout {
  SumArgs args;
  int blocks, finish_blocks;
  bool simple;  // updates, as SimpleUpdates
};

void carve_zeroed(Carver& carver, SumArgs& a, int words) {
  a.head = carver.take<SumHead>(1);
  a.sums = carver.take<unsigned long long>(a.cells * words);
  a.words = carver.take<uint32_t>(a.cells);
  a.counts = carver.take<uint32_t>(a.counted ? a.cells / a.columns : 0);
  a.list_counts = carver.take<uint32_t>(a.slots != 0 ? a.cells / a.columns : 0);
}

void carve(Carver& carver, SumArgs& a) {
  a.first = carver.take<int>(1);
  a.before = carver.take<uint32_t>(std::max(a.updates, a.cells / a.columns * a.slots));
  a.lists = a.before;  // they are read before any update is linked
}

void lay_out(const Case& c, Plan& plan) {
  const OrderedProblem ordered = in_memory_order(c.problem);
  const Problem& p = ordered.p;
  SumLayout layout = {};
  SumArgs& a = layout.args;
  a.by_offset = ordered.by_offset;
  layout.simple = !a.by_offset && has_simple_updates(p);
  a.updates = p.positions() * p.columns();
  a.columns = p.columns();
  a.cells = cell_count(p);
  a.mean = p.reduce == Reduce::mean;
  a.counted = a.mean || !p.include_self;
  const int words = sum_words(p);
  if (words == 1) {
    a.binades = with_fixed_point(p.dtype, [&](auto zero) {
      using T = decltype(zero);
      return fixed_point_binades(FloatTraits<T>::kDigits, LimbFormat<T>::kMaxShift, ordered.terms);
    });
  } else {
    // All updates of a place stay below 2^62 in either word, and a finished low word below 2^53.
    int bits = 0;
    while ((int64_t{1} << bits) < ordered.terms) ++bits;
    a.low_bits = std::min(62 - bits, 50);
    a.binades = 2 * a.low_bits - FloatTraits<double>::kDigits;
  }
  a.plain_dst = a.by_offset || (p.outer_count == 1 && p.dst_keys == 1 && p.free.count == 1 &&
                                p.keys[0].scale == a.columns && (a.columns == 1 || p.row_dst == 1));
  a.slots = list_slots(p);
  while (1 << a.slot_bits < a.slots) ++a.slot_bits;
  a.list_places = static_cast<int>(std::clamp<int64_t>(kThreads / a.columns, 1, kThreads));
  if (a.slots != 0) a.list_places = std::min(a.list_places, kRowEntries / a.slots);
  const int64_t places = a.cells / a.columns;
  a.counts_by_last = a.counted && places <= kFewCounts;
  const bool side_by_side = a.columns > 1;
  a.cell_step = side_by_side ? 1 : words;
  a.word_step = side_by_side ? a.cells : 1;
  // A thread follows a chain as long as a block takes to look at all updates.
  a.most_chain = static_cast<int>(64 + p.positions() / 4096);
  layout.blocks = blocks_for(a.updates, kThreads, kAddBlocks * c.device.processors);
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

template <class T>
void run_as(const Launch& launch, const SumLayout& layout, const SumArgs& a) {
  const auto blocks = static_cast<unsigned>(layout.blocks);
  if (a.slots != 0) {
    const int most = 8 * launch.device.processors;
    list_all_rows<<<blocks_for(a.p.positions(), kThreads, most), kThreads, 0, launch.stream>>>(a);
    const int64_t groups = (a.cells / a.columns + a.list_places - 1) / a.list_places;
    launch_dependent<sum_rows<T>>(launch, static_cast<int>(std::min<int64_t>(groups, most)),
                                  kThreads, a);
  } else if (layout.simple)
    add_simple_updates<T><<<blocks, kThreads, 0, launch.stream>>>(a);
  else
    add_updates<T><<<blocks, kThreads, 0, launch.stream>>>(a);
  if (a.plain_dst && a.columns == 1)
    launch_dependent<write_sums<T, true>>(launch, layout.finish_blocks, kThreads, a);
  else
    launch_dependent<write_sums<T, false>>(launch, layout.finish_blocks, kThreads, a);
  check_launch("sums");
}

void run(const Launch& launch) {
  const SumLayout& layout = launch.plan.layout_as<SumLayout>();
  SumArgs a = layout.args;
  a.p = in_memory_order(launch.problem).p;
  if (layout.simple) a.simple = simple_updates(a.p);
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
    "exact sums: elements in fixed point by one atomic addition each, rows by lists of them",
    supports,
    cost,
    lay_out,
    run};

}  // namespace sow::detail::cuda
