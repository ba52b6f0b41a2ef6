// SPDX-License-Identifier: Apache-2.0
// Sorts items by place and lists the segments: keys, a stable radix sort, and the runs of equal
// keys.
#include "cuda/sort/segments.h"

#include "cuda/sort/group.h"
#include "cuda/sort/segments.cuh"
#include "cuda/sort/sort.h"
#include "transfer/index/index_order.h"
#include "transfer/kernel_type.h"

namespace sow::detail::cuda {

namespace {

constexpr int kPerThread = 8;
constexpr int kTile = kThreads * kPerThread;

__device__ uint32_t load_bits(const Problem& p, int64_t src) {
  if (p.width == 4) return __ldcs(reinterpret_cast<const uint32_t*>(p.src) + src);
  if (p.width == 2) return reinterpret_cast<const uint16_t*>(p.src)[src];
  return reinterpret_cast<const uint8_t*>(p.src)[src];
}

// What travels with a key: see Segments.
enum class Carry { position, offset, value };

// Dropped items go to the end, behind every place; where a key is bad nothing will be written. With
// `keys` null the items alone are written, in their own order. Plain: a plain problem whose items
// are no values, with more keys in flight.
template <class U, bool Plain>
__global__ void __launch_bounds__(kThreads)
    make_items(const __grid_constant__ Problem p, Carry carry, U* keys, U* items, Flag* flag) {
  constexpr int kUnroll = Plain ? 8 : 4;
  const int64_t count = p.outer_count * p.item_count, step = grid_threads();
  const U last = static_cast<U>(p.bounds == Bounds::drop ? p.places : 0);
  bool bad = false;
  for (int64_t first = global_thread(); first < count; first += kUnroll * step) {
    Item item[kUnroll];
    uint32_t bits[kUnroll];
    if constexpr (Plain) {
      uint32_t place[kUnroll];
      read_items<true>(p, first, step, count, place, bits, bad);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        item[u] = {0, bits[u], place[u] == kNowhere ? -1 : static_cast<int64_t>(place[u])};
    } else {
      decode_batch(p, first, step, count, item, bad);
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (carry == Carry::value && item[u].place >= 0) bits[u] = load_bits(p, item[u].src);
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t i = first + u * step;
      if (i >= count) continue;
      const bool kept = item[u].place >= 0;
      if (keys != nullptr) keys[i] = kept ? static_cast<U>(item[u].place) : last;
      if (carry == Carry::position)
        items[i] = static_cast<U>(i);
      else if (!kept)
        items[i] = 0;
      else
        items[i] = carry == Carry::value ? static_cast<U>(bits[u])
                                         : static_cast<U>(p.src == nullptr ? 0 : item[u].src);
    }
  }
  if (bad) mark_bad(flag);
}

// The items of a held order: nothing is left to sort.
__global__ void __launch_bounds__(kThreads)
    take_held(const __grid_constant__ Problem p, Carry carry, const uint32_t* keys,
              const uint32_t* positions, uint32_t* items) {
  const int64_t count = p.outer_count * p.item_count;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    const uint32_t position = positions[i];
    const bool dropped = static_cast<int64_t>(keys[i]) >= p.places;
    if (dropped || (p.src == nullptr && carry != Carry::position))
      items[i] = 0;
    else if (carry == Carry::position)
      items[i] = position;
    else {
      const int64_t src = decode_src(p, position);
      items[i] = carry == Carry::value ? load_bits(p, src) : static_cast<uint32_t>(src);
    }
  }
}

// Lists the segments that begin in a tile of keys, in no particular order: every one is a place of
// its own. A long one leaves an empty entry among the short ones.
template <class U>
__global__ void __launch_bounds__(kThreads)
    list_segments(const __grid_constant__ Problem p, const U* keys, const U* items, int64_t count,
                  Segment* shorts, LongSegment* longs, SegmentCounts* counts) {
  constexpr int kWarps = kThreads / 32;
  __shared__ int heads[kTile];
  __shared__ int before[kPerThread * kWarps + 1];
  __shared__ unsigned long long base;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t ballots[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t at = first + k * kThreads + threadIdx.x;
    bool head = false;
    if (at < count) {
      const U key = keys[at];
      head = static_cast<int64_t>(key) < p.places && (at == 0 || keys[at - 1] != key);
    }
    ballots[k] = __ballot_sync(~0u, head);
    if (lane == 0) before[k * kWarps + warp + 1] = __popc(ballots[k]);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    before[0] = 0;
    for (int i = 1; i <= kPerThread * kWarps; ++i) before[i] += before[i - 1];
    base = atomicAdd(&counts->shorts, static_cast<unsigned long long>(before[kPerThread * kWarps]));
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    if (!((ballots[k] >> lane) & 1)) continue;
    heads[before[k * kWarps + warp] + __popc(ballots[k] & ((1u << lane) - 1))] =
        k * kThreads + static_cast<int>(threadIdx.x);
  }
  __syncthreads();
  const int total = before[kPerThread * kWarps];
  for (int j = static_cast<int>(threadIdx.x); j < total; j += kThreads) {
    const int64_t begin = first + heads[j];
    const int64_t end = j + 1 < total ? first + heads[j + 1] : end_of_run(keys, begin, count);
    const bool is_long = end - begin > kChunk;
    const int64_t dst = p.materialised ? p.dst_table[items[begin]]
                                       : offset_of_place(p, static_cast<int64_t>(keys[begin]));
    shorts[base + j] = {begin, dst, is_long ? 0 : static_cast<int32_t>(end - begin)};
    if (is_long) add_long(begin, end - begin, dst, longs, counts);
  }
}

// Lists the heads of rows' segments that begin in a tile, as list_segments does.
__global__ void __launch_bounds__(kThreads)
    list_heads(const __grid_constant__ Problem p, const uint32_t* keys, int64_t count, Head* list,
               LongSegment* longs, SegmentCounts* counts) {
  constexpr int kWarps = kThreads / 32, kBallots = kPerThread * kWarps;
  static_assert(kBallots == 64);
  __shared__ int heads[kTile];
  __shared__ int before[kBallots + 1];
  __shared__ int tail;  // how far the last key goes on beyond the tile, as far as was looked
  __shared__ unsigned long long base;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t key[kPerThread], ballots[kPerThread];
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t at = first + k * kThreads + threadIdx.x;
    key[k] = at < count ? keys[at] : UINT32_MAX;
  }
  const int64_t beyond = first + kTile + threadIdx.x;
  const uint32_t key_beyond = beyond < count ? keys[beyond] : UINT32_MAX;
  const uint32_t last = keys[min(first + kTile, count) - 1];
  if (threadIdx.x == 0) tail = kThreads;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t at = first + k * kThreads + threadIdx.x;
    uint32_t left = __shfl_up_sync(~0u, key[k], 1);
    if (lane == 0) left = at > 0 && at < count ? keys[at - 1] : UINT32_MAX;
    ballots[k] =
        __ballot_sync(~0u, at < count && static_cast<int64_t>(key[k]) < p.places && key[k] != left);
    if (lane == 0) before[k * kWarps + warp + 1] = __popc(ballots[k]);
  }
  __syncthreads();
  if (key_beyond != last) atomicMin(&tail, static_cast<int>(threadIdx.x));
  if (warp == 0) {
    const int even = before[2 * lane + 1], odd = before[2 * lane + 2];
    int sum = even + odd;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, sum, step);
      if (lane >= step) sum += other;
    }
    __syncwarp();
    before[2 * lane + 1] = sum - odd;
    before[2 * lane + 2] = sum;
    if (lane == 0) before[0] = 0;
    if (lane == 31) base = atomicAdd(&counts->shorts, static_cast<unsigned long long>(sum));
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    if (!((ballots[k] >> lane) & 1)) continue;
    heads[before[k * kWarps + warp] + __popc(ballots[k] & ((1u << lane) - 1))] =
        k * kThreads + static_cast<int>(threadIdx.x);
  }
  __syncthreads();
  const int total = before[kBallots];
  for (int j = static_cast<int>(threadIdx.x); j < total; j += kThreads) {
    const int64_t begin = first + heads[j];
    int64_t end;
    if (j + 1 < total)
      end = first + heads[j + 1];
    else if (tail < kThreads && keys[begin] == last)
      end = min(first + kTile + tail, count);
    else
      end = end_of_run(keys, begin, count);  // a longer one, or dropped items follow
    const bool is_long = end - begin > kChunk;
    const uint32_t place = keys[begin];
    list[base + j] = {static_cast<uint32_t>(begin),
                      is_long ? 0 : static_cast<uint32_t>(end - begin), place};
    if (is_long)
      add_long(begin, end - begin, offset_of_place(p, static_cast<int64_t>(place)), longs, counts);
  }
}

