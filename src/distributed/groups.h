// SPDX-License-Identifier: Apache-2.0
// Updates grouped by the place they go to.
#pragma once

#include <cstdint>
#include <vector>

#include "sow/tensor.h"

namespace sow::distributed {

struct Groups {
  std::vector<int64_t> keys;       // ascending, each once
  std::vector<int64_t> positions;  // of the updates, by key; those of one key in their order
  std::vector<int64_t> begins;     // where each key's positions begin, and the end

  int64_t count() const { return static_cast<int64_t>(keys.size()); }
  int64_t items(int64_t group) const { return begins[group + 1] - begins[group]; }
};

// Keys that are not negative, except that those below zero are left out.
Groups group_by_key(const int64_t* keys, int64_t count);

// A 1-D tensor of these numbers, and row-major keys as int64 on the CPU.
Tensor numbers(const std::vector<int64_t>& values);
Tensor plain_keys(const Tensor& keys);

// The sizes of rows of a tensor: [1:] of its shape, with `rows` before.
Dims rows_like(const Tensor& tensor, int64_t rows);

// Rows of updates merged by groups, for reductions other than mul.
struct MergedRows {
  Tensor rows;                   // by group, those of a group one after the other
  std::vector<int64_t> lengths;  // how many rows each group has become
};
MergedRows merge_groups(const Groups& groups, const Tensor& source, Reduce reduce);
// Whether a sum of this type is an expansion: its length depends on the values.
bool has_expansion(Reduce reduce, DType dtype);
// Whether it can be merged at all.
bool can_merge(Reduce reduce, DType dtype);

}  // namespace sow::distributed
