// SPDX-License-Identifier: Apache-2.0
// Segments of an axis, given by CSR pointers: reductions, the way back, and running sums. Pointers
// are read on the host, so that these wait for a device.
#include <algorithm>

#include "core/dtype_switch.h"
#include "core/exact/exact_sum.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/gradients/rule_ops.h"
#include "ops/groups/grouping.h"
#include "ops/groups/host.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/groups.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

void expect_pointers(const Call& call, const Meta& pointers) {
  expect_index_dtype(op_name(call), pointers.dtype);
  if (pointers.shape.size() == 1 && pointers.shape[0] != 0) return;
  fail(ErrorKind::shape,
       "{}: pointers have shape {}; they must have one dimension of one more than the segments",
       op_name(call), pointers.shape);
}

// The pointers on the host, checked: they ascend from 0 or more to `extent` or less.
Tensor checked_pointers(const Call& call, const Tensor& pointers, int64_t extent) {
  const char* op = op_name(call);
  const Tensor host = host_keys(pointers);
  const int64_t* at = host.data<const int64_t>();
  int64_t before = 0;
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (at[i] < before || at[i] > extent) {
      fail(ErrorKind::index,
           "{}: pointers[{}] is {}; pointers must not decrease, and lie between 0 and the {} "
           "slices along the axis",
           op, i, at[i], extent);
    }
    before = at[i];
  }
  return host;
}

int64_t axis_of(const Call& call, const Dims& shape) {
  return wrap_axis(op_name(call), call.attrs.axis, at_least_1d(shape).rank());
}

// -- the segment of each slice; the number of segments where there is none
// -----------------------------------------------------------------------

Meta infer_segment_ids(const Call& call, const Metas& inputs) {
  expect_pointers(call, inputs[0]);
  const Dims shape = at_least_1d(inputs[1].shape);
  return {DType::int64, {shape[axis_of(call, shape)]}, inputs[0].device};
}

Tensor ids_of(const Call& call, const Tensor& pointers, int64_t extent) {
  const Tensor host = checked_pointers(call, pointers, extent);
  const int64_t* at = host.data<const int64_t>();
  const int64_t segments = host.numel() - 1;
  const Tensor ids = Tensor::empty({extent}, DType::int64);
  int64_t* out = ids.data<int64_t>();
  std::fill(out, out + at[0], segments);
  for (int64_t s = 0; s < segments; ++s) std::fill(out + at[s], out + at[s + 1], s);
  std::fill(out + at[segments], out + extent, segments);
  return ids.to(pointers.device());
}

Tensor segment_ids_now(const Call& call) {
  const Dims shape = at_least_1d(call.inputs[1].shape());
  return ids_of(call, call.inputs[0], shape[axis_of(call, shape)]);
}

Tensor segment_ids(const Backward& b, const Tensor& over) {
  Call call = make_call(kSegmentIds, false, b.input(1));
  call.inputs.push_back(over);
  call.attrs.axis = b.call.attrs.axis;
  return apply(std::move(call));
}

// -- reductions
// ------------------------------------------------------------------------------------------

// The same by group, whose index is given.
Call by_group(const Call& call, const Tensor& ids) {
  Call groups = call;
  groups.inputs[1] = ids;
  groups.attrs.bounds = Bounds::drop;
  groups.attrs.shape = {call.inputs[1].shape()[0] - 1};
  return groups;
}

Meta infer_segment_reduce(const Call& call, const Metas& inputs) {
  expect_pointers(call, inputs[1]);
  const Dims shape = at_least_1d(inputs[0].shape);
  Call groups{call.op, {}, call.attrs, false};
  groups.attrs.shape = {0};
  Metas metas = inputs;
  metas[1].shape = {shape[axis_of(call, shape)]};
  Meta out = infer_group_reduce(groups, metas);
  const int64_t pointers = inputs[1].shape[0];
  out.shape[axis_of(call, shape)] = known(pointers) ? pointers - 1 : -1;
  return out;
}

Tensor segment_reduce_now(const Call& call) {
  Metas metas;
  for (const Tensor& input : call.inputs) metas.push_back(meta_of(input));
  const Meta meta = infer_segment_reduce(call, metas);
  const Dims shape = at_least_1d(call.inputs[0].shape());
  const Call groups = by_group(call, ids_of(call, call.inputs[1], shape[axis_of(call, shape)]));
  const Tensor out = Tensor::empty(meta.shape, meta.dtype, meta.device);
  lower_groups(groups, Grouping(groups), out);
  return out;
}

TensorList grad_segment_reduce(const Backward& b) {
  const Call groups = by_group(b.call, segment_ids(b, b.input(0)));
  TensorList out(b.call.inputs.size());
  out[0] = group_gradient({groups, b.result, b.grad, b.needs_mask}, Grouping(groups));
  return out;
}

// -- gather_csr
// ------------------------------------------------------------------------------------------

Meta infer_gather_csr(const Call& call, const Metas& inputs) {
  expect_pointers(call, inputs[1]);
  Meta out = inputs[0];
  out.shape = at_least_1d(out.shape);
  const int64_t axis = axis_of(call, out.shape);
  if (!may_equal(out.shape[axis], inputs[1].shape[0] - 1)) {
    fail(ErrorKind::shape,
         "{}: src {} has {} slices along axis {}, but pointers {} have {} segments", op_name(call),
         inputs[0].shape, out.shape[axis], axis, inputs[1].shape, inputs[1].shape[0] - 1);
  }
  if (call.attrs.shape.size() != 1 || call.attrs.shape[0] < 0) {
    fail(ErrorKind::argument, "{}: size must be 0 or more", op_name(call));
  }
  out.shape[axis] = call.attrs.shape[0];
  return out;
}

