// SPDX-License-Identifier: Apache-2.0
// Random calls of the public operations, right and wrong ones alike, from a seed or a fuzzer's
// bytes. A call runs twice, as planned and through the reference strategy: same bits or same error.
#pragma once

#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "draw.h"
#include "random_values.h"
#include "sow/sow.h"
#include "transfer/plan/plan.h"

namespace sow::test {

// What a call left behind: its result and its destination as bytes, or what it complained about.
struct Outcome {
  std::string error;
  std::string shape;
  std::vector<char> result;
  std::vector<char> destination;

  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.error == b.error && a.shape == b.shape && a.result == b.result &&
           a.destination == b.destination;
  }
};

class RandomCall {
 public:
  // Draws the same call for every device.
  explicit RandomCall(Draw draw, Device device = {})
      : draw_(std::move(draw)), values_(draw_.bits()), device_(device) {
    dtype_ = static_cast<DType>(draw_.between(0, kDTypeCount - 1));
    kind_ = draw_kind(draw_);
    bounds_ = draw_.pick({Bounds::error, Bounds::error, Bounds::drop, Bounds::clip});
    const int64_t rank = draw_.between(0, 4);
    for (int64_t d = 0; d < rank; ++d) shape_.push_back(draw_extent());
    x_ = tensor(shape_, dtype_);
    axis_ =
        draw_.between(-rank - draw_.chance(5), std::max<int64_t>(rank, 1) - 1 + draw_.chance(5));
    in_place_ = draw_.chance(50);
    choose();
  }

  const std::string& name() const { return name_; }

  // A destination of its own, and the call on it.
  Tensor target() const { return same_layout(x_); }
  Tensor on(const Tensor& x) const { return call_(x); }

  // On a device errors that depend on data come late: `settle` raises them.
  Outcome run(
      const char* strategy, int threads, const std::function<void()>& settle = [] {}) const {
    const int previous = get_num_threads();
    set_num_threads(threads);
    const detail::ForceStrategy forced(strategy);
    Outcome outcome;
    const Tensor x = same_layout(x_);
    try {
      const Tensor result = call_(x);
      settle();
      outcome.shape = to_string(result.shape());
      outcome.result = bytes(result);
    } catch (const Error& error) {
      outcome.error = error.what();
    }
    outcome.destination = bytes(x);
    set_num_threads(previous);
    return outcome;
  }

 private:
  using Function = std::function<Tensor(const Tensor& x)>;

  static std::vector<char> bytes(const Tensor& tensor) {
    const Tensor dense = tensor.clone().to({});
    const char* data = static_cast<const char*>(dense.data());
    return std::vector<char>(data, data + dense.nbytes());
  }

  int64_t draw_extent() {
    return draw_.chance(3) ? 0 : draw_.chance(2) ? draw_.between(20, 60) : draw_.between(1, 5);
  }

  // A fresh tensor whose strides are dense, turned, backwards or with gaps.
  Tensor tensor(const Dims& shape, DType dtype) {
    const int64_t how = draw_.between(0, 5);
    Dims outer = shape;
    const size_t rank = shape.size();
    if (how == 1 && rank >= 2) std::swap(outer[0], outer[rank - 1]);
    if (how == 2 && rank >= 1) outer[rank - 1] = 2 * outer[rank - 1];
    Tensor base = Tensor::empty(outer, dtype);
    fill_random(values_, dtype, kind_, base.numel(), base.data());
    base = base.to(device_);
    if (how == 1 && rank >= 2) base = base.transpose(0, static_cast<int64_t>(rank) - 1);
    if (how == 2 && rank >= 1) base = base.slice(-1, 0, kEnd, 2);
    if (how == 3 && rank >= 1) base = base.flip(draw_.between(0, static_cast<int64_t>(rank) - 1));
    return base;
  }

