// SPDX-License-Identifier: Apache-2.0
// Nested dimensions that several operands walk together, coalesced where all of them allow it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "sow/dims.h"

namespace sow::detail {

// The last dimension is the innermost. Strides may count elements or bytes, as the maker wants.
template <int Operands>
struct Nest {
  using Strides = std::array<int64_t, Operands>;

  Dims size;
  std::array<Dims, Operands> stride;

  int rank() const { return size.rank(); }
  int64_t count(int first, int last) const {
    int64_t product = 1;
    for (int d = first; d < last; ++d) product *= size[d];
    return product;
  }

  // Adds a dimension inside the others. One of size 1 is left out, and one that goes on where the
  // one before it ends, in every operand, becomes part of it.
  void push(int64_t extent, const Strides& strides) {
    if (extent == 1) return;
    const int last = rank() - 1;
    bool one_run = last >= 0;
    for (int k = 0; one_run && k < Operands; ++k) {
      one_run = stride[k][last] == extent * strides[k];
    }
    if (one_run) {
      size[last] *= extent;
      for (int k = 0; k < Operands; ++k) stride[k][last] = strides[k];
      return;
    }
    size.push_back(extent);
    for (int k = 0; k < Operands; ++k) stride[k].push_back(strides[k]);
  }
};

// A position in the first `rank` dimensions of a Nest, and where every operand is there. It holds
// no coordinates: a carry is seen by dividing, so that any rank needs no memory.
template <int Operands>
class Walk {
 public:
  Walk(const Nest<Operands>& nest, int rank, int64_t position)
      : nest_(nest), rank_(rank), position_(position) {
    for (int d = rank - 1; d >= 0 && position > 0; --d) {
      const int64_t coordinate = position % nest.size[d];
      position /= nest.size[d];
      for (int k = 0; k < Operands; ++k) at[k] += coordinate * nest.stride[k][d];
    }
  }

  void next() {
    if (rank_ == 0) return;
    int64_t rest = ++position_;
    int d = rank_ - 1;
    for (int k = 0; k < Operands; ++k) at[k] += nest_.stride[k][d];
    while (d > 0 && rest % nest_.size[d] == 0) {
      for (int k = 0; k < Operands; ++k) {
        at[k] += nest_.stride[k][d - 1] - nest_.size[d] * nest_.stride[k][d];
      }
      rest /= nest_.size[d--];
    }
  }

  std::array<int64_t, Operands> at{};

 private:
  const Nest<Operands>& nest_;
  int rank_;
  int64_t position_;
};

// Calls f(at, inner, count) for the pieces of innermost runs that make up the flat positions
// [first, last): `at` is where the run begins in every operand, `inner` how far into it.
template <int Operands, class F>
void for_each_run(const Nest<Operands>& nest, int64_t first, int64_t last, F&& f) {
  if (first >= last) return;
  const int rank = nest.rank();
  const int64_t run = rank == 0 ? 1 : nest.size[rank - 1];
  Walk<Operands> walk(nest, rank == 0 ? 0 : rank - 1, first / run);
  int64_t inner = first % run;
  while (first < last) {
    const int64_t count = std::min(run - inner, last - first);
    f(walk.at, inner, count);
    first += count;
    inner = 0;
    if (first < last) walk.next();
  }
}

}  // namespace sow::detail
