// SPDX-License-Identifier: Apache-2.0
// The operations as methods of Tensor: each one calls the free function of its name.
#include "sow/ops.h"

namespace sow {

Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& value) const {
  return sow::masked_scatter(*this, mask, value);
}

Tensor Tensor::masked_scatter_(const Tensor& mask, const Tensor& value) const {
  return sow::masked_scatter_(*this, mask, value);
}

Tensor Tensor::masked_fill(const Tensor& mask, const Source& value) const {
  return sow::masked_fill(*this, mask, value);
}

Tensor Tensor::masked_fill_(const Tensor& mask, const Source& value) const {
  return sow::masked_fill_(*this, mask, value);
}

Tensor Tensor::masked_select(const Tensor& mask) const { return sow::masked_select(*this, mask); }

Tensor Tensor::nonzero() const { return sow::nonzero(*this); }

Tensor Tensor::put_along_axis(const Index& indices, const Source& values,
                              std::optional<int64_t> axis, ReduceName reduce, bool include_self,
                              bool broadcast) const {
  return sow::put_along_axis(*this, indices, values, axis, reduce, include_self, broadcast);
}

Tensor Tensor::put_along_axis_(const Index& indices, const Source& values,
                               std::optional<int64_t> axis, ReduceName reduce, bool include_self,
                               bool broadcast) const {
  return sow::put_along_axis_(*this, indices, values, axis, reduce, include_self, broadcast);
}

Tensor Tensor::scatter(int64_t dim, const Index& index, const Source& src,
                       ReduceName reduce) const {
  return sow::scatter(*this, dim, index, src, reduce);
}

Tensor Tensor::scatter_(int64_t dim, const Index& index, const Source& src,
                        ReduceName reduce) const {
  return sow::scatter_(*this, dim, index, src, reduce);
}

Tensor Tensor::scatter_add(int64_t dim, const Index& index, const Source& src) const {
  return sow::scatter_add(*this, dim, index, src);
}

Tensor Tensor::scatter_add_(int64_t dim, const Index& index, const Source& src) const {
  return sow::scatter_add_(*this, dim, index, src);
}

Tensor Tensor::scatter_reduce(int64_t dim, const Index& index, const Source& src, ReduceName reduce,
                              bool include_self) const {
  return sow::scatter_reduce(*this, dim, index, src, reduce, include_self);
}

Tensor Tensor::scatter_reduce_(int64_t dim, const Index& index, const Source& src,
                               ReduceName reduce, bool include_self) const {
  return sow::scatter_reduce_(*this, dim, index, src, reduce, include_self);
}

Tensor Tensor::take_along_axis(const Index& indices, std::optional<int64_t> axis,
                               bool broadcast) const {
  return sow::take_along_axis(*this, indices, axis, broadcast);
}

Tensor Tensor::gather(int64_t dim, const Index& index) const {
  return sow::gather(*this, dim, index);
}

Tensor Tensor::index_add(int64_t axis, const Index& index, const Source& source,
                         const Scalar& alpha) const {
  return sow::index_add(*this, axis, index, source, alpha);
}

Tensor Tensor::index_add_(int64_t axis, const Index& index, const Source& source,
                          const Scalar& alpha) const {
  return sow::index_add_(*this, axis, index, source, alpha);
}

Tensor Tensor::index_copy(int64_t axis, const Index& index, const Source& source) const {
  return sow::index_copy(*this, axis, index, source);
}

Tensor Tensor::index_copy_(int64_t axis, const Index& index, const Source& source) const {
  return sow::index_copy_(*this, axis, index, source);
}

Tensor Tensor::index_fill(int64_t axis, const Index& index, const Source& value) const {
  return sow::index_fill(*this, axis, index, value);
}

Tensor Tensor::index_fill_(int64_t axis, const Index& index, const Source& value) const {
  return sow::index_fill_(*this, axis, index, value);
}

Tensor Tensor::index_reduce(int64_t axis, const Index& index, const Source& source,
                            ReduceName reduce, bool include_self) const {
  return sow::index_reduce(*this, axis, index, source, reduce, include_self);
}