Tensor gather_csr_now(const Call& call) {
  const Tensor ids = ids_of(call, call.inputs[1], call.attrs.shape[0]);
  return index_select(call.inputs[0], call.attrs.axis, Index(ids, Bounds::drop));
}

TensorList grad_gather_csr(const Backward& b) {
  return {reshape_like(segment_reduce(b.grad, b.input(1), "sum", b.call.attrs.axis), b.input(0)),
          {}};
}

// -- running sums
// ------------------------------------------------------------------------------------------

Meta infer_cumsum(const Call& call, const Metas& inputs) {
  expect_pointers(call, inputs[1]);
  axis_of(call, inputs[0].shape);
  if (inputs[0].dtype == DType::bool_) {
    fail(ErrorKind::type, "{}: bool has no running sum", op_name(call));
  }
  return inputs[0];
}

template <class T>
struct Running {
  LongAccumulator<T> sum;
  void add(T value) { sum.add(value); }
  T value() const { return sum.round(); }
};
template <class R>
struct Running<std::complex<R>> {
  LongAccumulator<R> re, im;
  void add(std::complex<R> value) { re.add(value.real()), im.add(value.imag()); }
  std::complex<R> value() const { return {re.round(), im.round()}; }
};
template <class T>
requires std::is_integral_v<T>
struct Running<T> {
  uint64_t sum = 0;
  void add(T value) { sum += static_cast<uint64_t>(value); }
  T value() const { return static_cast<T>(sum); }
};

// One run of a column, forwards or from its end; `out` holds zeros.
template <class T>
void run_sums(const T* x, T* out, int64_t count, int64_t stride, bool exclusive, bool backwards) {
  Running<T> sum;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = (backwards ? count - 1 - i : i) * stride;
    const T value = x[at];
    if (exclusive && i != 0) out[at] = sum.value();
    sum.add(value);
    if (!exclusive) out[at] = sum.value();
  }
}

Tensor cumsum_now(const Call& call) {
  const Tensor x = call.inputs[0].to(Device{}).contiguous();
  const Dims shape = at_least_1d(x.shape());
  const int64_t axis = axis_of(call, shape), extent = shape[axis];
  const Tensor host = checked_pointers(call, call.inputs[1], extent);
  const int64_t* pointers = host.data<const int64_t>();
  const Tensor out = Tensor::zeros(x.shape(), x.dtype());
  int64_t outer = 1, inner = 1;
  for (int64_t d = 0; d < shape.rank(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : shape[d];
  with_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) {
      const T* from = static_cast<const T*>(x.data());
      T* to = static_cast<T*>(out.data());
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t s = 0; s + 1 < host.numel(); ++s) {
          for (int64_t c = 0; c < inner; ++c) {
            const int64_t at = (o * extent + pointers[s]) * inner + c;
            run_sums(from + at, to + at, pointers[s + 1] - pointers[s], inner,
                     call.attrs.accumulate, call.attrs.wrap);
          }
        }
      }
    }
  });
  return out.to(call.inputs[0].device());
}

// The running sum from the other end.
TensorList grad_cumsum(const Backward& b) {
  Call call{&kSegmentCumsum, {b.grad, b.input(1)}, b.call.attrs, false};
  call.attrs.wrap = !call.attrs.wrap;
  return {apply(std::move(call)), {}};
}

uint64_t saves_pointers(const Call&, uint64_t) { return 2; }

}  // namespace

const OpDef kSegmentIds{.name = "segment_ids",
                        .in_place_name = nullptr,
                        .infer = infer_segment_ids,
                        .dynamic = segment_ids_now,
                        .shape_only = 2};
const OpDef kSegmentReduce{.name = "segment_reduce",
                           .in_place_name = nullptr,
                           .infer = infer_segment_reduce,
                           .dynamic = segment_reduce_now,
                           .gradient = grad_segment_reduce,
                           .saves = saves_group_reduce};
const OpDef kGatherCsr{.name = "gather_csr",
                       .in_place_name = nullptr,
                       .infer = infer_gather_csr,
                       .dynamic = gather_csr_now,
                       .gradient = grad_gather_csr,
                       .saves = saves_pointers};
const OpDef kSegmentCumsum{.name = "segment_cumsum",
                           .in_place_name = nullptr,
                           .infer = infer_cumsum,
                           .dynamic = cumsum_now,
                           .gradient = grad_cumsum,
                           .saves = saves_pointers};

}  // namespace detail

Tensor segment_reduce(const Tensor& src, const Tensor& pointers, std::string_view reduce,
                      int64_t axis, int64_t correction, bool last_of_ties) {
  detail::Call call = detail::make_call(detail::kSegmentReduce, false, src);
  call.inputs.push_back(detail::index_keys(pointers));
  call.attrs.axis = axis;
  call.attrs.wrap = last_of_ties;
  detail::set_group_reduction(call, reduce, correction);
  return detail::apply(std::move(call));
}

Tensor gather_csr(const Tensor& src, const Tensor& pointers, int64_t axis,
                  std::optional<int64_t> size) {
  detail::Call call = detail::make_call(detail::kGatherCsr, false, src);
  call.inputs.push_back(detail::index_keys(pointers));
  call.attrs.axis = axis;
  if (!size) size = detail::last_pointer("gather_csr", call.inputs[1]);
  call.attrs.shape = {*size};
  return detail::apply(std::move(call));
}

Tensor segment_cumsum(const Tensor& src, const Tensor& pointers, int64_t axis, bool exclusive) {
  detail::Call call = detail::make_call(detail::kSegmentCumsum, false, src);
  call.inputs.push_back(detail::index_keys(pointers));
  call.attrs.axis = axis;
  call.attrs.accumulate = exclusive;
  return detail::apply(std::move(call));
}

}  // namespace sow