  // Each run writes into a copy of its own, laid out like the original.
  static Tensor same_layout(const Tensor& x) {
    const size_t rank = x.shape().size();
    if (x.is_contiguous() || rank == 0) return x.clone();
    if (rank >= 2) {
      const int64_t last = static_cast<int64_t>(rank) - 1;
      const Tensor turned = x.transpose(0, last);
      if (turned.is_contiguous()) return turned.clone().transpose(0, last);
    }
    for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
      if (x.flip(d).is_contiguous()) return x.flip(d).clone().flip(d);
    }
    Dims wide = x.shape();
    wide[rank - 1] *= 2;
    const Tensor view = Tensor::zeros(wide, x.dtype(), x.device()).slice(-1, 0, kEnd, 2);
    return view.copy_(x);
  }

  // Mostly in range of the axis, sometimes negative, seldom beyond.
  Tensor keys(const Dims& shape, int64_t extent) {
    const bool narrow = draw_.chance(50);
    const int beyond = draw_.chance(40) ? 10 : 0;
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<int64_t> wide(count);
    for (auto& key : wide) {
      const bool bad = extent == 0 || values_.chance(beyond);
      key = bad ? values_.between(-extent - 2, extent + 2) : values_.between(-extent, extent - 1);
    }
    if (!narrow) return Tensor::of(wide, shape).to(device_);
    return Tensor::of(std::vector<int32_t>(wide.begin(), wide.end()), shape).to(device_);
  }

  // The axis of x that the call addresses, for making shapes that fit.
  int64_t wrapped_axis() const {
    const int64_t rank = static_cast<int64_t>(shape_.size());
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    return axis < 0 || axis >= rank ? 0 : axis;
  }
  int64_t axis_extent() const { return shape_.empty() ? 1 : shape_[wrapped_axis()]; }

  // Some extents of a shape changed: to 1, to something smaller or, seldom, to anything.
  Dims varied(Dims shape, int shrink, int anything) {
    for (auto& extent : shape) {
      if (draw_.chance(shrink)) extent = draw_.between(std::min<int64_t>(extent, 1), extent);
      if (draw_.chance(anything)) extent = draw_extent();
    }
    if (draw_.chance(anything) && !shape.empty()) shape.erase(0);
    return shape;
  }

  Reduce reduction() { return static_cast<Reduce>(draw_.between(0, kReduceCount - 1)); }
  DType source_dtype() { return draw_.chance(2) ? DType::int16 : dtype_; }

  Source source(const Dims& shape) {
    if (draw_.chance(20)) return Scalar(draw_.between(0, 1));
    return tensor(shape, source_dtype());
  }

  void set(const char* name, Function call) {
    name_ = name;
    call_ = std::move(call);
  }

  void choose() {
    switch (draw_.between(0, 8)) {
      case 0:
        return choose_along_axis();
      case 1:
        return choose_put();
      case 2:
        return choose_masked();
      case 3:
        return choose_rows();
      case 4:
        return choose_nd();
      case 5:
        return choose_index_put();
      case 6:
        return choose_regular();
      case 7:
        return choose_gather();
      default:
        return choose_along_axis();
    }
  }

  Index index_of(const Tensor& keys) {
    if (!draw_.chance(15)) return Index(keys, bounds_);
    try {
      return Index::hold(keys, axis_extent(), bounds_);
    } catch (const Error&) {
      return Index(keys, bounds_);  // the call will complain as well
    }
  }

  void choose_along_axis() {
    Dims shape = varied(shape_, 20, 3);
    if (!shape_.empty() && shape.size() == shape_.size()) shape[wrapped_axis()] = draw_extent();
    const Index index = index_of(keys(shape, axis_extent()));
    const Tensor src = tensor(varied(shape, 0, 3), source_dtype());
    const Reduce reduce = reduction();
    const bool self = draw_.chance(50), in_place = in_place_;
    const int64_t axis = axis_;
    set("scatter_reduce", [=](const Tensor& x) {
      return in_place ? scatter_reduce_(x, axis, index, src, reduce, self)
                      : scatter_reduce(x, axis, index, src, reduce, self);
    });
  }

  void choose_put() {
    Dims shape = shape_;
    for (auto& extent : shape) extent = draw_.chance(30) ? 1 : extent;
    shape = varied(shape, 0, 3);
    const Index index = index_of(keys(shape, axis_extent()));
    const Source values = source(varied(shape, 20, 3));
    const Reduce reduce = reduction();
    const bool self = draw_.chance(50), broadcast = draw_.chance(80), in_place = in_place_;
    const int64_t axis = axis_;
    set("put_along_axis", [=](const Tensor& x) {
      return in_place ? put_along_axis_(x, index, values, axis, reduce, self, broadcast)
                      : put_along_axis(x, index, values, axis, reduce, self, broadcast);
    });
  }

  void choose_masked() {
    Dims shape = shape_;
    for (auto& extent : shape) extent = draw_.chance(30) ? 1 : extent;
    while (!shape.empty() && draw_.chance(20)) shape.erase(0);
    const Tensor mask = tensor(varied(shape, 0, 3), draw_.chance(3) ? DType::uint8 : DType::bool_);
    int64_t room = 1;
    for (const int64_t extent : shape_) room *= extent;
    const Tensor value = tensor({draw_.chance(80) ? room : draw_.between(0, room)}, source_dtype());
    const Scalar fill(draw_.between(0, 1));
    const int64_t which = draw_.between(0, 2);
    const bool in_place = in_place_;
    set(which == 0   ? "masked_scatter"
        : which == 1 ? "masked_fill"
                     : "masked_select",
        [=](const Tensor& x) {
          if (which == 2) return masked_select(x, mask);
          if (which == 1)
            return in_place ? masked_fill_(x, mask, fill) : masked_fill(x, mask, fill);
          return in_place ? masked_scatter_(x, mask, value) : masked_scatter(x, mask, value);
        });
  }

  void choose_rows() {
    const int64_t count = draw_extent();
    const Index index = index_of(keys(varied({count}, 0, 2), axis_extent()));
    Dims shape = shape_;
    if (!shape.empty()) shape[wrapped_axis()] = count;
    const Tensor source = tensor(varied(shape, 0, 3), source_dtype());
    const Reduce reduce = reduction();
    const bool self = draw_.chance(50), in_place = in_place_;
    const int64_t axis = axis_;
    set("index_reduce", [=](const Tensor& x) {
      return in_place ? index_reduce_(x, axis, index, source, reduce, self)
                      : index_reduce(x, axis, index, source, reduce, self);
    });
  }

  void choose_nd() {
    const int64_t depth = draw_.between(0, static_cast<int64_t>(shape_.size()) + draw_.chance(3));
    Dims shape = {draw_extent(), depth};
    int64_t least = 1 << 30;
    for (int64_t d = 0; d < depth; ++d) {
      least = std::min(least, d < shape_.rank() ? shape_[d] : 1);
    }
    const Index indices(keys(shape, depth == 0 ? 1 : least), bounds_);
    Dims updates = {shape[0]};
    for (size_t d = static_cast<size_t>(depth); d < shape_.size(); ++d)
      updates.push_back(shape_[d]);
    const Tensor update = tensor(varied(updates, 0, 2), source_dtype());
    const int64_t which = draw_.between(0, 5);
    set("tensor_scatter_nd", [=](const Tensor& x) {
      switch (which) {
        case 0:
          return tensor_scatter_nd_update_(x, indices, update);
        case 1:
          return tensor_scatter_nd_add(x, indices, update);
        case 2:
          return tensor_scatter_nd_sub_(x, indices, update);
        case 3:
          return tensor_scatter_nd_max(x, indices, update);
        case 4:
          return tensor_scatter_nd_mul_(x, indices, update);
        default:
          return scatter_nd(indices, update, x.shape());
      }
    });
  }

  void choose_index_put() {
    std::vector<Index> indices;
    const Dims common = {draw_extent()};
    const int64_t count = draw_.between(1, static_cast<int64_t>(shape_.size()) + 1);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t extent = i < shape_.rank() ? shape_[i] : 1;
      if (draw_.chance(15))
        indices.push_back(tensor({extent}, DType::bool_));
      else
        indices.push_back(Index(keys(varied(common, 10, 2), extent), bounds_));
    }
    const Source value = source(draw_.chance(60) ? Dims{} : Dims{common[0]});
    const bool accumulate = draw_.chance(50), in_place = in_place_;
    set("index_put", [=](const Tensor& x) {
      return in_place ? index_put_(x, indices, value, accumulate)
                      : index_put(x, indices, value, accumulate);
    });
  }

  void choose_regular() {
    const int64_t a = draw_.between(-3, 3), b = draw_.between(-3, 3), offset = draw_.between(-3, 3);
    const int64_t which = draw_.between(0, 3), step = draw_.between(draw_.chance(3) ? -1 : 1, 3);
    const DType dtype = source_dtype();
    const Tensor any = tensor(varied(shape_, 20, 10), dtype);
    const bool in_place = in_place_;
    set("diagonal_scatter", [=](const Tensor& x) {
      if (which == 0) return in_place ? fill_diagonal_(x, 1, a > 0) : fill_diagonal(x, 1, a > 0);
      if (which == 1) {
        const Tensor src = any.diagonal(offset, a, b);
        return in_place ? diagonal_scatter_(x, src, offset, a, b)
                        : diagonal_scatter(x, src, offset, a, b);
      }
      if (which == 2) {
        const Tensor src = any.select(a, b);
        return in_place ? select_scatter_(x, src, a, b) : select_scatter(x, src, a, b);
      }
      const Tensor src = any.slice(a, b, offset, step);
      return in_place ? slice_scatter_(x, src, a, b, offset, step)
                      : slice_scatter(x, src, a, b, offset, step);
    });
  }

  void choose_gather() {
    Dims shape = varied(shape_, 20, 2);
    const Index index = index_of(keys(shape, axis_extent()));
    const Index flat = index_of(keys({draw_extent()}, axis_extent()));
    const int64_t axis = axis_, which = draw_.between(0, 4);
    set("gather", [=](const Tensor& x) {
      switch (which) {
        case 0:
          return gather(x, axis, index);
        case 1:
          return take_along_axis(x, index, axis);
        case 2:
          return index_select(x, axis, flat);
        case 3:
          return gather_nd(x, index);
        default:
          return nonzero(x);
      }
    });
  }

  Draw draw_;
  Draw values_;
  Device device_;
  DType dtype_ = DType::float32;
  ValueKind kind_ = ValueKind::bits;
  Bounds bounds_ = Bounds::error;
  Dims shape_;
  Tensor x_;
  int64_t axis_ = 0;
  bool in_place_ = false;
  std::string name_;
  Function call_;
};

}  // namespace sow::test
