// SPDX-License-Identifier: Apache-2.0
// The gradients of amax, amin and mul over rows: positions sorted by place, as the forward call
// sorts them, so that a warp meets the updates of a place together, reads each of them once from
// memory, and writes their gradients at once. Places with more than a chunk of updates are shared
// by many warps.
#include "cuda/backward/backward.cuh"
#include "cuda/backward/backward_rules.cuh"
#include "cuda/plan/strategies.h"
#include "cuda/sort/segments.cuh"

namespace sow::detail::cuda {

namespace {

constexpr int kRowThreads = 128;
constexpr int kPrefetched = 8;  // rows in flight

// A place with more than a chunk of updates.
struct LongPlace {
  int64_t begin, count, place, first_chunk;
};

template <class T>
struct RowArgs {
  BackwardArgs<T> b;
  const uint32_t* keys;   // places in ascending order, those of dropped positions behind them
  const uint32_t* order;  // the positions in that order
  LongPlace* longs;
  unsigned long long* counts;  // of longs << kChunkBits | their chunks
  // By chunk, then by long place, for each column.
  double* values;
  uint32_t* shares;
};

// What of a place and its columns a lane has.
struct LanePlace {
  int64_t dst, src;  // offsets of its columns
  int64_t column;
  bool active;
};

template <class T, int V>
__device__ LanePlace lane_place(const RowArgs<T>& a, int64_t tile) {
  LanePlace at;
  at.column = (tile * 32 + static_cast<int>(threadIdx.x) % 32) * V;
  at.active = at.column < a.b.columns;
  const Column column = at.active ? column_at(a.b.p, at.column) : Column{0, 0};
  at.dst = column.dst;
  at.src = column.src;
  return at;
}

// The source offsets of up to 32 sorted items, one a lane.
template <class T>
__device__ int64_t offsets_of(const RowArgs<T>& a, int64_t first, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return lane < count ? decode_src(a.b.p, a.order[first + lane]) : 0;
}

// Calls use(row, values) for up to 32 rows whose offsets the lanes hold.
template <class T, int V, class Use>
__device__ void for_rows(const RowArgs<T>& a, const LanePlace& at, int64_t offset, int count,
                         Use&& use) {
  for (int first = 0; first < count; first += kPrefetched) {
    Pack<T, V> value[kPrefetched] = {};
#pragma unroll
    for (int u = 0; u < kPrefetched; ++u) {
      const int64_t from = __shfl_sync(~0u, offset, (first + u) & 31);
      if (first + u < count && at.active) value[u] = load<T, V>(a.b.source, from + at.src);
    }
#pragma unroll
    for (int u = 0; u < kPrefetched; ++u) {
      if (first + u < count) use(first + u, value[u]);
    }
  }
}

template <class T, int V>
__device__ void put_row(const RowArgs<T>& a, const LanePlace& at, int64_t offset, int row,
                        const Pack<T, V>& out) {
  const int64_t to = __shfl_sync(~0u, offset, row);
  if (at.active) *reinterpret_cast<Pack<T, V>*>(a.b.source_grad + to + at.src) = out;
}

// Adds up `count` rows from sorted item `begin` on; of the first 32 `bits` keeps who takes part.
template <class Rule, int V, class T = typename Rule::Value>
__device__ void add_rows(const RowArgs<T>& a, const Rule (&rule)[V], const LanePlace& at,
                         int64_t begin, int count, typename Rule::Sum (&sum)[V],
                         uint32_t (&bits)[V]) {
  for (int first = 0; first < count; first += 32) {
    const int here = min(32, count - first);
    const int64_t offset = offsets_of(a, begin + first, here);
    for_rows<T, V>(a, at, offset, here, [&](int row, const Pack<T, V>& value) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const bool part = rule[v].add(sum[v], value.at[v]);
        if (Rule::kByBits && first == 0) bits[v] |= static_cast<uint32_t>(part) << row;
      }
    });
  }
}

