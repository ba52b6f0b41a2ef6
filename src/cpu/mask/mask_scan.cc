// SPDX-License-Identifier: Apache-2.0
// Counting the trues of a mask, and where they are: parallel over chunks, then a prefix sum.
#include "cpu/mask/mask_scan.h"

#include <array>
#include <cstring>

#include "core/fail.h"
#include "cpu/mask/mask_kernels.h"
#include "cpu/mask/mask_loops.h"
#include "transfer/index/check.h"

namespace sow::detail {
namespace {

constexpr int64_t kCountGrain = 128 << 10;  // bytes: about the time a second thread costs
constexpr int kMaxChunks = 256;
constexpr int64_t kClearGrain = 1 << 20;  // bytes per thread

Chunks mask_chunks(int64_t count, int threads) {
  return {count, std::min(choose_chunks(count, kCountGrain, threads, 4), kMaxChunks)};
}

Nest<1> flat_nest(int64_t count) {
  Nest<1> nest;
  nest.push(count, {1});
  return nest;
}

void positions_of(const uint8_t* mask, int64_t first, int64_t last, int64_t* out, int64_t trues) {
  int64_t rank = 0;
  int64_t i = first;
  // One store a byte, kept only if it is true; it stays within this chunk's part of `out`.
  for (; i + 8 <= last && rank + 8 <= trues; i += 8) {
    if (load_mask_word(mask + i) == 0) continue;
    for (int64_t j = i; j < i + 8; ++j) {
      out[rank] = j;
      rank += mask[j] != 0;
    }
  }
  for (; rank < trues; ++i) {
    if (mask[i] != 0) out[rank++] = i;
  }
}

}  // namespace

int64_t count_range(const uint8_t* mask, const Nest<1>& nest, int64_t first, int64_t last) {
  const MaskKernels& kernels = mask_kernels();
  const int64_t stride = nest.rank() == 0 ? 1 : nest.stride[0].back();
  int64_t trues = 0;
  for_each_run(nest, first, last, [&](const auto& at, int64_t inner, int64_t count) {
    const uint8_t* run = mask + at[0] + inner * stride;
    if (stride == 1) {
      trues += kernels.count(run, count);
    } else if (stride == 0) {
      trues += *run != 0 ? count : 0;
    } else {
      for (int64_t i = 0; i < count; ++i) trues += run[i * stride] != 0;
    }
  });
  return trues;
}

int64_t scan_mask(const uint8_t* mask, const Nest<1>& nest, const Chunks& chunks, int threads,
                  int64_t* ranks) {
  for_each_chunk(threads, chunks.chunks, [&](int chunk) {
    ranks[chunk + 1] = count_range(mask, nest, chunks.begin(chunk), chunks.end(chunk));
  });
  ranks[0] = 0;
  for (int chunk = 0; chunk < chunks.chunks; ++chunk) ranks[chunk + 1] += ranks[chunk];
  return ranks[chunks.chunks];
}

int64_t count_true(const void* mask, int64_t count) {
  const int threads = count < 2 * kCountGrain ? 1 : get_num_threads();
  std::array<int64_t, kMaxChunks + 1> ranks;
  return scan_mask(static_cast<const uint8_t*>(mask), flat_nest(count), mask_chunks(count, threads),
                   threads, ranks.data());
}

void true_positions(const void* bytes, int64_t count, int64_t* out) {
  const auto* mask = static_cast<const uint8_t*>(bytes);
  const int threads = count < 2 * kCountGrain ? 1 : get_num_threads();
  const Chunks chunks = mask_chunks(count, threads);
  std::array<int64_t, kMaxChunks + 1> ranks;
  scan_mask(mask, flat_nest(count), chunks, threads, ranks.data());
  for_each_chunk(threads, chunks.chunks, [&](int chunk) {
    positions_of(mask, chunks.begin(chunk), chunks.end(chunk), out + ranks[chunk],
                 ranks[chunk + 1] - ranks[chunk]);
  });
}

void expect_enough(const Transfer& transfer, int64_t trues) {
  if (trues <= transfer.rank_limit) return;
  report_too_few(transfer.op, trues, transfer.rank_limit, transfer.mask_side == MaskSide::source);
}

void clear_rest(const Transfer& transfer, int64_t trues) {
  if (!transfer.clear_rest) return;
  const auto width = static_cast<int64_t>(size_of(transfer.dtype));
  parallel_for(trues * width, transfer.rank_limit * width, kClearGrain,
               [&](int64_t first, int64_t last) {
                 std::memset(transfer.dst.data + first, 0, static_cast<size_t>(last - first));
               });
}

}  // namespace sow::detail
