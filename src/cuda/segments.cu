// Groups positions by place: keys, a stable sort, and the list of segments.
#include "cuda/segments.h"

#include "cuda/decode.cuh"
#include "cuda/sort.h"

namespace sow::detail::cuda {

namespace {

constexpr int kPerThread = 8;
constexpr int kTile = kThreads * kPerThread;

// Dropped and bad positions go to the end, behind every place.
template <class U>
__global__ void make_keys(const __grid_constant__ Problem p, U* keys, U* values, Flag* flag) {
  const int64_t count = p.outer_count * p.item_count;
  for (int64_t i = global_thread(); i < count; i += grid_threads()) {
    bool bad = false;
    const Item item = decode(p, i, bad);
    if (bad) mark_bad(flag);
    keys[i] = static_cast<U>(item.place < 0 ? p.places : item.place);
    values[i] = static_cast<U>(i);
  }
}

// The first index after `at` whose key differs, by galloping: most segments are short.
template <class U>
__device__ int64_t end_of_run(const U* keys, int64_t at, int64_t count) {
  const U key = keys[at];
  int64_t low = at, step = 1;  // keys[low] == key
  while (low + step < count && keys[low + step] == key) {
    low += step;
    step *= 2;
  }
  int64_t high = min(low + step, count);  // keys[high] != key, or the end
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (keys[middle] == key ? low : high) = middle;
  }
  return high;
}

__device__ int scan_counts(int value, int& total) {
  __shared__ int warp_sums[kThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int inclusive = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, inclusive, step);
    if (lane >= step) inclusive += other;
  }
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kThreads / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return before + inclusive - value;
}

__device__ void add_long(int64_t begin, int64_t end, LongSegment* longs, SegmentCounts* counts) {
  const unsigned long long chunks = static_cast<unsigned long long>((end - begin + kChunk - 1) / kChunk);
  // One addition for both numbers, so that the list is in the order of the chunks.
  const unsigned long long before = atomicAdd(&counts->longs, (1ull << kChunkBits) + chunks);
  longs[before >> kChunkBits] = {begin, end, static_cast<int64_t>(before & ((1ull << kChunkBits) - 1))};
}

// The order of the list does not matter: every segment is a place of its own.
template <class U>
__global__ void __launch_bounds__(kThreads) list_segments(const U* keys, int64_t count, int64_t places,
                                                          Segment* shorts, LongSegment* longs,
                                                          SegmentCounts* counts) {
  __shared__ unsigned long long base;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x * kPerThread;
  int64_t end[kPerThread];
  int heads = 0;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t at = first + k;
    end[k] = 0;
    if (at >= count || keys[at] >= static_cast<U>(places) || (at > 0 && keys[at - 1] == keys[at])) continue;
    end[k] = end_of_run(keys, at, count);
    if (end[k] - at > kChunk) {
      add_long(at, end[k], longs, counts);
      end[k] = 0;
    } else {
      ++heads;
    }
  }
  int total = 0;
  const int before = scan_counts(heads, total);
  if (threadIdx.x == 0) base = atomicAdd(&counts->shorts, static_cast<unsigned long long>(total));
  __syncthreads();
  unsigned long long slot = base + before;
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    if (end[k] != 0) shorts[slot++] = {first + k, end[k]};
  }
}

// Without an index every place has the same number of positions, one after another.
__global__ void list_equal(int64_t places, int64_t items, Segment* shorts, LongSegment* longs, SegmentCounts* counts) {
  const int64_t chunks = (items + kChunk - 1) / kChunk;
  for (int64_t i = global_thread(); i < places; i += grid_threads()) {
    if (chunks > 1) longs[i] = {i * items, (i + 1) * items, i * chunks};
    else shorts[i] = {i * items, (i + 1) * items};
  }
  if (global_thread() != 0) return;
  counts->shorts = chunks > 1 ? 0 : static_cast<unsigned long long>(places);
  counts->longs = chunks > 1 ? (static_cast<unsigned long long>(places) << kChunkBits) + places * chunks : 0;
}

bool is_wide(const Problem& p) { return p.positions() >= UINT32_MAX || p.places >= UINT32_MAX; }