template <class Rule, int V, class T = typename Rule::Value>
__device__ void give_rows(const RowArgs<T>& a, const Rule (&rule)[V], const LanePlace& at,
                          int64_t begin, int count, const typename Rule::Share (&share)[V],
                          const uint32_t (&bits)[V], bool known) {
  for (int first = 0; first < count; first += 32) {
    const int here = min(32, count - first);
    const int64_t offset = offsets_of(a, begin + first, here);
    if (Rule::kByBits && known && first == 0) {
      for (int row = 0; row < here; ++row) {
        Pack<T, V> out = {};
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if ((bits[v] >> row) & 1) out.at[v] = rule[v].part(share[v]);
        }
        put_row<T, V>(a, at, offset, row, out);
      }
      continue;
    }
    for_rows<T, V>(a, at, offset, here, [&](int row, const Pack<T, V>& value) {
      Pack<T, V> out;
#pragma unroll
      for (int v = 0; v < V; ++v) out.at[v] = rule[v].give(share[v], value.at[v]);
      put_row<T, V>(a, at, offset, row, out);
    });
  }
}

template <class Rule, int V, class T>
__device__ void begin_place(const RowArgs<T>& a, int64_t dst, bool active, Rule (&rule)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) rule[v].begin(a.b, dst + v, active);
}

template <class Rule, int V, class T>
__device__ void end_place(const RowArgs<T>& a, int64_t dst, bool active, const Rule (&rule)[V],
                          const typename Rule::Sum (&sum)[V], typename Rule::Share (&share)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (active) share[v] = rule[v].end(a.b, dst + v, sum[v]);
  }
}

// So many rows of a place fit into a warp's shared memory: of float32 and 64 columns, 24.
template <class T, int V>
inline constexpr int kStaged = 6144 / (32 * V * sizeof(T)) < 32 ? 6144 / (32 * V * sizeof(T)) : 32;

template <class Packed>
__device__ void prefetch_copy(Packed* to, const Packed* from) {
  const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (sizeof(Packed) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
  } else if constexpr (sizeof(Packed) == 8 || sizeof(Packed) == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared), "l"(from),
                 "n"(sizeof(Packed))
                 : "memory");
  } else {
    *to = *from;
  }
}

// A place with few updates: they are in flight together, and read once from memory. A lane reads
// what it has copied itself, so that nobody waits for anybody.
template <class Rule, int V, class T = typename Rule::Value>
__device__ void walk_staged(const RowArgs<T>& a, const LanePlace& at, int64_t dst, int64_t begin,
                            int count, Pack<T, V>* stage) {
  const int64_t offset = offsets_of(a, begin, count);
  for (int row = 0; row < count; ++row) {
    const int64_t from = __shfl_sync(~0u, offset, row);
    if (at.active)
      prefetch_copy(stage + row * 32,
                    reinterpret_cast<const Pack<T, V>*>(a.b.source + from + at.src));
  }
  Rule rule[V];
  typename Rule::Sum sum[V];
  typename Rule::Share share[V] = {};
  begin_place(a, dst, at.active, rule);
  asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll 4
  for (int row = 0; row < count; ++row) {
    const Pack<T, V> value = stage[row * 32];
#pragma unroll
    for (int v = 0; v < V; ++v) rule[v].add(sum[v], value.at[v]);
  }
#pragma unroll
  for (int v = 0; v < V; ++v) rule[v].join(sum[v]);
  end_place(a, dst, at.active, rule, sum, share);
  if (a.b.source_grad == nullptr) return;
#pragma unroll 4
  for (int row = 0; row < count; ++row) {
    const Pack<T, V> value = stage[row * 32];
    Pack<T, V> out;
#pragma unroll
    for (int v = 0; v < V; ++v) out.at[v] = rule[v].give(share[v], value.at[v]);
    put_row<T, V>(a, at, offset, row, out);
  }
}

// Products wait for more than their rows, and gain by more warps than their registers would leave:
// forward and backward take 2.95 ms, and 3.05 without; maxima 2.40, and 2.63 with (H200,
// 2026-11-15).
template <class Rule>
inline constexpr int kWalkBlocks = Rule::kByBits ? 1 : 8;

