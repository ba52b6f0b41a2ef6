// SPDX-License-Identifier: Apache-2.0
// Every place lists the positions that come to it, by one atomic operation each; then the rows of a
// list are sorted and folded in order, a thread for each place and column. A place that gets more
// than its list holds is left to a whole block, which looks through all keys for it.
#pragma once

#include "cuda/common/dependent_launch.cuh"
#include "cuda/common/updates.cuh"
#include "cuda/runtime/failure.cuh"
#include "cuda/sort/segments.h"

namespace sow::detail::cuda {

struct ListArgs {
  Problem p;
  bool by_offset;  // places are numbered by offsets in the destination
  int64_t columns;
  int slots, slot_bits;  // of a list, a power of two
  int together;          // places that a block takes at a time
  CallHead* head;
  uint32_t* counts;  // by place, zero between calls
  uint32_t* lists;   // by place, positions
  Flag* flag;
  bool reports;
  KeyReporter reporter;
};

inline constexpr int kListEntries = 4096;  // that a block looks at together
inline constexpr int kSearched = 8;        // keys a thread looks at in its search for one place

template <class Stored>
__device__ inline Stored* element_of(const ListArgs& a, int64_t place, int64_t column) {
  const int64_t offset = a.by_offset ? place : offset_of_place(a.p, place);
  return reinterpret_cast<Stored*>(a.p.dst) + offset +
         (a.columns == 1 ? 0 : column_at(a.p, column).dst);
}

// Folds the rows at so many positions, a chunk at most, of one column.
template <class Fold>
__device__ inline typename Fold::Acc fold_positions(const ListArgs& a, const Fold& fold,
                                                    const uint32_t* positions, int count,
                                                    int64_t column) {
  using Stored = typename Fold::Stored;
  constexpr int kUnroll = 8;
  const int64_t from = a.columns == 1 ? 0 : column_at(a.p, column).src;
  typename Fold::Acc acc = fold.start();
  for (int base = 0; base < count; base += kUnroll) {
    Stored value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (base + u < count)
        value[u] = load_value<Stored>(a.p, decode_src(a.p, positions[base + u]) + from);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (base + u < count) fold.add(acc, value[u]);
    }
  }
  return acc;
}

template <class Fold>
__device__ inline void fold_list(const ListArgs& a, const Fold& fold, const uint32_t* positions,
                                 int count, int64_t column, typename Fold::Stored* at) {
  using Stored = typename Fold::Stored;
  Stored out;
  if (fold.finish(fold_positions(a, fold, positions, count, column), *at, count, out)) *at = out;
}

__device__ inline int64_t place_of_position(const ListArgs& a, bool simple, int64_t position) {
  bool bad = false;
  if (a.by_offset) {
    const Item item = decode_any(a.p, position, bad);
    return item.place < 0 ? -1 : item.dst;
  }
  int64_t src;
  return place_of(a.p, simple, position, src, bad);
}

// By the whole block: those of kSearched positions a thread, from `first` on, that come to the
// place are put behind the `held` ones of the buffer, in order. Returns how many it holds then.
__device__ inline int find_positions(const ListArgs& a, int64_t place, int64_t first, int held,
                                     uint32_t* buffer) {
  __shared__ int of_warp[kThreads / 32];
  const int64_t count = a.p.outer_count * a.p.item_count;
  const int64_t begin = first + static_cast<int64_t>(threadIdx.x) * kSearched;
  const bool simple = is_simple(a.p);
  uint32_t came = 0;
#pragma unroll
  for (int u = 0; u < kSearched; ++u) {
    if (begin + u < count && place_of_position(a, simple, begin + u) == place) came |= 1u << u;
  }
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  int before = __popc(came);
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const int other = __shfl_up_sync(~0u, before, apart);
    if (lane >= apart) before += other;
  }
  if (lane == 31) of_warp[warp] = before;
  __syncthreads();
  int at = held + before - __popc(came), total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) at += of_warp[w];
    total += of_warp[w];
  }
  for (; came != 0; came &= came - 1)
    buffer[at++] = static_cast<uint32_t>(begin + __ffs(static_cast<int>(came)) - 1);
  __syncthreads();
  return held + total;
}

// By the whole block: calls f(positions, count) with all positions of a place, in order and cut
// into whole chunks but for the last; `f` is called by all threads alike.
template <class F>
__device__ inline void for_each_found(const ListArgs& a, int64_t place, uint32_t* buffer, F&& f) {
  static_assert(kChunk == kThreads, "what does not fill a chunk is moved by one thread each");
  constexpr int kTile = kThreads * kSearched;
  const int64_t count = a.p.outer_count * a.p.item_count;
  const int thread = static_cast<int>(threadIdx.x);
  int held = 0;
  for (int64_t first = 0; first < count; first += kTile) {
    held = find_positions(a, place, first, held, buffer);
    const bool last = first + kTile >= count;
    if (!last && held <= kListEntries - kTile) continue;
    const int whole = last ? held : held / kChunk * kChunk, rest = held - whole;
    f(buffer, whole);
    __syncthreads();
    const uint32_t kept = thread < rest ? buffer[whole + thread] : 0;
    __syncthreads();
    if (thread < rest) buffer[thread] = kept;
    __syncthreads();
    held = rest;
  }
}

