// Exact sums of single elements into very many places: updates are dealt out to buckets of neighbouring
// places, in any order, and every bucket is summed in windows in shared memory.
#include "cuda/limbs.cuh"
#include "cuda/strategies.h"

namespace sow::detail::cuda {

namespace {

constexpr int kDealThreads = 512, kDealItems = 16, kTile = kDealThreads * kDealItems;
constexpr int kFoldThreads = 1024;
constexpr int kCellBits = 14;  // of a bucket's places: 128 KiB of windows
constexpr int kMostBuckets = 4096;
constexpr int64_t kPieceUpdates = 1 << 17;  // of a bucket that several blocks share

struct DealArgs {
  LimbArgs limbs;
  int buckets;
  int64_t updates;
  uint32_t* counts;   // of a bucket's updates
  uint32_t* starts;   // where they begin; one more than buckets
  uint32_t* cursors;  // where its next tile goes
  uint32_t* pieces;   // the first piece of a bucket; one more than buckets
  uint16_t* local;    // dealt: the place within its bucket
  char* values;       // and what is added there
  int dense_cells;    // whose limbs fit shared memory together
};

__device__ inline int64_t key_at(const Problem& p, int64_t position) {
  const int64_t at = position * p.walk.axis[0].stride[2];
  if (p.keys[0].narrow) return __ldcs(reinterpret_cast<const int32_t*>(p.keys[0].data) + at);
  return __ldcs(reinterpret_cast<const long long*>(p.keys[0].data) + at);
}

// Counts the updates of each bucket, and sees to it that every key is good.
__global__ void __launch_bounds__(kDealThreads) count_buckets(const __grid_constant__ DealArgs d) {
  constexpr int kUnroll = 8;
  __shared__ uint32_t counts[kMostBuckets];
  for (int i = static_cast<int>(threadIdx.x); i < d.buckets; i += kDealThreads) counts[i] = 0;
  __syncthreads();
  const Problem& p = d.limbs.p;
  bool bad = false;
  for (int64_t first = global_thread(); first < d.updates; first += kUnroll * grid_threads()) {
    int64_t key[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) key[u] = key_at(p, min(first + u * grid_threads(), d.updates - 1));
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u * grid_threads() < d.updates && is_kept(key[u], p, bad)) atomicAdd(counts + (key[u] >> kCellBits), 1u);
    }
  }
  if (bad) mark_bad(d.limbs.flag);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < d.buckets; i += kDealThreads) {
    if (counts[i] != 0) atomicAdd(d.counts + i, counts[i]);
  }
}

__device__ inline uint32_t pieces_of(uint32_t updates) {
  return static_cast<uint32_t>((updates + kPieceUpdates - 1) / kPieceUpdates);
}

// Where buckets and their pieces begin: one block, a run of buckets a thread.
__global__ void __launch_bounds__(kFoldThreads) place_buckets(const __grid_constant__ DealArgs d) {
  __shared__ uint32_t updates[kFoldThreads], pieces[kFoldThreads];
  const int me = static_cast<int>(threadIdx.x), each = (d.buckets + kFoldThreads - 1) / kFoldThreads;
  const int first = min(me * each, d.buckets), last = min(first + each, d.buckets);
  uint32_t count = 0, piece = 0;
  for (int i = first; i < last; ++i) {
    count += d.counts[i];
    piece += pieces_of(d.counts[i]);
  }
  updates[me] = count;
  pieces[me] = piece;
  __syncthreads();
  for (int step = 1; step < kFoldThreads; step *= 2) {
    const uint32_t more = me >= step ? updates[me - step] : 0, more_pieces = me >= step ? pieces[me - step] : 0;
    __syncthreads();
    updates[me] += more;
    pieces[me] += more_pieces;
    __syncthreads();
  }
  count = updates[me] - count;
  piece = pieces[me] - piece;
  for (int i = first; i < last; ++i) {
    d.starts[i] = d.cursors[i] = count;
    d.pieces[i] = piece;
    count += d.counts[i];
    piece += pieces_of(d.counts[i]);
  }
  if (me != kFoldThreads - 1) return;
  d.starts[d.buckets] = updates[me];
  d.pieces[d.buckets] = pieces[me];
}

// The exclusive prefix sums of counts[0, buckets), in place, by a block.
__device__ inline void scan_counts(uint32_t* counts, int buckets, uint32_t* sums) {
  const int me = static_cast<int>(threadIdx.x), each = (buckets + kDealThreads - 1) / kDealThreads;
  const int first = min(me * each, buckets), last = min(first + each, buckets);
  uint32_t mine = 0;
  for (int i = first; i < last; ++i) mine += counts[i];
  uint32_t sum = mine;
  const int lane = me % 32;
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t more = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += more;
  }
  if (lane == 31) sums[me / 32] = sum;
  __syncthreads();
  uint32_t before = sum - mine;
  for (int warp = 0; warp < me / 32; ++warp) before += sums[warp];
  for (int i = first; i < last; ++i) {
    const uint32_t count = counts[i];
    counts[i] = before;
    before += count;
  }
  __syncthreads();
}

