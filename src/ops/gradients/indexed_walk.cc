// SPDX-License-Identifier: Apache-2.0
// The gradients of indexed scatters in one walk: at once where there is data, and in programs as
// operations that are planned like any other.
#include "core/device_table.h"
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "core/text.h"
#include "ops/gradients/indexed_call.h"
#include "sow/autograd.h"
#include "transfer/indexed_backward.h"
#include "transfer/plan/plan.h"
#include "transfer/recorder.h"

namespace sow::detail {

namespace {

// Keeps what would have run.
class LastTransfer final : public Recorder {
 public:
  void record(const Transfer& one, Device) override { transfer = one; }
  void record(const Map&, Device) override {}
  void record(const IndexedBackward&, const Transfer&) override {}
  char* reserve(size_t) override { return nullptr; }
  Transfer transfer;
};

// A tensor of this shape whose elements are never read.
Tensor shape_alone(const Tensor& any, const Dims& shape) {
  auto impl = std::make_shared<TensorImpl>(*any.impl());
  impl->shape = shape;
  impl->strides = row_major_strides(shape);
  impl->numel = checked_numel(shape, 1, "gradient");
  return Tensor(std::move(impl));
}

// The Transfer of a scatter from the index's positions, without running it; `call` has the
// destination and the indices.
Transfer places_of(Call call, const IndexedFamily& family, const Dims& space) {
  const Tensor onto = call.inputs[0];
  call.op = family.scatter;
  call.inputs.push_back(shape_alone(onto, space));
  call.attrs.reduce = Reduce::add;
  call.attrs.accumulate = true;
  call.in_place = true;
  LastTransfer recorder;
  const RecordWith guard(&recorder);
  call.op->lower(call, onto);
  return recorder.transfer;
}

bool is_symbolic(const Tensor& tensor) { return tensor.impl()->symbolic != nullptr; }
bool reads_values(Reduce reduce) { return reduce != Reduce::assign && reduce != Reduce::mean; }
bool reads_result(Reduce reduce) { return reduce == Reduce::amax || reduce == Reduce::amin; }
char* data_of(const Tensor& t) { return t.defined() ? static_cast<char*>(t.data()) : nullptr; }

// What the destination's gradient is where no update came.
Tensor untouched(const Backward& b, const Indexed& call) {
  const bool shares = call.reduce() != Reduce::assign && call.reduce() != Reduce::mul;
  if (call.include_self() && shares) return share(b.grad, Tensor::ones({}, DType::int64));
  return b.grad.clone();
}

// -- at once
// -------------------------------------------------------------------------------------------

// Every update of a destination gets the same share: it is worked out once, and gathered.
Pair run_mean(const Backward& b, const Indexed& call, bool wants_source, IndexedBackward& work,
              const Transfer& places) {
  const bool self = call.include_self();
  const bool whole = self && b.needs(0);
  const Tensor part = whole ? untouched(b, call) : Tensor::empty(call.x().shape(), work.dtype);
  work.x_grad = data_of(part);
  execute(work, places);
  Pair out;
  if (b.needs(0)) out.x = self ? part : call.cleared();
  if (wants_source) out.source = call.to_source(call.gather(part));
  return out;
}

Pair run_walk(const Backward& b, const Indexed& call, bool wants_source, IndexedBackward& work,
              const Transfer& places) {
  const Dims space = call.space();
  Tensor x, result, source, source_grad;
  if (wants_source) source_grad = Tensor::empty(space, work.dtype);
  if (reads_values(call.reduce())) {
    if (call.include_self()) x = call.x().contiguous();
    if (reads_result(call.reduce())) result = b.result.contiguous();
    source = call.source_over(shape_alone(b.grad, space)).contiguous();
  }
  Pair out;
  if (b.needs(0)) out.x = untouched(b, call);
  if (wants_source && b.call.attrs.bounds == Bounds::drop) source_grad.fill_(0);
  work.result = data_of(result);
  work.x = data_of(x);
  work.source = data_of(source);
  work.x_grad = data_of(out.x);
  work.source_grad = data_of(source_grad);
  execute(work, places);
  source = Tensor();  // a copy of it, if it is one, need not live while the gradient is summed
  if (wants_source) out.source = call.to_source(source_grad);
  return out;
}

bool run_now(const Backward& b, const Indexed& call, bool wants_source, Pair& out) {
  const Dims space = call.space();
  for (const int64_t extent : space) {
    if (extent <= 0) return false;
  }
  const Tensor grad = b.grad.contiguous();
  const Transfer places =
      places_of(call.with_index(*call.family().scatter, grad), call.family(), space);
  if (places.dst.data == nullptr || !can_run_indexed_backward(places)) return false;
  if (std::string* words = current_explanation()) {
    *words += text("{}: gradient of {} over {}, each destination's updates in one walk\n",
                   b.call.op->name, name_of(call.reduce()), space);
    *words += places.order != nullptr ? "  index        held: ordered once, used again\n"
                                      : "  index        ordered here\n";
  }
  IndexedBackward work;
  work.reduce = call.reduce();
  work.include_self = call.include_self();
  work.dtype = call.x().dtype();
  work.grad = data_of(grad);
  out = call.reduce() == Reduce::mean ? run_mean(b, call, wants_source, work, places)
                                      : run_walk(b, call, wants_source, work, places);
  return true;
}

// On a device, where it has a way of its own.
bool run_on_device(const Backward& b, const Indexed& call, bool wants_source, Pair& out) {
  const Device device = b.grad.device();
  const DeviceTable& table = device_table(device.type);
  const Dims space = call.space();
  bool empty = false;
  for (const int64_t extent : space) empty = empty || extent <= 0;
  if (empty || table.backward == nullptr || current_explanation() != nullptr) return false;
  const bool assign = call.reduce() == Reduce::assign;
  if (assign && !wants_source) return false;
  const Tensor grad = b.grad.contiguous();
  const Transfer places =
      places_of(call.with_index(*call.family().scatter, grad), call.family(), space);
  if (places.dst.data == nullptr) return false;
  const bool self = call.include_self(), mean = call.reduce() == Reduce::mean;
  Tensor x, result, source, x_grad, source_grad;
  if (mean)
    x_grad = Tensor::empty(grad.shape(), grad.dtype(), device);  // the share of every update
  const bool reads = reads_values(call.reduce());
  if (reads) source = call.source_over(shape_alone(b.grad, space)).contiguous();
  if (reads && self) x = call.x().contiguous();
  if (reads_result(call.reduce())) result = b.result.contiguous();
  // Where no update came the destination keeps its gradient.
  if (reads && b.needs(0) && (self || reads_result(call.reduce()))) x_grad = grad.clone();
  if (!mean && wants_source) source_grad = Tensor::empty(space, grad.dtype(), device);
  IndexedBackward work;
  work.reduce = call.reduce();
  work.include_self = self;
  work.dtype = grad.dtype();
  work.grad = data_of(grad);
  work.result = data_of(result);
  work.x = data_of(x);
  work.source = data_of(source);
  work.x_grad = data_of(x_grad);
  work.source_grad = data_of(source_grad);
  if (!table.backward(work, places, grad.numel(), device.index)) return false;
  if (b.needs(0))
    out.x = reads && x_grad.defined() ? x_grad : mean && self ? x_grad : call.cleared();
  if (wants_source) out.source = call.to_source(mean ? call.gather(x_grad) : source_grad);
  return true;
}

// -- in programs
// ---------------------------------------------------------------------------------------

// Inputs: the result's gradient, the indices, and of what the reduction reads the destination, the
// result and the source over the index's positions. attrs.accumulate: a destination's gradient is
// wanted where no update came, too.
struct WalkCall {
  explicit WalkCall(const Call& call) : values(call.inputs.size()) {
    if (!reads_values(call.attrs.reduce)) return;
    const size_t count =
        (call.attrs.include_self ? 1 : 0) + (reads_result(call.attrs.reduce) ? 1 : 0) + 1;
    values -= count;
  }
  size_t values;  // where they begin
};

Call gather_call(const Call& call, const IndexedFamily& family) {
  Call gather{family.gather, {}, call.attrs, false};
  gather.attrs.reduce = Reduce::assign;
  gather.attrs.accumulate = false;
  const size_t end = WalkCall(call).values;
  for (size_t i = 0; i < end; ++i) gather.inputs.push_back(call.inputs[i]);
  return gather;
}

void lower_walk(const Call& call, const IndexedFamily& family, const Dims& space, char* x_grad,
                char* source_grad) {
  IndexedBackward work;
  work.reduce = call.attrs.reduce;
  work.include_self = call.attrs.include_self;
  work.dtype = call.inputs[0].dtype();
  const Tensor grad = call.inputs[0].contiguous();
  Call indexed = gather_call(call, family);
  indexed.inputs[0] = grad;
  size_t at = indexed.inputs.size();
  TensorList dense;  // until the work was handed on
  const auto next = [&] {
    dense.push_back(call.inputs[at++].contiguous());
    return data_of(dense.back());
  };
  work.grad = data_of(grad);
  if (reads_values(work.reduce)) {
    if (work.include_self) work.x = next();
    if (reads_result(work.reduce)) work.result = next();
    work.source = next();
  }
  work.x_grad = x_grad;
  work.source_grad = source_grad;
  execute(work, places_of(std::move(indexed), family, space));
}

}  // namespace

Meta infer_walk_source(const Call& call, const Metas& inputs, const IndexedFamily& family) {
  const Call gather = gather_call(call, family);
  Metas indexed = inputs;
  indexed.shrink(gather.inputs.size());
  return gather.op->infer(gather, indexed);
}

void lower_walk_source(const Call& call, const Tensor& out, const IndexedFamily& family) {
  if (call.attrs.bounds == Bounds::drop) fill_zeros(call, out);
  lower_walk(call, family, out.shape(), nullptr, data_of(out));
}

Meta infer_walk_destination(const Call&, const Metas& inputs) { return inputs[0]; }

void lower_walk_destination(const Call& call, const Tensor& out, const IndexedFamily& family) {
  const bool whole = call.attrs.accumulate;
  if (whole && call.attrs.reduce == Reduce::mul) copy_into(out, call.inputs[0], op_name(call));
  if (whole && call.attrs.reduce != Reduce::mul) share_into(out, call.inputs[0], 1);
  const Call gather = gather_call(call, family);
  Metas metas;
  for (const Tensor& input : gather.inputs) metas.push_back(meta_of(input));
  lower_walk(call, family, gather.op->infer(gather, metas).shape, data_of(out), nullptr);
}

namespace {

bool may_record(const Backward& b, const Indexed& call) {
  if (!call.has_source() || call.family().walk_source == nullptr) return false;
  const auto few = [](const Dims& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) {
      if (extent <= 0 || extent > (int64_t{1} << 31) / count) return false;
      count *= extent;
    }
    return true;
  };
  return few(call.space()) && few(b.grad.shape());
}

Pair record_walk(const Backward& b, const Indexed& call, bool wants_source) {
  const Tensor space = call.gather(b.grad);  // for its shape alone
  const bool mean = call.reduce() == Reduce::mean;
  const bool shares = b.needs(0) && call.include_self() && call.reduce() != Reduce::assign;
  const auto walk = [&](const OpDef& op) {
    Call one = call.with_index(op, b.grad);
    one.attrs.reduce = call.reduce();
    one.attrs.accumulate = shares;
    if (reads_values(call.reduce())) {
      if (call.include_self()) one.inputs.push_back(call.x());
      if (reads_result(call.reduce())) one.inputs.push_back(b.result);
      one.inputs.push_back(call.source_over(space));
    }
    return apply(std::move(one));
  };
  Pair out;
  Tensor part;
  if (mean || shares) part = walk(*call.family().walk_destination);
  if (b.needs(0)) out.x = shares ? part : call.cleared();
  if (wants_source) {
    out.source = call.to_source(mean ? call.gather(part) : walk(*call.family().walk_source));
  }
  return out;
}

}  // namespace

bool walk_rule(const Backward& b, const Indexed& call, bool wants_source, Pair& out) {
  if (grad_enabled() || call.reduce() == Reduce::add) return false;  // a gather is all there is
  if (!wants_source && !call.include_self()) return false;
  bool symbolic = is_symbolic(b.grad);
  for (const Tensor& input : b.call.inputs) symbolic = symbolic || is_symbolic(input);
  if (b.grad.device().type != DeviceType::cpu) {
    return !symbolic && run_on_device(b, call, wants_source, out);
  }
  if (!symbolic) return run_now(b, call, wants_source, out);
  if (!may_record(b, call)) return false;
  out = record_walk(b, call, wants_source);
  return true;
}

}  // namespace sow::detail