// Whether positions are in order as they are: nothing indexed, nothing that might be left out.
bool is_ordered(const Problem& p) {
  return p.dst_keys == 0 && (p.src_keys == 0 || p.bounds == Bounds::clip || p.bounds == Bounds::promise);
}

int bits_for(int64_t places) {
  int bits = 1;
  while (bits < 63 && (int64_t{1} << bits) <= places) ++bits;
  return bits;
}

struct Lists {
  Segment* shorts;
  LongSegment* longs;
  SegmentCounts* counts;
};

Lists carve_lists(Carver& carver, const Segments& bounds) {
  Lists lists;
  lists.counts = carver.take<SegmentCounts>(1);
  lists.shorts = carver.take<Segment>(bounds.most_shorts);
  lists.longs = carver.take<LongSegment>(bounds.most_longs);
  return lists;
}

template <class U>
size_t carve_sort(Carver& carver, const Problem& p, U* (&keys)[2], U* (&values)[2], char*& scratch) {
  for (int i = 0; i < 2; ++i) {
    keys[i] = carver.take<U>(p.positions());
    values[i] = carver.take<U>(p.positions());
  }
  const size_t bytes = sort_workspace<U>(p.positions(), bits_for(p.places));
  scratch = carver.take<char>(static_cast<int64_t>(bytes));
  return bytes;
}

template <class U>
void sort_into(const Launch& launch, Carver& carver, const Lists& lists, Segments& out) {
  const Problem& p = launch.problem;
  U* keys[2];
  U* values[2];
  char* scratch;
  const int64_t count = p.positions();
  const size_t bytes = carve_sort<U>(carver, p, keys, values, scratch);
  make_keys<U><<<blocks_for(count, kThreads, 32 * launch.device.processors), kThreads, 0, launch.stream>>>(
      p, keys[0], values[0], launch.flag);
  sort_pairs<U>(keys, values, count, bits_for(p.places), scratch, bytes, launch.stream);
  check(cudaMemsetAsync(lists.counts, 0, sizeof(SegmentCounts), launch.stream), "segments");
  list_segments<U><<<blocks_for(count, kTile), kThreads, 0, launch.stream>>>(keys[0], count, p.places, lists.shorts,
                                                                             lists.longs, lists.counts);
  out.order = values[0];
}

}  // namespace

Segments segment_bounds(const Problem& p) {
  Segments bounds;
  const int64_t positions = p.positions();
  if (is_ordered(p)) {
    const bool is_long = p.item_count > kChunk;
    bounds.most_shorts = is_long ? 0 : p.outer_count;
    bounds.most_longs = is_long ? p.outer_count : 0;
    bounds.most_chunks = is_long ? p.outer_count * ((p.item_count + kChunk - 1) / kChunk) : 0;
    return bounds;
  }
  bounds.wide = is_wide(p);
  bounds.most_shorts = std::min(positions, p.places);
  bounds.most_longs = positions / (kChunk + 1);
  bounds.most_chunks = positions / kChunk + bounds.most_longs;
  return bounds;
}

size_t segments_workspace(const Case& c) {
  Carver carver(nullptr);
  carve_lists(carver, segment_bounds(c.problem));
  if (is_ordered(c.problem)) return carver.used();
  char* scratch;
  if (is_wide(c.problem)) {
    uint64_t *keys[2], *values[2];
    carve_sort<uint64_t>(carver, c.problem, keys, values, scratch);
  } else {
    uint32_t *keys[2], *values[2];
    carve_sort<uint32_t>(carver, c.problem, keys, values, scratch);
  }
  return carver.used();
}

Segments make_segments(const Launch& launch, char* workspace) {
  const Problem& p = launch.problem;
  Segments out = segment_bounds(p);
  Carver carver(workspace);
  const Lists lists = carve_lists(carver, out);
  out.shorts = lists.shorts;
  out.longs = lists.longs;
  out.counts = lists.counts;
  if (is_ordered(p)) {
    list_equal<<<blocks_for(p.outer_count, kThreads, 4096), kThreads, 0, launch.stream>>>(
        p.outer_count, p.item_count, lists.shorts, lists.longs, lists.counts);
  } else if (out.wide) {
    sort_into<uint64_t>(launch, carver, lists, out);
  } else {
    sort_into<uint32_t>(launch, carver, lists, out);
  }
  check_launch("segments");
  return out;
}

}  // namespace sow::detail::cuda