// By the whole block: a place that its list does not hold. Neighbouring threads take neighbouring
// columns, and groups of them a chunk each.
template <class Fold>
__device__ __noinline__ static void fold_long(const ListArgs& a, const Fold& fold, int64_t place,
                                              int64_t count, uint32_t* buffer) {
  using Stored = typename Fold::Stored;
  using Partial = typename Fold::Partial;
  __shared__ alignas(16) unsigned char memory[kThreads * sizeof(Partial)];
  Partial* partials = reinterpret_cast<Partial*>(memory);
  const int width = static_cast<int>(min(a.columns, static_cast<int64_t>(kThreads)));
  const int groups = kThreads / width, group = static_cast<int>(threadIdx.x) / width,
            lane = static_cast<int>(threadIdx.x) - group * width;
  for (int64_t tile = 0; tile < a.columns; tile += width) {
    const int64_t column = tile + lane;
    const bool active = group < groups && column < a.columns;
    Stored* at = active && group == 0 ? element_of<Stored>(a, place, column) : nullptr;
    Partial total = fold.start_partial();
    bool first = true;
    for_each_found(a, place, buffer, [&](const uint32_t* positions, int found) {
      const int chunks = (found + kChunk - 1) / kChunk;
      for (int chunk = 0; chunk < chunks; chunk += groups) {
        const int mine = chunk + group;
        if (active && mine < chunks) {
          partials[threadIdx.x] = fold.to_partial(fold_positions(
              a, fold, positions + mine * kChunk, min(kChunk, found - mine * kChunk), column));
        }
        __syncthreads();
        for (int g = 0; at != nullptr && g < groups && chunk + g < chunks; ++g) {
          const Partial next = partials[g * width + lane];
          if (first)
            total = fold.first_chunk(next, *at);
          else
            fold.merge(total, next);
          first = false;
        }
        __syncthreads();
      }
    });
    Stored out;
    if (at != nullptr && fold.finish_partial(total, *at, count, out)) *at = out;
    __syncthreads();
  }
}

template <class Fold>
__global__ void __launch_bounds__(kThreads, 4)
    fold_lists(const __grid_constant__ ListArgs a, const __grid_constant__ Fold fold) {
  using Stored = typename Fold::Stored;
  __shared__ uint32_t entries[kListEntries];
  __shared__ uint32_t sorted[kListEntries];
  __shared__ uint32_t counts[kThreads];
  const auto slots = static_cast<uint32_t>(a.slots);
  const int thread = static_cast<int>(threadIdx.x);
  wait_for_launch_before();
  const bool bad = is_bad(a.flag);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * a.together; first < a.p.places;
       first += static_cast<int64_t>(gridDim.x) * a.together) {
    const int here = static_cast<int>(min(static_cast<int64_t>(a.together), a.p.places - first));
    bool overflowed = false;
    __syncthreads();
    if (thread < here) {
      const uint32_t count = a.counts[first + thread];
      if (count != 0) a.counts[first + thread] = 0;
      counts[thread] = count;
      overflowed = count > slots;
    }
    overflowed = __syncthreads_or(overflowed);
    if (bad) continue;
    for (int i = thread; i < here * a.slots; i += kThreads) {
      if ((static_cast<uint32_t>(i) & (slots - 1)) < counts[i >> a.slot_bits])
        entries[i] = a.lists[first * a.slots + i];
    }
    __syncthreads();
    for (int i = thread; i < here * a.slots; i += kThreads) {
      const uint32_t count = counts[i >> a.slot_bits];
      if (count > slots || (static_cast<uint32_t>(i) & (slots - 1)) >= count) continue;
      const int list = i >> a.slot_bits << a.slot_bits;
      int at = list;
      for (uint32_t k = 0; k < count; ++k) at += entries[list + k] < entries[i] ? 1 : 0;
      sorted[at] = entries[i];
    }
    __syncthreads();
    const auto cells = static_cast<int>(here * a.columns);
    for (int i = thread; i < cells; i += kThreads) {
      const auto place = static_cast<int>(a.p.column_divider.quotient(static_cast<uint32_t>(i)));
      const uint32_t count = counts[place];
      if (count == 0 || count > slots) continue;
      const int64_t column = i - place * a.columns;
      fold_list(a, fold, sorted + (place << a.slot_bits), static_cast<int>(count), column,
                element_of<Stored>(a, first + place, column));
    }
    if (!overflowed) continue;
    __syncthreads();
    for (int i = 0; i < here; ++i) {
      if (counts[i] > slots) fold_long(a, fold, first + i, counts[i], entries);
    }
  }
  if (!bad || !a.reports || !is_last_block(&a.head->done)) return;
  a.reporter.report_by_block();
  __syncthreads();
  if (threadIdx.x == 0) *a.head = {};
}

template <class Fold>
void launch_fold_lists(const Launch& launch, const ListArgs& a, const Fold& fold) {
  const int64_t groups = (a.p.places + a.together - 1) / a.together;
  launch_dependent<fold_lists<Fold>>(
      launch, static_cast<int>(std::min<int64_t>(groups, 64 * launch.device.processors)), kThreads,
      a, fold);
}

// By type, in a file of its own to keep builds short.
void fold_listed_products(const Launch& launch, const ListArgs& a);

}  // namespace sow::detail::cuda