Tensor Tensor::index_reduce_(int64_t axis, const Index& index, const Source& source,
                             ReduceName reduce, bool include_self) const {
  return sow::index_reduce_(*this, axis, index, source, reduce, include_self);
}

Tensor Tensor::index_select(int64_t axis, const Index& index) const {
  return sow::index_select(*this, axis, index);
}

Tensor Tensor::index_get(const std::vector<Index>& indices) const {
  return sow::index_get(*this, indices);
}

Tensor Tensor::index_put(const std::vector<Index>& indices, const Source& value, bool accumulate,
                         std::optional<ReduceName> reduce, bool include_self) const {
  return sow::index_put(*this, indices, value, accumulate, reduce, include_self);
}

Tensor Tensor::index_put_(const std::vector<Index>& indices, const Source& value, bool accumulate,
                          std::optional<ReduceName> reduce, bool include_self) const {
  return sow::index_put_(*this, indices, value, accumulate, reduce, include_self);
}

Tensor Tensor::tensor_scatter_nd_update(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_update(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_update_(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_update_(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_add(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_add(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_add_(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_add_(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_sub(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_sub(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_sub_(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_sub_(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_max(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_max(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_max_(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_max_(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_min(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_min(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_min_(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_min_(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_mul(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_mul(*this, indices, updates);
}

Tensor Tensor::tensor_scatter_nd_mul_(const Index& indices, const Source& updates) const {
  return sow::tensor_scatter_nd_mul_(*this, indices, updates);
}

Tensor Tensor::gather_nd(const Index& indices, int64_t batch_dims) const {
  return sow::gather_nd(*this, indices, batch_dims);
}

Tensor Tensor::diagonal_scatter(const Tensor& src, int64_t offset, int64_t axis1,
                                int64_t axis2) const {
  return sow::diagonal_scatter(*this, src, offset, axis1, axis2);
}

Tensor Tensor::diagonal_scatter_(const Tensor& src, int64_t offset, int64_t axis1,
                                 int64_t axis2) const {
  return sow::diagonal_scatter_(*this, src, offset, axis1, axis2);
}

Tensor Tensor::select_scatter(const Tensor& src, int64_t dim, int64_t index) const {
  return sow::select_scatter(*this, src, dim, index);
}

Tensor Tensor::select_scatter_(const Tensor& src, int64_t dim, int64_t index) const {
  return sow::select_scatter_(*this, src, dim, index);
}

Tensor Tensor::slice_scatter(const Tensor& src, int64_t dim, int64_t start, int64_t stop,
                             int64_t step) const {
  return sow::slice_scatter(*this, src, dim, start, stop, step);
}

Tensor Tensor::slice_scatter_(const Tensor& src, int64_t dim, int64_t start, int64_t stop,
                              int64_t step) const {
  return sow::slice_scatter_(*this, src, dim, start, stop, step);
}

Tensor Tensor::fill_diagonal(const Source& value, bool wrap, int64_t offset) const {
  return sow::fill_diagonal(*this, value, wrap, offset);
}

Tensor Tensor::fill_diagonal_(const Source& value, bool wrap, int64_t offset) const {
  return sow::fill_diagonal_(*this, value, wrap, offset);
}

Tensor Tensor::diagonal(int64_t offset, int64_t axis1, int64_t axis2) const {
  return sow::diagonal(*this, offset, axis1, axis2);
}

Tensor Tensor::select(int64_t axis, int64_t position) const {
  return sow::select(*this, axis, position);
}

Tensor Tensor::slice(int64_t axis, int64_t start, int64_t stop, int64_t step) const {
  return sow::slice(*this, axis, start, stop, step);
}

Tensor Tensor::unsqueeze(int64_t axis) const { return sow::unsqueeze(*this, axis); }

Tensor Tensor::broadcast_to(const Dims& shape) const { return sow::broadcast_to(*this, shape); }

Tensor Tensor::flatten(int64_t first, int64_t last) const {
  return sow::flatten(*this, first, last);
}

Tensor Tensor::reshape(const Dims& shape) const { return sow::reshape(*this, shape); }

Tensor Tensor::transpose(int64_t axis1, int64_t axis2) const {
  return sow::transpose(*this, axis1, axis2);
}

}  // namespace sow
