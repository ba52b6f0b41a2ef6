// SPDX-License-Identifier: Apache-2.0
// Every operation of the library. The rules are in docs/semantics.md; each function throws
// sow::Error before it writes anything. `op` returns a fresh result; `op_` writes into its first
// argument and returns it. Arguments have the names of the library a function comes from, in C++
// and Python alike: axis, indices and values in Paddle's and NumPy's; dim, index and src in torch's
// scatter and gather; axis, index and source in the index_ family; updates with coordinates.
#pragma once

#include <concepts>

#include "sow/index.h"
#include "sow/tensor.h"

namespace sow {

// Where values come from: a tensor, or one scalar for every place.
class Source {
 public:
  Source(Tensor tensor) : is_tensor_(true), tensor_(std::move(tensor)), scalar_(0) {}
  Source(const Scalar& scalar) : scalar_(scalar) {}
  template <class T>
  requires(std::convertible_to<T, Scalar> && !std::convertible_to<T, Tensor>) Source(const T& value)
      : scalar_(value) {}
  bool is_tensor() const { return is_tensor_; }
  const Tensor& tensor() const { return tensor_; }
  const Scalar& scalar() const { return scalar_; }

 private:
  bool is_tensor_ = false;  // an undefined tensor is an error, not the scalar 0
  Tensor tensor_;
  Scalar scalar_;
};

// -- masks
// The trues of `mask` take the elements of `value`, both in row-major order.
[[nodiscard]] SOW_API Tensor masked_scatter(const Tensor& x, const Tensor& mask,
                                            const Tensor& value);
SOW_API Tensor masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& value);
// Every place where `mask` is true takes the value; the mask broadcasts.
[[nodiscard]] SOW_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Source& value);
SOW_API Tensor masked_fill_(const Tensor& x, const Tensor& mask, const Source& value);
// The elements of x where `mask` is true, in row-major order. The shape depends on data.
[[nodiscard]] SOW_API Tensor masked_select(const Tensor& x, const Tensor& mask);
[[nodiscard]] SOW_API Tensor nonzero(const Tensor& x);  // [count, rank], int64

// -- along an axis
// values[..., j, ...] goes to arr[..., indices[..., j, ...], ...] on `axis`; indices broadcast off
// the axis. Values that meet in one place are reduced, by default summed (NumPy and Paddle assign).
// Without an axis: along the flattened array, by a 1-D index.
[[nodiscard]] SOW_API Tensor put_along_axis(const Tensor& arr, const Index& indices,
                                            const Source& values, std::optional<int64_t> axis,
                                            ReduceName reduce = Reduce::add,
                                            bool include_self = true, bool broadcast = true);
SOW_API Tensor put_along_axis_(const Tensor& arr, const Index& indices, const Source& values,
                               std::optional<int64_t> axis, ReduceName reduce = Reduce::add,
                               bool include_self = true, bool broadcast = true);
// src[i] goes to input[..., index[i], ...] on `dim`, as in torch: index no larger than src, nor
// than input off dim.
[[nodiscard]] SOW_API Tensor scatter(const Tensor& input, int64_t dim, const Index& index,
                                     const Source& src, ReduceName reduce = Reduce::assign);
SOW_API Tensor scatter_(const Tensor& input, int64_t dim, const Index& index, const Source& src,
                        ReduceName reduce = Reduce::assign);
// scatter with reduce "add": the exact sum of what meets in a place and its old value, rounded
// once.
[[nodiscard]] SOW_API Tensor scatter_add(const Tensor& input, int64_t dim, const Index& index,
                                         const Source& src);
SOW_API Tensor scatter_add_(const Tensor& input, int64_t dim, const Index& index,
                            const Source& src);
// scatter with any reduction; without include_self the old value of a place that is met does not
// count.
[[nodiscard]] SOW_API Tensor scatter_reduce(const Tensor& input, int64_t dim, const Index& index,
                                            const Source& src, ReduceName reduce,
                                            bool include_self = true);
SOW_API Tensor scatter_reduce_(const Tensor& input, int64_t dim, const Index& index,
                               const Source& src, ReduceName reduce, bool include_self = true);
// arr[..., indices[..., j, ...], ...] for every j: what put_along_axis would write to, read.
[[nodiscard]] SOW_API Tensor take_along_axis(const Tensor& arr, const Index& indices,
                                             std::optional<int64_t> axis, bool broadcast = true);
