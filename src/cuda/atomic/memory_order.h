// SPDX-License-Identifier: Apache-2.0
// For strategies whose updates may come in any order: they are walked as their keys lie in memory,
// and their accumulators are numbered as the destination lies.
#pragma once

#include "cuda/plan/problem.h"

namespace sow::detail::cuda {

struct OrderedProblem {
  Problem p;
  bool by_offset;  // a cell's number is its element's offset in the destination
  int64_t terms;   // the most updates that one place can get
  // Of how many places updates that are near each other in the walk can be: what the cache must
  // hold.
  int64_t places_at_once;
};

// Elements along a first or middle axis, whose keys differ from column to column, would otherwise
// be walked column by column, a cache line of keys for each key. Positions of one place stay in
// their order. Problems that have one outer position, or rows, or a destination with wide gaps, are
// left as they are.
OrderedProblem in_memory_order(const Problem& problem);

}  // namespace sow::detail::cuda
