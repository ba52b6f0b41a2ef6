// SPDX-License-Identifier: Apache-2.0
// Strategy strided_copy: both sides affine, nothing meets. Runs, fills, blocked transposes,
// strides.
#include <array>
#include <cstdlib>
#include <utility>

#include "cpu/common/work_queue.h"
#include "cpu/copy/move_run.h"
#include "cpu/copy/transpose.h"
#include "cpu/strategies.h"
#include "transfer/nested_dims.h"

namespace sow::detail {
namespace {

constexpr int64_t kGrainBytes = 256 << 10;
constexpr int kChunksPerThread = 8;
constexpr int64_t kTile = 64;  // elements along the side that a piece of a transpose is cut at

bool supports(const Transfer& transfer, const Canonical& canonical) {
  return transfer.mask_side == MaskSide::none && transfer.reduce == Reduce::assign &&
         transfer.dst_index.empty() && transfer.src_index.empty() && !transfer.negate &&
         canonical.items.empty();
}

struct Copy {
  Nest<2> nest;  // dst, src
  char* dst;
  const char* src;
  size_t width;
  bool transposed = false;  // then the last two dimensions go through tiles

  int64_t step(int operand) const { return nest.rank() == 0 ? 1 : nest.stride[operand].back(); }
};

// The canonical dimensions, walked upwards through the destination.
void add_axis(Copy& copy, const Axis& axis) {
  int64_t dst = axis.dst;
  int64_t src = axis.src;
  if (dst < 0) {
    const auto width = static_cast<int64_t>(copy.width);
    copy.dst += (axis.size - 1) * dst * width;
    copy.src += (axis.size - 1) * src * width;
    dst = -dst;
    src = -src;
  }
  copy.nest.push(axis.size, {dst, src});
}

// Where the source runs along another dimension than the destination, brings that one beside the
// innermost, so that tiles of both fit the caches.
void find_transpose(Copy& copy) {
  Nest<2>& nest = copy.nest;
  const int last = nest.rank() - 1;
  if (last < 1 || nest.size[last] < 4) return;
  const int64_t inner = std::abs(nest.stride[1][last]);
  int best = -1;
  int64_t smallest = inner;
  for (int d = 0; d < last; ++d) {
    const int64_t stride = std::abs(nest.stride[1][d]);
    if (stride == 0 || stride >= smallest || nest.size[d] < 4) continue;
    smallest = stride;
    best = d;
  }
  if (best < 0) return;
  for (int d = best; d + 1 < last; ++d) {
    std::swap(nest.size[d], nest.size[d + 1]);
    for (Dims& stride : nest.stride) std::swap(stride[d], stride[d + 1]);
  }
  copy.transposed = true;
}

Copy prepare(const Transfer& transfer, const Canonical& canonical) {
  Copy copy;
  copy.dst = transfer.dst.data;
  copy.src = transfer.src.data;
  copy.width = size_of(transfer.dtype);
  if (copy.src == nullptr) copy.src = reinterpret_cast<const char*>(transfer.scalar);
  for (const Axis& axis : canonical.outer) add_axis(copy, axis);
  add_axis(copy, canonical.row);
  find_transpose(copy);
  return copy;
}

// A pattern that fits the first-level cache, streamed again and again.
void fill_streaming(char* dst, const char* value, size_t width, int64_t count) {
  alignas(64) char pattern[4096];
  const auto fits = static_cast<int64_t>(sizeof(pattern) / width);
  move_run(width, pattern, 1, value, 0, std::min(fits, count));
  for (int64_t i = 0; i < count; i += fits) {
    copy_streaming(dst + i * static_cast<int64_t>(width), pattern,
                   static_cast<size_t>(std::min(fits, count - i)) * width);
  }
}

void copy_runs(const Copy& copy, int64_t count, int threads) {
  const auto width = static_cast<int64_t>(copy.width);
  const int64_t dst_step = copy.step(0);
  const int64_t src_step = copy.step(1);
  const bool large = count * width >= kStreamingBytes && dst_step == 1;
  const Chunks chunks{count, choose_chunks(count * width, kGrainBytes, threads, kChunksPerThread),
                      64};
  for_each_chunk(threads, chunks.chunks, [&](int chunk) {
    for_each_run(copy.nest, chunks.begin(chunk), chunks.end(chunk),
                 [&](const auto& at, int64_t inner, int64_t length) {
                   char* dst = copy.dst + (at[0] + inner * dst_step) * width;
                   const char* src = copy.src + (at[1] + inner * src_step) * width;
                   const bool streaming = large && length * width >= 1024;
                   if (streaming && src_step == 1) {
                     copy_streaming(dst, src, static_cast<size_t>(length * width));
                   } else if (streaming && src_step == 0) {
                     fill_streaming(dst, src, copy.width, length);
                   } else {
                     move_run(copy.width, dst, dst_step, src, src_step, length);
                   }
                 });
  });
}

void copy_transposed(const Copy& copy, int64_t count, int threads) {
  const auto width = static_cast<int64_t>(copy.width);
  const Nest<2>& nest = copy.nest;
  const int rank = nest.rank();
  const int64_t rows = nest.size[rank - 2];
  const int64_t batches = (rows + kTile - 1) / kTile;
  const int64_t units = nest.count(0, rank - 2) * batches;
  const int wanted = choose_chunks(count * width, kGrainBytes, threads, kChunksPerThread);
  const Chunks chunks{units, static_cast<int>(std::min<int64_t>(wanted, units))};
  for_each_chunk(threads, chunks.chunks, [&](int chunk) {
    for (int64_t unit = chunks.begin(chunk); unit < chunks.end(chunk); ++unit) {
      const Walk<2> walk(nest, rank - 2, unit / batches);
      const int64_t first = unit % batches * kTile;
      Tiles tiles;
      tiles.rows = std::min(kTile, rows - first);
      tiles.columns = nest.size[rank - 1];
      tiles.dst_row = nest.stride[0][rank - 2];
      tiles.src_row = nest.stride[1][rank - 2];
      tiles.dst_column = nest.stride[0][rank - 1];
      tiles.src_column = nest.stride[1][rank - 1];
      tiles.dst = copy.dst + (walk.at[0] + first * tiles.dst_row) * width;
      tiles.src = copy.src + (walk.at[1] + first * tiles.src_row) * width;
      copy_tiles(tiles, copy.width);
    }
  });
}

void run(const Transfer& transfer, const Canonical& canonical, const Plan& plan, char*) {
  if (canonical.empty) return;
  const Copy copy = prepare(transfer, canonical);
  const int64_t count = canonical.outer_count * canonical.row.size;
  if (copy.transposed) {
    copy_transposed(copy, count, plan.threads);
  } else {
    copy_runs(copy, count, plan.threads);
  }
}

double cost(const Transfer& transfer, const Canonical& canonical, int threads) {
  if (canonical.empty) return 0;
  const auto rows = static_cast<double>(canonical.outer_count);
  const double bytes =
      rows * static_cast<double>(canonical.row.size) * static_cast<double>(size_of(transfer.dtype));
  const bool runs = std::abs(canonical.row.dst) == 1 && std::abs(canonical.row.src) <= 1;
  const int used = bytes >= 2 * kGrainBytes ? threads : 1;
  return 50 + (rows * 4 + bytes * (runs ? 0.1 : 0.4)) / used + (used > 1 ? 4000 : 0);
}

size_t workspace(const Transfer&, const Canonical&, int) { return 0; }

}  // namespace

const Strategy k_strided_copy = {
    "strided_copy", "copies runs, fills and transposed tiles between two strided views",
    supports,       cost,
    workspace,      run,
};

}  // namespace sow::detail
