// SPDX-License-Identifier: Apache-2.0
// A tensor: a strided view of memory that it may own. Copying one copies the handle, not the data.
#pragma once

#include "sow/export.h"  // first: it says so where C++20 is missing

#include <complex>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sow/dims.h"
#include "sow/dtype.h"
#include "sow/error.h"
#include "sow/reduce.h"

namespace sow {

namespace detail {
struct TensorImpl;  // src/core/tensor/tensor_impl.h
}

enum class DeviceType : uint8_t { cpu, cuda };
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  friend bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
};
SOW_API std::string to_string(Device device);

// A std::mdspan of plain memory, or what looks like one (the Kokkos reference implementation).
template <class View>
concept StridedView = requires(const View& view) {
  view.mapping().stride(0);
  view.extent(0);
  { View::rank() } -> std::convertible_to<size_t>;
}
&&std::same_as<typename View::data_handle_type, typename View::element_type*>;

class Index;
class Source;
class Tensor;
using TensorList = std::vector<Tensor>;

class SOW_API Tensor {
 public:
  Tensor() = default;

  // -- making
  static Tensor empty(const Dims& shape, DType dtype, Device device = {});
  static Tensor zeros(const Dims& shape, DType dtype, Device device = {});
  static Tensor ones(const Dims& shape, DType dtype, Device device = {});
  static Tensor full(const Dims& shape, const Scalar& value, DType dtype, Device device = {});
  static Tensor arange(int64_t count, DType dtype = DType::int64, Device device = {});
  // A copy of `values` in row-major order.
  template <class T>
  static Tensor of(const std::vector<T>& values, const Dims& shape);
  template <class T>
  static Tensor of(std::initializer_list<T> values, const Dims& shape) {
    return of(std::vector<T>(values), shape);
  }
  // One-dimensional.
  template <class T>
  static Tensor of(std::initializer_list<T> values) {
    return of(std::vector<T>(values), {static_cast<int64_t>(values.size())});
  }
  static Tensor scalar(const Scalar& value, DType dtype);
  // A view of foreign memory, without a copy. Strides count elements; without them: row-major.
  // The deleter runs once, on whichever thread lets go last, and must not throw.
  struct Foreign {
    void* data = nullptr;
    DType dtype = DType::float32;
    Dims shape;
    std::optional<Dims> strides;
    Device device;
    bool read_only = false;
    std::function<void()> deleter;
  };
  static Tensor wrap(Foreign foreign);
  // The same of memory that outlives the tensor: const elements make a read-only tensor. No element
  // may lie outside of the span. wrap(std::span(values), {2, 3}); without a shape: one-dimensional.
  template <class T, size_t Extent>
  static Tensor wrap(std::span<T, Extent> values, Dims shape,
                     std::optional<Dims> strides = std::nullopt) {
    return wrap_span({const_cast<std::remove_const_t<T>*>(values.data()),
                      dtype_of<std::remove_const_t<T>>(),
                      std::move(shape),
                      std::move(strides),
                      {},
                      std::is_const_v<T>,
                      {}},
                     values.size());
  }
  template <class T, size_t Extent>
  static Tensor wrap(std::span<T, Extent> values) {
    return wrap(values, {static_cast<int64_t>(values.size())});
  }
  template <StridedView View>
  static Tensor wrap(const View& view) {
    using T = typename View::element_type;
    Foreign foreign{const_cast<std::remove_const_t<T>*>(view.data_handle()),
                    dtype_of<std::remove_const_t<T>>(),
                    Dims(View::rank(), 0),
                    Dims(View::rank(), 0),
                    {},
                    std::is_const_v<T>,
                    {}};
    for (size_t d = 0; d < View::rank(); ++d) {
      foreign.shape[d] = static_cast<int64_t>(view.extent(d));
      (*foreign.strides)[d] = static_cast<int64_t>(view.mapping().stride(d));
    }
    return wrap(std::move(foreign));
  }

