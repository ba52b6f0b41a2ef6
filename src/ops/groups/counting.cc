// SPDX-License-Identifier: Apache-2.0
// Counting: bincount, and which bin an element is in.
#include <algorithm>
#include <cmath>

#include "core/dtype_switch.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "core/threads/parallel.h"
#include "ops/defs.h"
#include "ops/groups/grouping.h"
#include "ops/groups/host.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/groups.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

// -- bincount: the index, and weights if there are any

Meta infer_bincount(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  expect_index_dtype(op, inputs[0].dtype);
  if (inputs[0].shape.size() != 1) {
    fail(ErrorKind::shape, "{}: index has shape {}; it must have one dimension", op,
         inputs[0].shape);
  }
  if (call.attrs.shape.size() != 1 || call.attrs.shape[0] < 0) {
    fail(ErrorKind::argument, "{}: size must be 0 or more", op);
  }
  const bool weighted = inputs.size() > 1;
  if (weighted && !may_equal(inputs[1].shape, inputs[0].shape)) {
    fail(ErrorKind::shape, "{}: weights have shape {}, index {}; they must be equal", op,
         inputs[1].shape, inputs[0].shape);
  }
  expect_held_size(op, call.attrs.held_size, 0, call.attrs.shape[0]);
  return {weighted ? inputs[1].dtype : DType::int64, call.attrs.shape, inputs[0].device};
}

void lower_bincount(const Call& call, const Tensor& out) {
  const bool weighted = call.inputs.size() > 1;
  OpDef op = weighted ? kIndexReduce : kIndexFill;
  op.name = op.in_place_name = op_name(call);
  Call fold{&op, {out, call.inputs[0]}, call.attrs, true};
  fold.attrs.axis = 0;
  fold.attrs.shape = {};
  fold.attrs.reduce = Reduce::add;
  fold.attrs.include_self = false;
  if (weighted) {
    fold.inputs.push_back(call.inputs[1]);
  } else {
    fold.attrs.scalar = Scalar(int64_t{1});
  }
  fill_with(out, false);
  op.lower(fold, out);
}

TensorList grad_bincount(const Backward& b) {
  if (b.call.inputs.size() < 2) return {{}};
  Call call{&kIndexSelect, {b.grad, b.input(0)}, b.call.attrs, false};
  call.attrs.axis = 0;
  call.attrs.shape = {};
  call.attrs.reduce = Reduce::assign;
  return {{}, apply(std::move(call))};
}

uint64_t saves_bincount(const Call&, uint64_t) { return 1; }

// -- bin_index
// ------------------------------------------------------------------------------------------

Meta infer_bin_index(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  if (is_complex(inputs[0].dtype)) {
    fail(ErrorKind::type, "{}: x is {}, which has no order", op, inputs[0].dtype);
  }
  if (!is_floating(inputs[1].dtype) || inputs[1].shape.size() != 1 || inputs[1].shape[0] == 0) {
    fail(ErrorKind::argument,
         "{}: edges are {} of shape {}; they must be floating, and one dimension of at least one",
         op, inputs[1].dtype, inputs[1].shape);
  }
  return {DType::int64, inputs[0].shape, inputs[0].device};
}

// A float64 and an int64 compare exactly as these.
using Wide = long double;

Tensor bin_index_now(const Call& call) {
  const Tensor x = call.inputs[0].to(Device{}).contiguous();
  const Tensor edges = to(call.inputs[1].to(Device{}), DType::float64).contiguous();
  const double* edge = edges.data<const double>();
  const int64_t count = edges.numel(), bins = count - 1;
  for (int64_t i = 0; i < count; ++i) {
    const bool ascends = edge[i] == edge[i] && (i == 0 || edge[i - 1] <= edge[i]);
    if (!ascends) {
      fail(ErrorKind::argument, "{}: edges[{}] is {}; edges must ascend, without NaN",
           op_name(call), i, edge[i]);
    }
  }
  const Tensor out = Tensor::empty(x.shape(), DType::int64);
  int64_t* bin = out.data<int64_t>();
  // Where the bin would be if all were equally wide, or -1; what it says is looked at first.
  const double width = bins > 0 ? edge[bins] - edge[0] : 0;
  const double scale = static_cast<double>(bins) / width;
  const bool guesses = std::isfinite(scale) && std::isfinite(width);
  const auto guess = [=](double value) {
    const double at = (value - edge[0]) * scale;
    return guesses && at >= 0 && at < static_cast<double>(bins) ? static_cast<int64_t>(at)
                                                                : int64_t{-1};
  };
  with_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_constructible_v<double, T>) {
      const T* from = static_cast<const T*>(x.data());
      constexpr bool kWhole = std::is_integral_v<T> && sizeof(T) == 8;
      parallel_for(0, x.numel(), 1 << 12, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const auto place = [&](auto value) {
            const int64_t near = guess(static_cast<double>(value));
            if (near >= 0 && decltype(value)(edge[near]) <= value &&
                value < decltype(value)(edge[near + 1])) {
              return near;
            }
            const double* at = std::upper_bound(
                edge, edge + count, value, [](auto a, double b) { return a < decltype(a)(b); });
            const int64_t found = at - edge - 1;
            if (found == bins && value == decltype(value)(edge[bins]) && bins > 0) return bins - 1;
            return found < 0 || !(value == value) ? bins : found;
          };
          if constexpr (kWhole) {
            bin[i] = place(static_cast<Wide>(from[i]));
          } else {
            bin[i] = place(static_cast<double>(from[i]));
          }
        }
      });
    }
  });
  return out.to(call.inputs[0].device());
}

}  // namespace

const OpDef kBincount{.name = "bincount",
                      .in_place_name = nullptr,
                      .infer = infer_bincount,
                      .lower = lower_bincount,
                      .gradient = grad_bincount,
                      .saves = saves_bincount};
const OpDef kBinIndex{.name = "bin_index",
                      .in_place_name = nullptr,
                      .infer = infer_bin_index,
                      .dynamic = bin_index_now};

}  // namespace detail

Tensor bincount(const Index& index, const std::optional<Tensor>& weights,
                std::optional<int64_t> size) {
  detail::Call call;
  call.op = &detail::kBincount;
  detail::add_index(call, index);
  if (!index.held()) {
    call.inputs[0] = unwrapped(call.inputs[0], index.bounds(), "bincount");
  }
  if (weights) call.inputs.push_back(*weights);
  const Index keys(call.inputs[0], index.bounds());
  call.attrs.shape = {size ? *size
                           : detail::size_of_groups("bincount", index.held() ? index : keys)};
  return detail::apply(std::move(call));
}

Tensor bin_index(const Tensor& x, const Tensor& edges) {
  return detail::apply_to(detail::kBinIndex, x, edges);
}

}  // namespace sow