// take_along_axis by torch's rule: index no larger than input off `dim`, no broadcasting.
[[nodiscard]] SOW_API Tensor gather(const Tensor& input, int64_t dim, const Index& index);

// -- whole slices by a 1-D index
// Slice j of `source` along `axis` is added to slice index[j] of x; sums are exact.
[[nodiscard]] SOW_API Tensor index_add(const Tensor& x, int64_t axis, const Index& index,
                                       const Source& source, const Scalar& alpha = 1);
SOW_API Tensor index_add_(const Tensor& x, int64_t axis, const Index& index, const Source& source,
                          const Scalar& alpha = 1);
// Slice j of `source` along `axis` replaces slice index[j] of x; of several the last stays.
[[nodiscard]] SOW_API Tensor index_copy(const Tensor& x, int64_t axis, const Index& index,
                                        const Source& source);
SOW_API Tensor index_copy_(const Tensor& x, int64_t axis, const Index& index, const Source& source);
// Every slice index[j] of x along `axis` is filled with one value.
[[nodiscard]] SOW_API Tensor index_fill(const Tensor& x, int64_t axis, const Index& index,
                                        const Source& value);
SOW_API Tensor index_fill_(const Tensor& x, int64_t axis, const Index& index, const Source& value);
// Slices of `source` are reduced into slices index[j] of x along `axis`.
[[nodiscard]] SOW_API Tensor index_reduce(const Tensor& x, int64_t axis, const Index& index,
                                          const Source& source, ReduceName reduce,
                                          bool include_self = true);
SOW_API Tensor index_reduce_(const Tensor& x, int64_t axis, const Index& index,
                             const Source& source, ReduceName reduce, bool include_self = true);
// The slices index[j] of x along `axis`, in that order.
[[nodiscard]] SOW_API Tensor index_select(const Tensor& x, int64_t axis, const Index& index);

// -- by coordinates
// One index tensor a leading axis, broadcast together; bool masks stand for their nonzero places,
// Index::whole_axis() leaves an axis out. accumulate is the reduction add; without either, assign.
[[nodiscard]] SOW_API Tensor index_put(const Tensor& x, const std::vector<Index>& indices,
                                       const Source& value, bool accumulate = false,
                                       std::optional<ReduceName> reduce = {},
                                       bool include_self = true);
SOW_API Tensor index_put_(const Tensor& x, const std::vector<Index>& indices, const Source& value,
                          bool accumulate = false, std::optional<ReduceName> reduce = {},
                          bool include_self = true);
// What index_put would write over: the indices' shape, then the axes that none addresses.
[[nodiscard]] SOW_API Tensor index_get(const Tensor& x, const std::vector<Index>& indices);
// Updates are summed into zeros of `shape`; the last axis of `indices` holds coordinates.
[[nodiscard]] SOW_API Tensor scatter_nd(const Index& indices, const Tensor& updates,
                                        const Dims& shape);
// Updates replace elements or slices of x at coordinates (shapes as ONNX ScatterND); the last
// stays.
[[nodiscard]] SOW_API Tensor tensor_scatter_nd_update(const Tensor& x, const Index& indices,
                                                      const Source& updates);
SOW_API Tensor tensor_scatter_nd_update_(const Tensor& x, const Index& indices,
                                         const Source& updates);
// Updates are added to x at coordinates.
[[nodiscard]] SOW_API Tensor tensor_scatter_nd_add(const Tensor& x, const Index& indices,
                                                   const Source& updates);
SOW_API Tensor tensor_scatter_nd_add_(const Tensor& x, const Index& indices, const Source& updates);
// Updates are subtracted from x at coordinates: the exact sum of x and all negated updates.
[[nodiscard]] SOW_API Tensor tensor_scatter_nd_sub(const Tensor& x, const Index& indices,
                                                   const Source& updates);
SOW_API Tensor tensor_scatter_nd_sub_(const Tensor& x, const Index& indices, const Source& updates);
// The maximum of x and all updates at coordinates; NaN wins.
[[nodiscard]] SOW_API Tensor tensor_scatter_nd_max(const Tensor& x, const Index& indices,
                                                   const Source& updates);
SOW_API Tensor tensor_scatter_nd_max_(const Tensor& x, const Index& indices, const Source& updates);
// The minimum of x and all updates at coordinates; NaN wins.
[[nodiscard]] SOW_API Tensor tensor_scatter_nd_min(const Tensor& x, const Index& indices,
                                                   const Source& updates);
