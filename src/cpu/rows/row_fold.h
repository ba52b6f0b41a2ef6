// SPDX-License-Identifier: Apache-2.0
// Folds ordered rows on all workers: blocks of destination rows, and the longest ones in chunks.
#pragma once

#include "core/threads/parallel.h"
#include "cpu/common/work_queue.h"
#include "cpu/fold/cell_fold.h"
#include "cpu/fold/fold_kernels.h"

namespace sow::detail {

class RowFold {
 public:
  // For jobs of up to `items` items and `columns` columns.
  RowFold(const FoldKernels& kernels, int64_t items, int64_t columns, int workers, Carver& carver);

  // Folds `segments` segments for every outer position: outer(position, job) sets the job's bases.
  template <class Outer>
  void run(RowJob job, int64_t segments, int64_t outer_count, Team& team, Outer&& outer) {
    team.one([&] {
      begin(job, segments);
      queue_.open(outer_count * blocks_);
    });
    team.each(workers_, [&](int worker, int) {
      RowJob mine = job;
      queue_.run(worker, [&](int64_t task) {
        outer(task / blocks_, mine);
        fold_block(mine, task % blocks_);
      });
    });
    if (long_count_ == 0) return;
    for (int64_t position = 0; position < outer_count; ++position) {
      outer(position, job);
      fold_long(job, team);
    }
  }

 private:
  struct Long {
    int64_t segment, first_chunk;
  };
  void begin(const RowJob& job, int64_t segments);
  void fold_block(RowJob job, int64_t block) const;
  void fold_long(const RowJob& job, Team& team);
  int64_t segment_at(const RowJob& job, int64_t item) const;

  const FoldKernels& kernels_;
  int workers_;
  int64_t columns_;
  int64_t chunk_;  // items of a chunk
  int64_t most_longs_;
  Long* longs_;
  char* partials_;
  WorkQueue queue_;
  int64_t segments_ = 0, blocks_ = 1, long_count_ = 0, chunk_count_ = 0;
  bool by_columns_ = false;
};

}  // namespace sow::detail