// Positions become the offsets of their sources.
template <class U>
__global__ void replace_positions(const __grid_constant__ Problem p, U* items) {
  const int64_t count = p.outer_count * p.item_count;
  for (int64_t i = global_thread(); i < count; i += grid_threads())
    items[i] = static_cast<U>(p.src_table[items[i]]);
}

// Without an index every place has the same number of items, one after another.
__global__ void list_equal(const __grid_constant__ Problem p, Segment* shorts, LongSegment* longs,
                           SegmentCounts* counts) {
  const int64_t items = p.item_count, chunks = (items + kChunk - 1) / kChunk;
  for (int64_t i = global_thread(); i < p.outer_count; i += grid_threads()) {
    const int64_t dst = decode_dst(p, i * items);
    if (chunks > 1)
      longs[i] = {i * items, dst, items, i * chunks};
    else
      shorts[i] = {i * items, dst, static_cast<int32_t>(items)};
  }
  if (global_thread() != 0) return;
  const unsigned long long places = static_cast<unsigned long long>(p.outer_count);
  counts->shorts = chunks > 1 ? 0 : places;
  counts->longs = chunks > 1 ? (places << kChunkBits) + places * chunks : 0;
}

// Offsets that may be negative, or do not fit 32 bits, need 64 bits.
bool source_fits_32_bits(const Problem& p) {
  if (p.materialised) return false;
  int64_t most = 0;
  for (int i = 0; i < p.walk.rank; ++i) {
    const WalkAxis& axis = p.walk.axis[i];
    if (axis.stride[1] < 0) return false;
    most += axis.stride[1] * (axis.size - 1);
  }
  for (int k = p.dst_keys; k < p.dst_keys + p.src_keys; ++k) {
    if (p.keys[k].scale < 0) return false;
    most += p.keys[k].scale * (p.keys[k].extent > 0 ? p.keys[k].extent - 1 : 0);
  }
  return most < UINT32_MAX;
}