// A tile of updates a block, sorted by bucket in shared memory and written there run by run.
template <class T>
__global__ void __launch_bounds__(kDealThreads, 3) deal(const __grid_constant__ DealArgs d) {
  using Word = WordOf<static_cast<int>(sizeof(T))>;
  extern __shared__ uint32_t memory[];
  __shared__ uint32_t sums[kDealThreads / 32];
  uint32_t *cursors = memory, *bases = memory + d.buckets;
  uint32_t* places = bases + d.buckets;
  T* values = reinterpret_cast<T*>(places + kTile);
  const Problem& p = d.limbs.p;
  if (is_bad(d.limbs.flag)) return;
  for (int i = static_cast<int>(threadIdx.x); i < d.buckets; i += kDealThreads) cursors[i] = 0;
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  uint32_t cell[kDealItems];
#pragma unroll
  for (int u = 0; u < kDealItems; ++u) {
    const int64_t at = first + u * kDealThreads;
    bool bad = false;
    int64_t key = at < d.updates ? key_at(p, at) : -1;
    cell[u] = at < d.updates && is_kept(key, p, bad) ? static_cast<uint32_t>(key) : ~0u;
  }
#pragma unroll
  for (int u = 0; u < kDealItems; ++u) {
    if (cell[u] != ~0u) atomicAdd(cursors + (cell[u] >> kCellBits), 1u);
  }
  __syncthreads();
  // A run's place among the dealt ones, less its place in the tile.
  for (int i = static_cast<int>(threadIdx.x); i < d.buckets; i += kDealThreads) {
    bases[i] = cursors[i] != 0 ? atomicAdd(d.cursors + i, cursors[i]) : 0;
  }
  __syncthreads();
  scan_counts(cursors, d.buckets, sums);
  for (int i = static_cast<int>(threadIdx.x); i < d.buckets; i += kDealThreads) bases[i] -= cursors[i];
  __syncthreads();
  constexpr int kAtOnce = 8;
#pragma unroll
  for (int part = 0; part < kDealItems; part += kAtOnce) {
    T value[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int64_t at = min(first + (part + u) * kDealThreads, d.updates - 1);
      if (p.src == nullptr) value[u] = *reinterpret_cast<const T*>(p.scalar);
      else value[u] = bit_cast<T>(__ldcs(reinterpret_cast<const Word*>(p.src) + at * p.walk.axis[0].stride[1]));
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const uint32_t place = cell[part + u];
      if (place == ~0u) continue;
      const uint32_t at = atomicAdd(cursors + (place >> kCellBits), 1u);
      values[at] = p.negate ? flip_sign(value[u]) : value[u];
      places[at] = place;
    }
  }
  __syncthreads();
  const uint32_t count = cursors[d.buckets - 1];  // the last run's end
  for (uint32_t at = threadIdx.x; at < count; at += kDealThreads) {
    const uint32_t place = places[at], to = bases[place >> kCellBits] + at;
    reinterpret_cast<T*>(d.values)[to] = values[at];
    d.local[to] = static_cast<uint16_t>(place & ((1u << kCellBits) - 1));
  }
}