// A warp takes the places whose updates begin among its 32 sorted items; longer ones are listed by
// the first tile of columns.
template <class Rule, int V, class T = typename Rule::Value>
__global__ void __launch_bounds__(kRowThreads, kWalkBlocks<Rule>)
    walk_places(const __grid_constant__ RowArgs<T> a) {
  __shared__ Pack<T, V> staged[kRowThreads / 32][kStaged<T, V> * 32];
  const int64_t count = a.b.positions, first = global_thread() / 32 * 32;
  if (first >= count) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const LanePlace at = lane_place<T, V>(a, blockIdx.y);
  const int64_t mine = first + lane;
  const uint32_t key = mine < count ? a.keys[mine] : UINT32_MAX;
  const uint32_t before = mine < count && mine > 0 ? a.keys[mine - 1] : UINT32_MAX;
  const bool kept = mine < count && static_cast<int64_t>(key) < a.b.p.places;
  uint32_t heads = __ballot_sync(~0u, kept && (mine == 0 || key != before));
  // Dropped positions take no part.
  uint32_t dropped = __ballot_sync(~0u, mine < count && !kept);
  if (dropped != 0 && a.b.source_grad != nullptr) {
    const int64_t offset = offsets_of(a, first, static_cast<int>(min(count - first, int64_t{32})));
    for (; dropped != 0; dropped &= dropped - 1) {
      put_row<T, V>(a, at, offset, __ffs(static_cast<int>(dropped)) - 1, Pack<T, V>{});
    }
  }
  for (; heads != 0; heads &= heads - 1) {
    const int head = __ffs(static_cast<int>(heads)) - 1;
    const uint32_t rest = heads & (heads - 1);
    const int64_t begin = first + head, place = __shfl_sync(~0u, key, head);
    int64_t end = rest != 0 ? first + __ffs(static_cast<int>(rest)) - 1 : 0;
    if (rest == 0) end = end_of_run(a.keys, begin, count);
    if (end - begin > kChunk) {
      if (lane == 0 && blockIdx.y == 0) {
        const auto chunks = static_cast<unsigned long long>((end - begin + kChunk - 1) / kChunk);
        const unsigned long long was = atomicAdd(a.counts, (1ull << kChunkBits) + chunks);
        a.longs[was >> kChunkBits] = {begin, end - begin, place,
                                      static_cast<int64_t>(was & ((1ull << kChunkBits) - 1))};
      }
      continue;
    }
    const int64_t dst = offset_of_place(a.b.p, place) + at.dst;
    if (end - begin <= kStaged<T, V>) {
      walk_staged<Rule, V>(a, at, dst, begin, static_cast<int>(end - begin),
                           staged[threadIdx.x / 32] + lane);
      continue;
    }
    Rule rule[V];
    typename Rule::Sum sum[V];
    typename Rule::Share share[V] = {};
    uint32_t bits[V] = {};
    begin_place(a, dst, at.active, rule);
    add_rows<Rule, V>(a, rule, at, begin, static_cast<int>(end - begin), sum, bits);
    for (int v = 0; v < V; ++v) rule[v].join(sum[v]);
    end_place(a, dst, at.active, rule, sum, share);
    if (a.b.source_grad != nullptr)
      give_rows<Rule, V>(a, rule, at, begin, static_cast<int>(end - begin), share, bits, true);
  }
}

// The chunk of a long place.
struct ChunkOf {
  LongPlace place;
  int64_t number, begin;
  int count;
};
template <class T>
__device__ ChunkOf chunk_of(const RowArgs<T>& a, int64_t chunk) {
  int64_t low = 0, high = static_cast<int64_t>(*a.counts >> kChunkBits);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (a.longs[middle].first_chunk <= chunk ? low : high) = middle;
  }
  const LongPlace place = a.longs[low];
  const int64_t skipped = (chunk - place.first_chunk) * kChunk;
  return {place, low, place.begin + skipped,
          static_cast<int>(min(int64_t{kChunk}, place.count - skipped))};
}