bool needs_64_bits(const Problem& p) {
  return p.positions() >= UINT32_MAX || p.places >= UINT32_MAX || !source_fits_32_bits(p);
}

// Whether positions are in order as they are: nothing indexed, nothing that might be left out.
bool is_ordered(const Problem& p) {
  return p.dst_keys == 0 &&
         (p.src_keys == 0 || p.bounds == Bounds::clip || p.bounds == Bounds::promise);
}

// Of the largest key; dropped ones have one more.
int key_bits(const Problem& p) {
  const int64_t largest = p.places - (p.bounds == Bounds::drop ? 0 : 1);
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) <= largest) ++bits;
  return bits;
}

// Rows that a warp has enough to do with, of the types that are folded so.
bool has_long_rows(const Problem& p) {
  return !is_whole(p.dtype) && p.src != nullptr && !p.materialised && !needs_64_bits(p) &&
         p.row * p.width >= 96 && row_alignment(p) >= 4;
}

struct Lists {
  Segment* shorts;
  Head* heads;
  LongSegment* longs;
  SegmentCounts* counts;
};

Lists carve_lists(Carver& carver, const Segments& bounds) {
  Lists lists;
  lists.counts = carver.take<SegmentCounts>(1);
  lists.shorts = carver.take<Segment>(bounds.runs || bounds.long_rows ? 0 : bounds.most_shorts);
  lists.heads = carver.take<Head>(bounds.long_rows ? bounds.most_shorts : 0);
  lists.longs = carver.take<LongSegment>(bounds.most_longs);
  return lists;
}

template <class U>
void carve_sort(Carver& carver, const Problem& p, U* (&keys)[2], U* (&values)[2]) {
  for (int i = 0; i < 2; ++i) {
    keys[i] = carver.take<U>(p.positions());
    values[i] = carver.take<U>(p.positions());
  }
}

Carry carried(const Problem& p) {
  if (has_payload(p)) return Carry::value;
  return p.reduce == Reduce::assign || p.materialised ? Carry::position : Carry::offset;
}

// Whether rows are found from their positions by one multiplication: nothing has to be written for
// a held order.
bool counts_positions(const Problem& p, const Segments& bounds) {
  return bounds.long_rows && p.outer_count == 1 && p.walk.rank == 1 && p.src_keys == 0 &&
         p.walk.axis[0].stride[1] * p.width < UINT32_MAX;
}