// A piece of a bucket a block: windows in shared memory, as low and high words.
template <class T>
__global__ void __launch_bounds__(kFoldThreads) fold_buckets(const __grid_constant__ DealArgs d) {
  constexpr int kUnroll = 8;
  extern __shared__ uint32_t memory[];
  const LimbArgs& a = d.limbs;
  if (is_bad(a.flag) || blockIdx.x >= d.pieces[d.buckets]) return;
  int bucket = 0;  // the last one whose first piece is not beyond this
  for (int step = kMostBuckets / 2; step > 0; step /= 2) {
    if (bucket + step < d.buckets && d.pieces[bucket + step] <= blockIdx.x) bucket += step;
  }
  while (bucket + 1 < d.buckets && d.pieces[bucket + 1] <= blockIdx.x) ++bucket;
  const int cells = static_cast<int>(min(int64_t{1} << kCellBits, a.cells - (static_cast<int64_t>(bucket) << kCellBits)));
  uint32_t *low = memory, *high = memory + cells;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * cells; i += kFoldThreads) memory[i] = 0;
  __syncthreads();
  const int64_t base = static_cast<int64_t>(bucket) << kCellBits;
  const int64_t begin = d.starts[bucket] + (blockIdx.x - d.pieces[bucket]) * kPieceUpdates;
  const int64_t end = min(begin + kPieceUpdates, static_cast<int64_t>(d.starts[bucket + 1]));
  const int first = a.head->first, binades = a.binades;
  const T* values = reinterpret_cast<const T*>(d.values);
  bool full = false;
  for (int64_t from = begin + threadIdx.x; from < end; from += kUnroll * kFoldThreads) {
    int cell[kUnroll];
    T value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) cell[u] = d.local[min(from + u * kFoldThreads, end - 1)];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) value[u] = values[min(from + u * kFoldThreads, end - 1)];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      int64_t amount;
      if (from + u * kFoldThreads >= end || full) continue;
      if (!window_amount(value[u], first, binades, amount)) {
        full = !note_outlier(a, base + cell[u], value[u]);
        continue;
      }
      const uint32_t word = static_cast<uint32_t>(amount), before = atomicAdd(low + cell[u], word);
      const uint32_t rest = static_cast<uint32_t>(amount >> 32) + (before + word < before ? 1 : 0);
      if (rest != 0) atomicAdd(high + cell[u], rest);
    }
  }
  __syncthreads();
  const bool alone = d.pieces[bucket + 1] - d.pieces[bucket] == 1;
  for (int i = static_cast<int>(threadIdx.x); i < cells; i += kFoldThreads) {
    const unsigned long long sum = static_cast<unsigned long long>(high[i]) << 32 | low[i];
    if (alone) a.windows[base + i] = sum;
    else if (sum != 0) atomicAdd(a.windows + base + i, sum);
  }
}

// Too many outliers: every bucket is walked once for as many of its places as have room for limbs. Few
// updates of a walk are wanted, so warps put them together before they add.
template <class T>
__global__ void __launch_bounds__(kFoldThreads) fold_dense(const __grid_constant__ DealArgs d) {
  constexpr int kUnroll = 8;
  extern __shared__ uint32_t memory[];
  __shared__ uint16_t waiting_cells[kFoldThreads / 32][64];
  __shared__ T waiting_values[kFoldThreads / 32][64];
  const LimbArgs& a = d.limbs;
  if (is_bad(a.flag) || !is_dense(a)) return;
  LimbArgs own = a;  // with the rows of this block
  own.limbs_at = reinterpret_cast<unsigned long long*>(memory);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int bucket = static_cast<int>(blockIdx.x); bucket < d.buckets; bucket += static_cast<int>(gridDim.x)) {
    const int64_t bucket_base = static_cast<int64_t>(bucket) << kCellBits;
    const int cells = static_cast<int>(min(int64_t{1} << kCellBits, a.cells - bucket_base));
    for (int part = 0; part < cells; part += d.dense_cells) {
      const int count = min(d.dense_cells, cells - part);
      const int64_t base = bucket_base + part;
      own.rows = count;
      for (int i = static_cast<int>(threadIdx.x); i < count * a.limbs; i += kFoldThreads) own.limbs_at[i] = 0;
      __syncthreads();
      int waiting = 0;
      const auto add = [&](int at) {
        const T value = waiting_values[warp][at];
        const Term<T> term(value);
        const int cell = waiting_cells[warp][at];
        if (term.magnitude() != 0 && term.finite()) add_to_limbs(a, own.limbs_at, count, cell, value);
        else note_outlier(a, base + cell, value);
      };
      const int64_t end = d.starts[bucket + 1];
      for (int64_t from = d.starts[bucket] + warp * 32; from < end; from += kUnroll * kFoldThreads) {
        int cell[kUnroll];
        T value[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const int64_t at = from + u * kFoldThreads + lane;
          cell[u] = at < end ? d.local[at] - part : -1;
          if (at < end) value[u] = reinterpret_cast<const T*>(d.values)[at];
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
          const bool wanted = static_cast<unsigned>(cell[u]) < static_cast<unsigned>(count);
          const unsigned all = __ballot_sync(~0u, wanted);
          if (wanted) {
            const int at = waiting + __popc(all & ((1u << lane) - 1));
            waiting_cells[warp][at] = static_cast<uint16_t>(cell[u]);
            waiting_values[warp][at] = value[u];
          }
          waiting += __popc(all);
          __syncwarp();
          if (waiting < 32) continue;
          waiting -= 32;
          add(waiting + lane);
          __syncwarp();
        }
      }
      if (lane < waiting) add(lane);
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kFoldThreads) {
        const int64_t row = dense_row(own, i);
        if (row >= 0) a.flags[base + i] |= kWritten;
        if (!finish_cell<T>(own, base + i, 0, row, false)) a.head->ambiguous = 1;
      }
      __syncthreads();
    }
  }
}

