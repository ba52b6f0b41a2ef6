// SPDX-License-Identifier: Apache-2.0
// Sums of rows without an accumulator in memory: every place lists the rows that come to it, as far
// as its list reaches, and a thread for each place and column adds them up in registers. One atomic
// operation a row, instead of one an element.
#pragma once

#include "cuda/atomic/sums.cuh"

namespace sow::detail::cuda {

inline constexpr int kRowEntries = 4096;  // that a block looks at together

// By every thread of the grid: where the rows of each place begin, in no particular order. More
// than a list holds is noted and left out.
__device__ inline void list_rows(const SumArgs& a) {
  constexpr int kUnroll = 2;
  const int64_t count = a.p.outer_count * a.p.item_count, step = grid_threads();
  bool bad = false, over = false;
  for (int64_t first = global_thread(); first < count; first += kUnroll * step) {
    Item item[kUnroll];
    decode_batch(a.p, first, step, count, item, bad);
    uint32_t slot[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place >= 0) slot[u] = atomicAdd(a.list_counts + item[u].place, 1u);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (item[u].place < 0) continue;
      if (slot[u] < static_cast<uint32_t>(a.slots))
        a.lists[item[u].place * a.slots + slot[u]] = static_cast<uint32_t>(item[u].src);
      else
        over = true;
    }
  }
  if (over) a.head->overflowed = 1;
  if (bad) mark_bad(a.flag);
}

template <class T>
__device__ __noinline__ static T sum_list_slowly(const SumArgs& a, const SumFold<T>& fold,
                                                 const uint32_t* list, int count, int64_t column,
                                                 T old) {
  LongAccumulator<T> sum;
  for (int i = 0; i < count; ++i) fold.add(sum, load_value<T>(a.p, list[i] + column));
  return fold.finish_long(sum, old, count);
}

template <class T>
__device__ inline T sum_list(const SumArgs& a, const SumFold<T>& fold, const uint32_t* list,
                             int count, int64_t column, T old) {
  constexpr int kUnroll = 8;
  typename SumFold<T>::Acc acc = fold.start();
  for (int base = 0; base < count; base += kUnroll) {
    T value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (base + u < count) value[u] = load_value<T>(a.p, list[base + u] + column);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (base + u < count) fold.add(acc, value[u]);
    }
  }
  T out;
  if (fold.finish(acc, old, count, out)) return out;
  return sum_list_slowly(a, fold, list, count, column, old);
}

// By every block: a few places at a time, whose lists are emptied again. With a bad key that is
// all.
template <class T>
__device__ inline void sum_lists(const SumArgs& a, bool bad) {
  __shared__ uint32_t entries[kRowEntries];
  __shared__ uint32_t counts[kThreads];
  const SumFold<T> fold = {a.p.include_self, a.p.negate, a.mean};
  const int64_t places = a.cells / a.columns;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * a.list_places; first < places;
       first += static_cast<int64_t>(gridDim.x) * a.list_places) {
    const int here = static_cast<int>(min(static_cast<int64_t>(a.list_places), places - first));
    __syncthreads();  // whoever reads the entries before has done so
    for (int i = static_cast<int>(threadIdx.x); i < here; i += kThreads) {
      counts[i] = __ldcg(a.list_counts + first + i);
      if (counts[i] != 0) a.list_counts[first + i] = 0;
    }
    __syncthreads();
    if (bad) continue;
    for (int i = static_cast<int>(threadIdx.x); i < here * a.slots; i += kThreads) {
      const int place = i >> a.slot_bits;
      if (static_cast<uint32_t>(i & (a.slots - 1)) < counts[place])
        entries[i] = __ldcg(a.lists + first * a.slots + i);
    }
    __syncthreads();
    const auto cells = static_cast<int>(here * a.columns);
    for (int i = static_cast<int>(threadIdx.x); i < cells; i += kThreads) {
      const auto place = static_cast<int>(a.p.column_divider.quotient(static_cast<uint32_t>(i)));
      const auto count = static_cast<int>(counts[place]);
      if (count == 0) continue;
      T* at = place_of_cell<T>(a, first * a.columns + i);
      const int64_t column = column_at(a.p, i - place * a.columns).src;
      *at = sum_list<T>(a, fold, entries + (place << a.slot_bits), count, column, *at);
    }
  }
}

}  // namespace sow::detail::cuda