// The places that were listed when the order was made.
void take_lists(const IndexOrder& held, Segments& out) {
  static_assert(kHeadItems == kChunk && sizeof(SegmentCounts) == sizeof(Head));
  out.keys = held.device_keys;
  out.items = held.device_positions;
  out.counts = reinterpret_cast<const SegmentCounts*>(held.device_heads);
  out.heads = reinterpret_cast<const Head*>(held.device_heads) + 1;
  out.most_shorts = held.device_places;
  out.most_longs = out.most_chunks = 0;
}

template <class U>
void sort_into(const Launch& launch, const SegmentLayout& layout, Carver& carver,
               const Lists& lists, Segments& out) {
  const Problem& p = launch.problem;
  U* keys[2];
  U* values[2];
  const int64_t count = p.positions();
  const int blocks = blocks_for(count, 4 * kThreads, 32 * launch.device.processors);
  const IndexOrder* held = layout.ordering == Ordering::held ? launch.transfer.order : nullptr;
  if (held != nullptr && counts_positions(p, out)) {  // all of it is only read
    keys[0] = reinterpret_cast<U*>(const_cast<uint32_t*>(held->device_keys));
    values[0] = reinterpret_cast<U*>(const_cast<uint32_t*>(held->device_positions));
    out.item_bytes = static_cast<uint32_t>(p.walk.axis[0].stride[1] * p.width);
    if (held->device_heads != nullptr && p.reduce != Reduce::assign) return take_lists(*held, out);
  } else if (held != nullptr) {
    keys[0] = reinterpret_cast<U*>(const_cast<uint32_t*>(held->device_keys));
    values[0] = carver.take<U>(count);
    take_held<<<blocks, kThreads, 0, launch.stream>>>(p, carried(p), held->device_keys,
                                                      held->device_positions,
                                                      reinterpret_cast<uint32_t*>(values[0]));
  } else {
    carve_sort<U>(carver, p, keys, values);
    char* scratch = carver.take<char>(static_cast<int64_t>(layout.sort_bytes));
    if (sizeof(U) == 4 && is_plain(p) && carried(p) != Carry::value) {
      make_items<U, true>
          <<<std::min(blocks, 8 * launch.device.processors), kThreads, 0, launch.stream>>>(
              p, carried(p), keys[0], values[0], launch.flag);
    } else {
      make_items<U, false>
          <<<blocks, kThreads, 0, launch.stream>>>(p, carried(p), keys[0], values[0], launch.flag);
    }
    sort_pairs<U>(keys, values, count, key_bits(p), scratch, layout.sort_bytes, launch.stream);
  }
  out.keys = keys[0];
  out.items = values[0];
  if (p.reduce == Reduce::assign) return;  // the last of each run is seen without a list
  check(cudaMemsetAsync(lists.counts, 0, sizeof(SegmentCounts), launch.stream), "segments");
  if (out.runs) return;
  if (out.long_rows) {
    if constexpr (sizeof(U) == 4) {
      list_heads<<<blocks_for(count, kTile), kThreads, 0, launch.stream>>>(
          p, keys[0], count, lists.heads, lists.longs, lists.counts);
    }
    return;
  }
  list_segments<U><<<blocks_for(count, kTile), kThreads, 0, launch.stream>>>(
      p, keys[0], values[0], count, lists.shorts, lists.longs, lists.counts);
  if (p.materialised)
    replace_positions<U>
        <<<blocks_for(count, kThreads, 4096), kThreads, 0, launch.stream>>>(p, values[0]);
}

template <class U>
void list_in_order(const Launch& launch, Carver& carver, const Lists& lists, Segments& out) {
  const Problem& p = launch.problem;
  U* items = carver.take<U>(p.positions());
  const int blocks = blocks_for(p.positions(), 4 * kThreads, 32 * launch.device.processors);
  make_items<U, false>
      <<<blocks, kThreads, 0, launch.stream>>>(p, Carry::offset, nullptr, items, launch.flag);
  list_equal<<<blocks_for(p.outer_count, kThreads, 4096), kThreads, 0, launch.stream>>>(
      p, lists.shorts, lists.longs, lists.counts);
  out.items = items;
}

}  // namespace

const IndexOrder* held_order(const Transfer& t, const Canonical& canonical) {
  const IndexOrder* order = t.order;
  if (order == nullptr || order->device_keys == nullptr || t.dst_index.size() != 1 ||
      !t.src_index.empty())
    return nullptr;
  const IndexOperand& index = t.dst_index[0];
  if (index.extent != order->size || !order->serves(t.bounds) ||
      canonical.item_count != order->count)
    return nullptr;
  for (const Axis& axis : canonical.outer) {
    if (axis.index[0] != 0) return nullptr;
  }
  int64_t run = 1;
  for (size_t i = canonical.items.size(); i-- > 0;) {
    if (canonical.items[i].index[0] != run) return nullptr;
    run *= canonical.items[i].size;
  }
  return fits_problem(t, canonical) ? order : nullptr;
}