template <class T>
__device__ int64_t chunks_of(const RowArgs<T>& a) {
  return static_cast<int64_t>(*a.counts & ((1ull << kChunkBits) - 1));
}

template <class Rule, int V, class T = typename Rule::Value>
__global__ void __launch_bounds__(kRowThreads) add_chunks(const __grid_constant__ RowArgs<T> a) {
  const int64_t chunks = chunks_of(a);
  const LanePlace at = lane_place<T, V>(a, blockIdx.y);
  for (int64_t chunk = global_thread() / 32; chunk < chunks; chunk += grid_threads() / 32) {
    const ChunkOf c = chunk_of(a, chunk);
    Rule rule[V];
    typename Rule::Sum sum[V];
    uint32_t bits[V] = {};
    begin_place(a, offset_of_place(a.b.p, c.place.place) + at.dst, at.active, rule);
    add_rows<Rule, V>(a, rule, at, c.begin, c.count, sum, bits);
    for (int v = 0; v < V && at.active; ++v)
      sum[v].save(a.values, a.shares, chunk * a.b.columns + at.column + v);
  }
}

// Adds the chunks of a long place up, in order; what everybody gets takes the place of its first
// chunk.
template <class Rule, int V, class T = typename Rule::Value>
__global__ void __launch_bounds__(kRowThreads) end_longs(const __grid_constant__ RowArgs<T> a) {
  constexpr int kUnroll = 8;
  const int64_t longs = static_cast<int64_t>(*a.counts >> kChunkBits);
  const LanePlace at = lane_place<T, V>(a, blockIdx.y);
  for (int64_t i = global_thread() / 32; i < longs && at.active; i += grid_threads() / 32) {
    const LongPlace place = a.longs[i];
    const int64_t chunks = (place.count + kChunk - 1) / kChunk,
                  dst = offset_of_place(a.b.p, place.place) + at.dst;
    for (int v = 0; v < V; ++v) {
      Rule rule;
      rule.begin(a.b, dst + v, true);
      typename Rule::Sum sum;
      const int64_t slot = place.first_chunk * a.b.columns + at.column + v;
      for (int64_t first = 0; first < chunks; first += kUnroll) {
        typename Rule::Sum next[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          if (first + u < chunks)
            next[u].restore(a.values, a.shares, slot + (first + u) * a.b.columns);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          if (first + u < chunks) sum.merge(next[u]);
          if (first + u == 0) rule.join(sum);
        }
      }
      rule.end(a.b, dst + v, sum).save(a.values, a.shares, slot);
    }
  }
}

template <class Rule, int V, class T = typename Rule::Value>
__global__ void __launch_bounds__(kRowThreads) give_chunks(const __grid_constant__ RowArgs<T> a) {
  const int64_t chunks = chunks_of(a);
  const LanePlace at = lane_place<T, V>(a, blockIdx.y);
  for (int64_t chunk = global_thread() / 32; chunk < chunks; chunk += grid_threads() / 32) {
    const ChunkOf c = chunk_of(a, chunk);
    Rule rule[V];
    typename Rule::Share share[V] = {};
    const uint32_t bits[V] = {};
    begin_place(a, offset_of_place(a.b.p, c.place.place) + at.dst, at.active, rule);
    for (int v = 0; v < V && at.active; ++v)
      share[v].restore(a.values, a.shares, c.place.first_chunk * a.b.columns + at.column + v);
    give_rows<Rule, V>(a, rule, at, c.begin, c.count, share, bits, false);
  }
}