  // -- looking
  bool defined() const { return impl_ != nullptr; }
  DType dtype() const;
  Device device() const;
  const Dims& shape() const;
  const Dims& strides() const;  // in elements
  int dim() const;
  int64_t size(int64_t axis) const;  // the axis may be negative
  int64_t numel() const;
  size_t nbytes() const;  // of the elements, not of the memory they span
  bool is_contiguous() const;
  bool read_only() const;
  void* data() const;  // of the first element
  // Of a read-only tensor only as data<const float>().
  template <class T>
  T* data() const {
    expect_dtype(dtype_of<std::remove_const_t<T>>());
    if constexpr (!std::is_const_v<T>) expect_writable();
    return static_cast<T*>(data());
  }
  // The elements in row-major order.
  template <class T>
  std::vector<T> to_vector() const;
  // The only element, rounded once to any type that holds it; an Error where there are more or
  // none.
  template <class T>
  T item() const {
    T out;
    item_as(dtype_of<T>(), &out);
    return out;
  }
  bool same_object(const Tensor& other) const { return impl_ == other.impl_; }
  bool same_storage(const Tensor& other) const;
  std::string to_string() const;  // the way NumPy prints

  // -- views
  Tensor select(int64_t axis, int64_t position) const;
  Tensor slice(int64_t axis, int64_t start, int64_t stop, int64_t step = 1) const;
  Tensor diagonal(int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1) const;
  Tensor broadcast_to(const Dims& shape) const;
  Tensor transpose(int64_t axis1, int64_t axis2) const;
  Tensor permute(const Dims& order) const;
  Tensor reshape(const Dims& shape) const;  // one extent may be -1; copies only when it must
  Tensor flatten(int64_t first = 0, int64_t last = -1) const;
  Tensor unsqueeze(int64_t axis) const;  // a new axis of extent 1 there
  Tensor flip(int64_t axis) const;       // negative strides

  // -- copies
  Tensor clone() const;            // row-major
  Tensor contiguous() const;       // itself if it is row-major already
  Tensor to(Device device) const;  // itself if it is there already; row-major otherwise
  Tensor copy_(const Tensor& source) const;
  Tensor fill_(const Scalar& value) const;

  // -- gradients (sow/autograd.h, docs/gradients.md)
  bool requires_grad() const;  // whether it takes part in a graph
  bool is_leaf() const;        // not the result of a recorded operation
  Tensor set_requires_grad(bool on = true) const;
  Tensor grad() const;  // what backward() has gathered in a leaf; undefined before
  void set_grad(const Tensor& grad) const;
  void zero_grad() const;
  // Adds the gradient of this tensor, weighted by `grad` (1 for one element), to every leaf it was
  // made of.
  void backward(const Tensor& grad = Tensor(), bool create_graph = false) const;
  Tensor detach() const;  // the same memory outside of the graph