bool is_simple_problem(const Problem& p) {
  return !p.spelled && p.outer_count == 1 && p.columns() == 1 && p.walk.rank == 1 && p.dst_keys == 1 && p.src_keys == 0;
}

bool supports(const Case& c) {
  const Problem& p = c.problem;
  const bool narrow = p.dtype == DType::float16 || p.dtype == DType::bfloat16 || p.dtype == DType::float32;
  if (c.transfer.mask_side != MaskSide::none || c.transfer.dst_index.empty() || p.reduce != Reduce::add || !narrow) return false;
  const int64_t cells = cell_count(p);
  return fits_problem(c.transfer, c.canonical) && is_simple_problem(p) && p.positions() < (int64_t{1} << 31) &&
         cells > 0 && (cells >> kCellBits) < kMostBuckets && c.device.shared_bytes >= (144 << 10);
}

double cost(const Case& c) {
  const double updates = static_cast<double>(c.problem.positions()), cells = static_cast<double>(cell_count(c.problem));
  return 14 * kLaunchNs + kCheckedCallNs + cells * 40 / kBytesPerNs + updates * 0.015;
}

DealArgs args_of(const Case& c) {
  DealArgs d = {};
  d.limbs = limb_args(c.problem);
  d.limbs.dense_elsewhere = true;
  d.buckets = static_cast<int>((d.limbs.cells + (int64_t{1} << kCellBits) - 1) >> kCellBits);
  d.updates = c.problem.positions();
  d.dense_cells = static_cast<int>((c.device.shared_bytes - (20 << 10)) / (8 * d.limbs.limbs));
  return d;
}

// Returns how many bytes have to be zero at first.
size_t carve(Carver& carver, DealArgs& d) {
  d.counts = carver.take<uint32_t>(d.buckets);
  const size_t zero = carve_limbs(carver, d.limbs);
  d.starts = carver.take<uint32_t>(d.buckets + 1);
  d.cursors = carver.take<uint32_t>(d.buckets);
  d.pieces = carver.take<uint32_t>(d.buckets + 1);
  d.local = carver.take<uint16_t>(d.updates);
  d.values = carver.take<char>(d.updates * d.limbs.p.width);
  return zero;
}

size_t workspace(const Case& c) {
  Carver carver(nullptr);
  DealArgs d = args_of(c);
  carve(carver, d);
  return carver.used();
}

template <class Kernel>
void allow_shared(Kernel kernel, size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), "partition");
}

template <class T>
void run_as(const Launch& launch, const DealArgs& d) {
  const size_t dealt = static_cast<size_t>(d.buckets) * 8 + kTile * (sizeof(T) + 4);
  const size_t folded = std::min<size_t>(size_t{8} << kCellBits, static_cast<size_t>(d.limbs.cells) * 8);
  const size_t dense = static_cast<size_t>(d.dense_cells) * d.limbs.limbs * 8;
  allow_shared(deal<T>, dealt);
  allow_shared(fold_buckets<T>, folded);
  allow_shared(fold_dense<T>, dense);
  const auto buckets = static_cast<unsigned>(d.buckets);
  const auto pieces = buckets + static_cast<unsigned>(d.updates / kPieceUpdates);
  choose_window<T><<<1, kSampleThreads, 0, launch.stream>>>(d.limbs);
  count_buckets<<<blocks_for(d.updates, 8 * kDealThreads, 4 * launch.device.processors), kDealThreads, 0, launch.stream>>>(d);
  place_buckets<<<1, kFoldThreads, 0, launch.stream>>>(d);
  deal<T><<<blocks_for(d.updates, kTile), kDealThreads, dealt, launch.stream>>>(d);
  fold_buckets<T><<<pieces, kFoldThreads, folded, launch.stream>>>(d);
  fold_dense<T><<<blocks_for(d.buckets, 1, launch.device.processors), kFoldThreads, dense, launch.stream>>>(d);
  finish_sums<T>(launch, d.limbs);
}

void run(const Launch& launch) {
  DealArgs d = args_of(launch.problem_case);
  d.limbs.p = launch.problem;
  d.limbs.flag = launch.flag;
  Carver carver(launch.workspace);
  const size_t zero = carve(carver, d);
  check(cudaMemsetAsync(launch.workspace, 0, zero, launch.stream), "partition");
  switch (d.limbs.p.dtype) {
    case DType::float16: return run_as<float16>(launch, d);
    case DType::bfloat16: return run_as<bfloat16>(launch, d);
    default: return run_as<float>(launch, d);
  }
}

}  // namespace

const Strategy kPartition = {"partition", "updates dealt out to buckets of places, exact sums in windows in shared memory",
                             supports, cost, workspace, run};

}  // namespace sow::detail::cuda