template <class Rule, int V, class T = typename Rule::Value>
void launch_walk(const RowArgs<T>& a, int processors, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>((a.b.columns + 32 * V - 1) / (32 * V));
  const dim3 all(static_cast<unsigned>(blocks_for(a.b.positions, kRowThreads)), tiles);
  const dim3 few(static_cast<unsigned>(
                     blocks_for(a.b.positions / kChunk + 1, kRowThreads / 32, 16 * processors)),
                 tiles);
  check(cudaMemsetAsync(a.counts, 0, sizeof(*a.counts), stream), "backward");
  walk_places<Rule, V><<<all, kRowThreads, 0, stream>>>(a);
  add_chunks<Rule, V><<<few, kRowThreads, 0, stream>>>(a);
  end_longs<Rule, V><<<few, kRowThreads, 0, stream>>>(a);
  if (a.b.source_grad != nullptr) give_chunks<Rule, V><<<few, kRowThreads, 0, stream>>>(a);
  check_launch("backward");
}

template <class Rule>
void run_rule(const Launch& launch, RowArgs<typename Rule::Value>& a, Carver& carver, bool dense) {
  const int64_t longs = a.b.positions / (kChunk + 1), chunks = a.b.positions / kChunk + longs;
  a.counts = carver.take<unsigned long long>(1);
  a.longs = carver.take<LongPlace>(longs);
  a.values = carver.take<double>(chunks * a.b.columns);
  a.shares = carver.take<uint32_t>(chunks * a.b.columns);
  if (a.counts == nullptr) return;  // measured
  const int processors = launch.device.processors;
  if (dense && a.b.columns >= 128)
    launch_walk<Rule, 4>(a, processors, launch.stream);
  else if (dense)
    launch_walk<Rule, 2>(a, processors, launch.stream);
  else
    launch_walk<Rule, 1>(a, processors, launch.stream);
}

template <class T>
void run_typed(const CudaContext& context, const IndexedBackward& work, const Case& c,
               const SegmentLayout& sorted, int64_t elements) {
  const Problem& p = c.problem;
  const cudaStream_t stream = stream_of(context);
  RowArgs<T> a = {};
  a.b = backward_args<T>(work, p, elements);
  const Plan no_plan{};
  const Launch launch{context,  c.transfer, no_plan, p,       c.mask,
                      c.device, stream,     nullptr, nullptr, nullptr};
  const auto run = [&](Carver& carver) {
    if (work.reduce == Reduce::mul)
      run_rule<ProductRule<T>>(launch, a, carver, is_dense(p));
    else
      run_rule<ExtremeRule<T>>(launch, a, carver, is_dense(p));
  };
  Carver measure(nullptr);
  measure.take<char>(static_cast<int64_t>(sorted.workspace));
  run(measure);
  const Scratch scratch(context, measure.used());
  Carver carver(scratch.data());
  if (a.b.x_grad != nullptr && a.b.include_self && work.reduce != Reduce::mul) {
    const int blocks = blocks_for(elements, 4 * kThreads, 32 * c.device.processors);
    share_with_nobody<T><<<blocks, kThreads, 0, stream>>>(a.b.grad, a.b.x_grad, elements);
  }
  const Segments segments =
      make_segments(launch, sorted, carver.take<char>(static_cast<int64_t>(sorted.workspace)));
  a.keys = static_cast<const uint32_t*>(segments.keys);
  a.order = static_cast<const uint32_t*>(segments.items);
  run(carver);
}

}  // namespace

bool run_rows_backward(const CudaContext& context, const IndexedBackward& work,
                       const Transfer& places, const Canonical& canonical, const Problem& given,
                       int64_t elements) {
  // Rows that fill half a warp, and enough of them that sorting is not all there is to do.
  if (given.columns() < 16 || given.positions() < (1 << 14)) return false;
  Problem p = given;
  p.reduce = Reduce::assign;                               // items are positions
  if (p.bounds == Bounds::error) p.bounds = Bounds::drop;  // a bad key was told by the forward call
  const MaskProblem no_mask{};
  const Case c{places, canonical, p, no_mask, device_state(context.device)};
  const SegmentLayout sorted = lay_out_segments(c);
  if (sorted.bounds.is_64_bit) return false;
  with_type<float, double, float16, bfloat16>(work.dtype, [&](auto zero) {
    run_typed<decltype(zero)>(context, work, c, sorted, elements);
  });
  return true;
}

}  // namespace sow::detail::cuda