  // -- every operation as a method (documented in sow/ops.h)
  Tensor masked_scatter(const Tensor& mask, const Tensor& value) const;
  Tensor masked_scatter_(const Tensor& mask, const Tensor& value) const;
  Tensor masked_fill(const Tensor& mask, const Source& value) const;
  Tensor masked_fill_(const Tensor& mask, const Source& value) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;
  Tensor put_along_axis(const Index& indices, const Source& values, std::optional<int64_t> axis,
                        ReduceName reduce = Reduce::add, bool include_self = true,
                        bool broadcast = true) const;
  Tensor put_along_axis_(const Index& indices, const Source& values, std::optional<int64_t> axis,
                         ReduceName reduce = Reduce::add, bool include_self = true,
                         bool broadcast = true) const;
  Tensor scatter(int64_t dim, const Index& index, const Source& src,
                 ReduceName reduce = Reduce::assign) const;
  Tensor scatter_(int64_t dim, const Index& index, const Source& src,
                  ReduceName reduce = Reduce::assign) const;
  Tensor scatter_add(int64_t dim, const Index& index, const Source& src) const;
  Tensor scatter_add_(int64_t dim, const Index& index, const Source& src) const;
  Tensor scatter_reduce(int64_t dim, const Index& index, const Source& src, ReduceName reduce,
                        bool include_self = true) const;
  Tensor scatter_reduce_(int64_t dim, const Index& index, const Source& src, ReduceName reduce,
                         bool include_self = true) const;
  Tensor take_along_axis(const Index& indices, std::optional<int64_t> axis,
                         bool broadcast = true) const;
  Tensor gather(int64_t dim, const Index& index) const;
  Tensor index_add(int64_t axis, const Index& index, const Source& source,
                   const Scalar& alpha = 1) const;
  Tensor index_add_(int64_t axis, const Index& index, const Source& source,
                    const Scalar& alpha = 1) const;
  Tensor index_copy(int64_t axis, const Index& index, const Source& source) const;
  Tensor index_copy_(int64_t axis, const Index& index, const Source& source) const;
  Tensor index_fill(int64_t axis, const Index& index, const Source& value) const;
  Tensor index_fill_(int64_t axis, const Index& index, const Source& value) const;
  Tensor index_reduce(int64_t axis, const Index& index, const Source& source, ReduceName reduce,
                      bool include_self = true) const;
  Tensor index_reduce_(int64_t axis, const Index& index, const Source& source, ReduceName reduce,
                       bool include_self = true) const;
  Tensor index_select(int64_t axis, const Index& index) const;
  Tensor index_get(const std::vector<Index>& indices) const;
  Tensor index_put(const std::vector<Index>& indices, const Source& value, bool accumulate = false,
                   std::optional<ReduceName> reduce = {}, bool include_self = true) const;
  Tensor index_put_(const std::vector<Index>& indices, const Source& value, bool accumulate = false,
                    std::optional<ReduceName> reduce = {}, bool include_self = true) const;
  Tensor tensor_scatter_nd_update(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_update_(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_add(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_add_(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_sub(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_sub_(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_max(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_max_(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_min(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_min_(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_mul(const Index& indices, const Source& updates) const;
  Tensor tensor_scatter_nd_mul_(const Index& indices, const Source& updates) const;
  Tensor gather_nd(const Index& indices, int64_t batch_dims = 0) const;
  Tensor diagonal_scatter(const Tensor& src, int64_t offset = 0, int64_t axis1 = 0,
                          int64_t axis2 = 1) const;
  Tensor diagonal_scatter_(const Tensor& src, int64_t offset = 0, int64_t axis1 = 0,
                           int64_t axis2 = 1) const;
  Tensor select_scatter(const Tensor& src, int64_t dim, int64_t index) const;
  Tensor select_scatter_(const Tensor& src, int64_t dim, int64_t index) const;
  Tensor slice_scatter(const Tensor& src, int64_t dim = 0, int64_t start = 0, int64_t stop = kEnd,
                       int64_t step = 1) const;
  Tensor slice_scatter_(const Tensor& src, int64_t dim = 0, int64_t start = 0, int64_t stop = kEnd,
                        int64_t step = 1) const;
  Tensor fill_diagonal(const Source& value, bool wrap = false, int64_t offset = 0) const;
  Tensor fill_diagonal_(const Source& value, bool wrap = false, int64_t offset = 0) const;

  // Internal: the shared state behind the handle.
  explicit Tensor(std::shared_ptr<detail::TensorImpl> impl) : impl_(std::move(impl)) {}
  detail::TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<detail::TensorImpl>& shared_impl() const { return impl_; }

 private:
  static Tensor wrap_span(Foreign foreign, size_t count);
  void expect_dtype(DType dtype) const;
  void expect_writable() const;
  static Tensor copy_of(const void* data, size_t count, DType dtype, const Dims& shape);
  void copy_out(void* out, DType dtype) const;
  void item_as(DType dtype, void* out) const;

  std::shared_ptr<detail::TensorImpl> impl_;
};

SOW_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// -- templates
template <class T>
Tensor Tensor::of(const std::vector<T>& values, const Dims& shape) {
  if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> holds bits
    std::unique_ptr<bool[]> bytes(new bool[values.size()]);
    for (size_t i = 0; i < values.size(); ++i) bytes[i] = values[i];
    return copy_of(bytes.get(), values.size(), DType::bool_, shape);
  } else {
    return copy_of(values.data(), values.size(), dtype_of<T>(), shape);
  }
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  data();  // refuses a symbolic tensor, which has none
  const size_t count = static_cast<size_t>(numel());
  if constexpr (std::is_same_v<T, bool>) {
    std::unique_ptr<bool[]> bytes(new bool[count]);
    copy_out(bytes.get(), DType::bool_);
    return std::vector<bool>(bytes.get(), bytes.get() + count);
  } else {
    std::vector<T> out(count);
    copy_out(out.data(), dtype_of<T>());
    return out;
  }
}

}  // namespace sow
