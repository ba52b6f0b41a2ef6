// SPDX-License-Identifier: Apache-2.0
// Shares ordered rows out among workers.
#include "cpu/rows/row_fold.h"

#include <algorithm>

#include "core/threads/parallel.h"
#include "cpu/rows/row_state.h"
#include "cpu/tuning.h"

namespace sow::detail {

RowFold::RowFold(const FoldKernels& kernels, int64_t items, int64_t columns, int workers,
                 Carver& carver)
    : kernels_(kernels), workers_(workers), columns_(columns), queue_(workers, carver) {
  // Products are cut where the contract cuts them.
  chunk_ = kernels.merges ? tuning::kChunkItems : kMulChunk;
  most_longs_ = workers == 1 ? 0 : items / tuning::kLongItems;
  longs_ = carver.take<Long>(most_longs_);
  const int64_t chunks = most_longs_ == 0 ? 0 : items / chunk_ + most_longs_;
  partials_ = carver.take<char>(chunks * columns * kernels.partial_size);
}

// The first segment that begins at or after an item.
int64_t RowFold::segment_at(const RowJob& job, int64_t item) const {
  return std::lower_bound(job.begins, job.begins + segments_, static_cast<uint32_t>(item)) -
         job.begins;
}

void RowFold::begin(const RowJob& job, int64_t segments) {
  segments_ = segments;
  long_count_ = chunk_count_ = 0;
  // Few wide rows are shared out by columns, and then need no chunks.
  by_columns_ = workers_ > 1 && segments < 8 * workers_ && columns_ >= 2 * workers_ * kRowColumns;
  blocks_ = workers_ == 1 ? 1
            : by_columns_ ? (columns_ + 4 * kRowColumns - 1) / (4 * kRowColumns)
                          : 8 * workers_;
  if (by_columns_) return;
  const int64_t least = std::max<int64_t>(tuning::kLongItems, job.items / (4 * workers_));
  for (int64_t s = 0; s < segments && most_longs_ > 0; ++s) {
    const int64_t count = job.begins[s + 1] - job.begins[s];
    if (count < least) continue;
    longs_[long_count_++] = {s, chunk_count_};
    chunk_count_ += (count + chunk_ - 1) / chunk_;
  }
}

void RowFold::fold_block(RowJob job, int64_t block) const {
  if (by_columns_) {
    job.first_column = block * 4 * kRowColumns;
    job.last_column = std::min(columns_, job.first_column + 4 * kRowColumns);
    return kernels_.rows.fold(job, 0, segments_);
  }
  int64_t first = segment_at(job, job.items * block / blocks_);
  const int64_t last =
      block + 1 == blocks_ ? segments_ : segment_at(job, job.items * (block + 1) / blocks_);
  for (int64_t i = 0; i < long_count_; ++i) {
    const int64_t skip = longs_[i].segment;
    if (skip < first || skip >= last) continue;
    kernels_.rows.fold(job, first, skip);
    first = skip + 1;
  }
  kernels_.rows.fold(job, first, last);
}

void RowFold::fold_long(const RowJob& job, Team& team) {
  const int64_t bytes = columns_ * kernels_.partial_size;
  team.one([&] { queue_.open(chunk_count_); });
  team.each(workers_, [&](int worker, int) {
    queue_.run(worker, [&](int64_t chunk) {
      int64_t at = 0;
      while (at + 1 < long_count_ && longs_[at + 1].first_chunk <= chunk) ++at;
      const int64_t segment = longs_[at].segment;
      const int64_t begin = job.begins[segment] + (chunk - longs_[at].first_chunk) * chunk_;
      const int64_t end = std::min<int64_t>(begin + chunk_, job.begins[segment + 1]);
      kernels_.rows.fold_chunk(job, begin, end, partials_ + chunk * bytes);
    });
  });
  team.one([&] {
    for (int64_t i = 0; i < long_count_; ++i) {
      const int64_t past = i + 1 < long_count_ ? longs_[i + 1].first_chunk : chunk_count_;
      kernels_.rows.join_chunks(job, longs_[i].segment, partials_ + longs_[i].first_chunk * bytes,
                                past - longs_[i].first_chunk);
    }
  });
}

}  // namespace sow::detail
