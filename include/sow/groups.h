// SPDX-License-Identifier: Apache-2.0
// Operations by group and by segment, counting, and messages along edges. An index names the group
// of each slice of a source; without `size` the number of groups is the largest index plus one,
// which reads the data (and cannot be had in a program).
#pragma once

#include <optional>
#include <string_view>

#include "sow/index.h"
#include "sow/ops.h"

namespace sow {

// -- groups
// src's slices along `axis`, reduced by group: the result has `size` groups on that axis. The index
// has one key per slice, or src's rank. Reductions: add = sum, mul = multiply = prod, amax = max,
// amin = min, mean, bitwise_and, bitwise_or, bitwise_xor; count, any, all, var and std (count less
// `correction` divides), logsumexp, first, last; argmax and argmin: where along the axis the first
// winner is, or the last of them.
[[nodiscard]] SOW_API Tensor group_reduce(const Tensor& src, const Index& index,
                                          std::string_view reduce, int64_t axis = 0,
                                          std::optional<int64_t> size = {}, int64_t correction = 1,
                                          bool last_of_ties = false);
// exp(x) over the sum of its group's, in float64 and rounded once; and its logarithm.
[[nodiscard]] SOW_API Tensor group_softmax(const Tensor& src, const Index& index, int64_t axis = 0,
                                           std::optional<int64_t> size = {});
[[nodiscard]] SOW_API Tensor group_log_softmax(const Tensor& src, const Index& index,
                                               int64_t axis = 0, std::optional<int64_t> size = {});

// -- segments: pointers[i] to pointers[i + 1] along the axis is segment i
// Each segment reduced, by the names of group_reduce. Segments may be empty; they do not overlap.
[[nodiscard]] SOW_API Tensor segment_reduce(const Tensor& src, const Tensor& pointers,
                                            std::string_view reduce, int64_t axis = 0,
                                            int64_t correction = 1, bool last_of_ties = false);
// Slice i of src as often as segment i is long: the way back of a sum.
[[nodiscard]] SOW_API Tensor gather_csr(const Tensor& src, const Tensor& pointers, int64_t axis = 0,
                                        std::optional<int64_t> size = {});
// The sum of each segment so far, exact and rounded once at each element; exclusive: without it.
[[nodiscard]] SOW_API Tensor segment_cumsum(const Tensor& src, const Tensor& pointers,
                                            int64_t axis = 0, bool exclusive = false);

// -- counting
// How often each of 0 to size - 1 is in the index, or the exact sum of its weights. Negative keys
// are out of range.
[[nodiscard]] SOW_API Tensor bincount(const Index& index, const std::optional<Tensor>& weights = {},
                                      std::optional<int64_t> size = {});
// Of each element the bin i with edges[i] <= x < edges[i + 1] (the last includes its end); the
// number of bins where there is none. Edges are floating and ascend.
[[nodiscard]] SOW_API Tensor bin_index(const Tensor& x, const Tensor& edges);

// Distinct keys in order (rows of a matrix count as one key), which of them each key is, and how
// often each is there.
struct UniqueKeys {
  Tensor keys, inverse, counts;
};
[[nodiscard]] SOW_API UniqueKeys unique(const Tensor& keys);

// -- messages along edges from x[src_index[e]] to place dst_index[e], which are never written
// The reduction (sum, mean, max, min) of what arrives at each of `size` places; 0 where nothing
// does.
[[nodiscard]] SOW_API Tensor send_u_recv(const Tensor& x, const Index& src_index,
                                         const Index& dst_index, std::string_view reduce = "sum",
                                         std::optional<int64_t> size = {});
// The same of x[src] combined with a value of each edge: add, sub, mul, div.
[[nodiscard]] SOW_API Tensor send_ue_recv(const Tensor& x, const Tensor& y, const Index& src_index,
                                          const Index& dst_index, std::string_view message = "add",
                                          std::string_view reduce = "sum",
                                          std::optional<int64_t> size = {});
// x[src] combined with y[dst], edge by edge.
[[nodiscard]] SOW_API Tensor send_uv(const Tensor& x, const Tensor& y, const Index& src_index,
                                     const Index& dst_index, std::string_view message = "add");

// -- indices
// Keys of an index whose negative ones do not wrap: they are replaced by what is out of range under
// this policy (error, drop), or by 0 (clip). `op` is whom an error speaks of.
[[nodiscard]] SOW_API Tensor unwrapped(const Tensor& keys, Bounds bounds, const char* op);

}  // namespace sow