SOW_API Tensor tensor_scatter_nd_min_(const Tensor& x, const Index& indices, const Source& updates);
// The product of x and all updates at coordinates.
[[nodiscard]] SOW_API Tensor tensor_scatter_nd_mul(const Tensor& x, const Index& indices,
                                                   const Source& updates);
SOW_API Tensor tensor_scatter_nd_mul_(const Tensor& x, const Index& indices, const Source& updates);
// The first batch_dims dimensions of x and indices are the same, and each is looked up in its own.
[[nodiscard]] SOW_API Tensor gather_nd(const Tensor& x, const Index& indices,
                                       int64_t batch_dims = 0);

// -- regular places
// src replaces diagonal(input, offset, axis1, axis2), whose shape it must have.
[[nodiscard]] SOW_API Tensor diagonal_scatter(const Tensor& input, const Tensor& src,
                                              int64_t offset = 0, int64_t axis1 = 0,
                                              int64_t axis2 = 1);
SOW_API Tensor diagonal_scatter_(const Tensor& input, const Tensor& src, int64_t offset = 0,
                                 int64_t axis1 = 0, int64_t axis2 = 1);
// src replaces input's slice at one index of `dim`.
[[nodiscard]] SOW_API Tensor select_scatter(const Tensor& input, const Tensor& src, int64_t dim,
                                            int64_t index);
SOW_API Tensor select_scatter_(const Tensor& input, const Tensor& src, int64_t dim, int64_t index);
// src replaces input[start:stop:step] on `dim`; of several dims at once it broadcasts to the part.
[[nodiscard]] SOW_API Tensor slice_scatter(const Tensor& input, const Tensor& src, int64_t dim = 0,
                                           int64_t start = 0, int64_t stop = kEnd,
                                           int64_t step = 1);
SOW_API Tensor slice_scatter_(const Tensor& input, const Tensor& src, int64_t dim = 0,
                              int64_t start = 0, int64_t stop = kEnd, int64_t step = 1);
[[nodiscard]] SOW_API Tensor slice_scatter(const Tensor& input, const Tensor& src, const Dims& dims,
                                           const Dims& starts, const Dims& stops,
                                           const Dims& steps);
SOW_API Tensor slice_scatter_(const Tensor& input, const Tensor& src, const Dims& dims,
                              const Dims& starts, const Dims& stops, const Dims& steps);
// The main diagonal takes one value; `wrap` starts it anew below a tall matrix. Each of its places
// is moved by `offset` along the last axis, as far as the row goes.
[[nodiscard]] SOW_API Tensor fill_diagonal(const Tensor& x, const Source& value, bool wrap = false,
                                           int64_t offset = 0);
SOW_API Tensor fill_diagonal_(const Tensor& x, const Source& value, bool wrap = false,
                              int64_t offset = 0);

// -- views
// The diagonal of two axes as a view; its dimension comes last.
[[nodiscard]] SOW_API Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t axis1 = 0,
                                      int64_t axis2 = 1);
// One slice of an axis as a view, without that axis.
[[nodiscard]] SOW_API Tensor select(const Tensor& x, int64_t axis, int64_t position);
// x[start:stop:step] on an axis as a view; the step is positive.
[[nodiscard]] SOW_API Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop,
                                   int64_t step = 1);
// A read-only view with extents of 1 repeated to `shape`.
[[nodiscard]] SOW_API Tensor broadcast_to(const Tensor& x, const Dims& shape);
[[nodiscard]] SOW_API Tensor unsqueeze(const Tensor& x,
                                       int64_t axis);  // a new axis of extent 1 there
// Axes first to last become one: a view where strides allow, else a copy.
[[nodiscard]] SOW_API Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
// The same elements in another shape; one extent may be -1. A view where strides allow, else a
// copy.
[[nodiscard]] SOW_API Tensor reshape(const Tensor& x, const Dims& shape);
// Two axes exchanged, as a view.
[[nodiscard]] SOW_API Tensor transpose(const Tensor& x, int64_t axis1, int64_t axis2);

// Runs `calls` and says, in words, how each step was done; what they would write in place stays
// as it was.
[[nodiscard]] SOW_API std::string explain(const std::function<void()>& calls);

}  // namespace sow