bool has_payload(const Problem& p) {
  return p.columns() == 1 && p.width <= 4 && p.src != nullptr && !p.materialised &&
         !is_ordered(p) && !needs_64_bits(p);
}

namespace {

Segments segment_bounds(const Problem& p) {
  Segments bounds;
  bounds.is_64_bit = needs_64_bits(p);
  bounds.payload = has_payload(p);
  // 2^26 values: runs of 4 take 1.9 ms so and 2.2 by a list, runs of 16 2.7 and 1.6 (H200,
  // 2026-11-15).
  bounds.runs = bounds.payload && p.positions() <= 8 * p.places;
  const int64_t positions = p.positions();
  if (is_ordered(p)) {
    const bool is_long = p.item_count > kChunk;
    bounds.most_shorts = is_long ? 0 : p.outer_count;
    bounds.most_longs = is_long ? p.outer_count : 0;
    bounds.most_chunks = is_long ? p.outer_count * ((p.item_count + kChunk - 1) / kChunk) : 0;
    return bounds;
  }
  bounds.long_rows = has_long_rows(p);
  bounds.item_bytes = static_cast<uint32_t>(p.width);
  bounds.most_shorts = std::min(positions, p.places);
  bounds.most_longs = positions / (kChunk + 1);
  bounds.most_chunks = positions / kChunk + bounds.most_longs;
  return bounds;
}

template <class U>
void measure_sort(Carver& carver, const Problem& p, SegmentLayout& layout) {
  U *keys[2], *values[2];
  carve_sort<U>(carver, p, keys, values);
  layout.sort_bytes = sort_workspace<U>(p.positions(), key_bits(p));
  carver.take<char>(static_cast<int64_t>(layout.sort_bytes));
}

}  // namespace

SegmentLayout lay_out_segments(const Case& c) {
  const Problem& p = c.problem;
  SegmentLayout layout;
  layout.bounds = segment_bounds(p);
  const bool is_64_bit = layout.bounds.is_64_bit;
  Carver carver(nullptr);
  carve_lists(carver, layout.bounds);
  if (is_ordered(p)) {
    layout.ordering = Ordering::as_is;
    carver.take<char>(p.positions() * (is_64_bit ? 8 : 4));
  } else if (is_64_bit) {
    measure_sort<uint64_t>(carver, p, layout);
  } else if (held_order(c.transfer, c.canonical) != nullptr) {
    layout.ordering = Ordering::held;
    carver.take<uint32_t>(p.positions());
  } else if (layout.bounds.long_rows && can_group(p)) {
    layout.ordering = Ordering::group;
    layout.sort_bytes = group_workspace(p);
    carver.take<char>(static_cast<int64_t>(layout.sort_bytes));
  } else {
    measure_sort<uint32_t>(carver, p, layout);
  }
  layout.workspace = carver.used();
  return layout;
}

Segments make_segments(const Launch& launch, const SegmentLayout& layout, char* workspace) {
  Segments out = layout.bounds;
  Carver carver(workspace);
  const Lists lists = carve_lists(carver, out);
  out.shorts = lists.shorts;
  out.heads = lists.heads;
  out.longs = lists.longs;
  out.counts = lists.counts;
  if (layout.ordering == Ordering::as_is) {
    if (out.is_64_bit)
      list_in_order<uint64_t>(launch, carver, lists, out);
    else
      list_in_order<uint32_t>(launch, carver, lists, out);
  } else if (layout.ordering == Ordering::group) {
    check(cudaMemsetAsync(lists.counts, 0, sizeof(SegmentCounts), launch.stream), "segments");
    char* memory = carver.take<char>(static_cast<int64_t>(layout.sort_bytes));
    out.items = group_items(launch, memory, lists.heads, lists.longs, lists.counts);
  } else if (out.is_64_bit) {
    sort_into<uint64_t>(launch, layout, carver, lists, out);
  } else {
    sort_into<uint32_t>(launch, layout, carver, lists, out);
  }
  check_launch("segments");
  return out;
}

}  // namespace sow::detail::cuda
