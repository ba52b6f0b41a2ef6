// Every operation of the library. The rules are in docs/semantics.md; each function throws
// sow::Error before it writes anything. `op` returns a fresh result; `op_` writes into its first
// argument and returns it.
#pragma once

#include "sow/index.h"
#include "sow/tensor.h"

namespace sow {

// Where values come from: a tensor, or one scalar for every place.
class Source {
 public:
  Source(Tensor tensor) : is_tensor_(true), tensor_(std::move(tensor)), scalar_(0) {}
  Source(const Scalar& scalar) : scalar_(scalar) {}
  template <class T, class = std::enable_if_t<std::is_convertible_v<T, Scalar> &&
                                              !std::is_convertible_v<T, Tensor>>>
  Source(const T& value) : scalar_(value) {}
  bool is_tensor() const { return is_tensor_; }
  const Tensor& tensor() const { return tensor_; }
  const Scalar& scalar() const { return scalar_; }

 private:
  bool is_tensor_ = false;  // an undefined tensor is an error, not the scalar 0
  Tensor tensor_;
  Scalar scalar_;
};

// -- masks -----------------------------------------------------------------------------------------
// The trues of `mask` take the elements of `value`, both in row-major order.
SOW_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& value);
SOW_API Tensor masked_scatter_(const Tensor& x, const Tensor& mask, const Tensor& value);
SOW_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Source& value);
SOW_API Tensor masked_fill_(const Tensor& x, const Tensor& mask, const Source& value);
SOW_API Tensor masked_select(const Tensor& x, const Tensor& mask);
SOW_API Tensor nonzero(const Tensor& x);  // [count, rank], int64

// -- along an axis ---------------------------------------------------------------------------------
SOW_API Tensor put_along_axis(const Tensor& arr, const Index& indices, const Source& values,
                              int64_t axis, ReduceName reduce = Reduce::add,
                              bool include_self = true, bool broadcast = true);
SOW_API Tensor put_along_axis_(const Tensor& arr, const Index& indices, const Source& values,
                               int64_t axis, ReduceName reduce = Reduce::add,
                               bool include_self = true, bool broadcast = true);
SOW_API Tensor scatter(const Tensor& input, int64_t dim, const Index& index, const Source& src,
                       ReduceName reduce = Reduce::assign);
SOW_API Tensor scatter_(const Tensor& input, int64_t dim, const Index& index, const Source& src,
                        ReduceName reduce = Reduce::assign);
SOW_API Tensor scatter_add(const Tensor& input, int64_t dim, const Index& index, const Tensor& src);
SOW_API Tensor scatter_add_(const Tensor& input, int64_t dim, const Index& index,
                            const Tensor& src);
SOW_API Tensor scatter_reduce(const Tensor& input, int64_t dim, const Index& index,
                              const Tensor& src, ReduceName reduce, bool include_self = true);
SOW_API Tensor scatter_reduce_(const Tensor& input, int64_t dim, const Index& index,
                               const Tensor& src, ReduceName reduce, bool include_self = true);
SOW_API Tensor take_along_axis(const Tensor& arr, const Index& indices, int64_t axis,
                               bool broadcast = true);
SOW_API Tensor gather(const Tensor& input, int64_t dim, const Index& index);

// -- whole slices by a 1-D index ----------------------------------------------------------------------
SOW_API Tensor index_add(const Tensor& x, int64_t axis, const Index& index, const Tensor& source);
SOW_API Tensor index_add_(const Tensor& x, int64_t axis, const Index& index, const Tensor& source);
SOW_API Tensor index_copy(const Tensor& x, int64_t axis, const Index& index, const Tensor& source);
SOW_API Tensor index_copy_(const Tensor& x, int64_t axis, const Index& index, const Tensor& source);
SOW_API Tensor index_fill(const Tensor& x, int64_t axis, const Index& index, const Source& value);
SOW_API Tensor index_fill_(const Tensor& x, int64_t axis, const Index& index, const Source& value);
SOW_API Tensor index_reduce(const Tensor& x, int64_t axis, const Index& index, const Tensor& source,
                            ReduceName reduce, bool include_self = true);
SOW_API Tensor index_reduce_(const Tensor& x, int64_t axis, const Index& index,
                             const Tensor& source, ReduceName reduce, bool include_self = true);
SOW_API Tensor index_select(const Tensor& x, int64_t axis, const Index& index);

// -- by coordinates ------------------------------------------------------------------------------------
// One index tensor a leading axis, broadcast together; bool masks stand for their nonzero places.
SOW_API Tensor index_put(const Tensor& x, const std::vector<Index>& indices, const Source& value,
                         bool accumulate = false);
SOW_API Tensor index_put_(const Tensor& x, const std::vector<Index>& indices, const Source& value,
                          bool accumulate = false);
SOW_API Tensor scatter_nd(const Index& indices, const Tensor& updates, const Dims& shape);
SOW_API Tensor tensor_scatter_nd_update(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_update_(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_add(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_add_(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_sub(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_sub_(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_max(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_max_(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_min(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_min_(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_mul(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor tensor_scatter_nd_mul_(const Tensor& x, const Index& indices, const Tensor& updates);
SOW_API Tensor gather_nd(const Tensor& x, const Index& indices);

// -- regular places ------------------------------------------------------------------------------------
SOW_API Tensor diagonal_scatter(const Tensor& input, const Tensor& src, int64_t offset = 0,
                                int64_t axis1 = 0, int64_t axis2 = 1);
SOW_API Tensor diagonal_scatter_(const Tensor& input, const Tensor& src, int64_t offset = 0,
                                 int64_t axis1 = 0, int64_t axis2 = 1);
SOW_API Tensor select_scatter(const Tensor& input, const Tensor& src, int64_t dim, int64_t index);
SOW_API Tensor select_scatter_(const Tensor& input, const Tensor& src, int64_t dim, int64_t index);
SOW_API Tensor slice_scatter(const Tensor& input, const Tensor& src, int64_t dim = 0,
                             int64_t start = 0, int64_t stop = kEnd, int64_t step = 1);
SOW_API Tensor slice_scatter_(const Tensor& input, const Tensor& src, int64_t dim = 0,
                              int64_t start = 0, int64_t stop = kEnd, int64_t step = 1);
SOW_API Tensor fill_diagonal(const Tensor& x, const Source& value, bool wrap = false);
SOW_API Tensor fill_diagonal_(const Tensor& x, const Source& value, bool wrap = false);

// -- views ---------------------------------------------------------------------------------------------
SOW_API Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1);
SOW_API Tensor select(const Tensor& x, int64_t axis, int64_t position);
SOW_API Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
SOW_API Tensor broadcast_to(const Tensor& x, const Dims& shape);
SOW_API Tensor flatten(const Tensor& x, int64_t first = 0, int64_t last = -1);
SOW_API Tensor reshape(const Tensor& x, const Dims& shape);
SOW_API Tensor transpose(const Tensor& x, int64_t axis1, int64_t axis2);

// Runs `calls` and says, in words, how each step was done; what they would write in place stays
// as it was.
SOW_API std::string explain(const std::function<void()>& calls);

}  // namespace sow
