// The gradient rules of indexed scatters: docs/gradients.md has them in one table.
#include "ops/indexed_grad.h"

#include "core/layout.h"
#include "core/tensor_impl.h"
#include "core/text.h"
#include "cpu/indexed_backward.h"
#include "ops/like.h"
#include "ops/rule_ops.h"
#include "sow/autograd.h"
#include "sow/math.h"
#include "transfer/plan.h"
#include "transfer/recorder.h"

namespace sow::detail {

namespace {

size_t source_at(const Call& call) {
  return call.attrs.scalar ? call.inputs.size() : call.inputs.size() - 1;
}

// The accumulation type of products.
DType wide_dtype(DType dtype) { return is_complex(dtype) ? DType::complex128 : DType::float64; }

// Keeps what would have run.
class LastTransfer final : public Recorder {
 public:
  void record(const Transfer& one, Device) override { transfer = one; }
  void record(const Map&, Device) override {}
  char* reserve(size_t) override { return nullptr; }
  Transfer transfer;
};

// One call seen through its family: the same index, other tensors.
class Indexed {
 public:
  Indexed(const Backward& b, const IndexedFamily& family) : b_(b), family_(family) {}

  const Tensor& x() const { return b_.input(0); }
  bool has_source() const { return !b_.call.attrs.scalar.has_value(); }
  const Tensor& source() const { return b_.call.inputs.back(); }
  Reduce reduce() const { return b_.call.attrs.reduce; }
  bool include_self() const { return b_.call.attrs.include_self; }

  Tensor gather(const Tensor& from) const {
    Call call = with_index(*family_.gather, from);
    return apply(std::move(call));
  }

  Tensor scatter(const Tensor& onto, const Source& source, Reduce reduce, bool include_self) const {
    Call call = with_index(source.is_tensor() ? *family_.scatter : *family_.fill, onto);
    if (source.is_tensor()) {
      call.inputs.push_back(source.tensor());
    } else {
      call.attrs.scalar = source.scalar();
    }
    call.attrs.reduce = reduce;
    call.attrs.include_self = include_self;
    call.attrs.accumulate = reduce == Reduce::add;
    return apply(std::move(call));
  }

  // The source over the positions of the index, which `space` has, and the way back.
  Tensor source_over(const Tensor& space) const {
    if (!has_source()) return full_like(space, *b_.call.attrs.scalar, x().dtype());
    if (is_corner()) return corner_like(source(), space);
    if (source().dim() > space.dim()) return reshape_like(source(), space);
    return expand_like(source(), space);
  }
  Tensor to_source(const Tensor& grad) const {
    if (is_corner()) return pad_like(grad, source());
    if (source().dim() > grad.dim()) return reshape_like(grad, source());
    return sum_to(grad, source());
  }

  // A tensor that has the shape of the index's positions, and no memory of its own to read.
  static Tensor shape_of_space(const Tensor& any, const Dims& space) {
    auto impl = std::make_shared<TensorImpl>(*any.impl());
    impl->shape = space;
    impl->strides = row_major_strides(space);
    impl->numel = 1;
    for (const int64_t extent : space) impl->numel *= extent;
    return Tensor(std::move(impl));
  }

  // The Transfer of the scatter `onto` a tensor from another, without running it.
  Transfer places(const Tensor& onto, const Tensor& from) const {
    Call call = with_index(*family_.scatter, onto);
    call.inputs.push_back(from);
    call.attrs.reduce = Reduce::add;
    call.attrs.accumulate = true;
    call.in_place = true;
    LastTransfer recorder;
    const RecordWith guard(&recorder);
    call.op->lower(call, onto);
    return recorder.transfer;
  }
  // The shape of the index's positions; an extent of -1 depends on data.
  Dims space() const {
    const Call call = with_index(*family_.gather, x());
    std::vector<Meta> metas;
    for (const Tensor& input : call.inputs) metas.push_back(meta_of(input));
    return call.op->infer(call, metas).shape;
  }

  // g with zeros wherever the index points.
  Tensor cleared() const { return scatter(b_.grad, 0, Reduce::assign, true); }
  Tensor counts() const {
    const Tensor self = full_like(x(), include_self() ? 1 : 0, DType::int64);
    return scatter(self, 1, Reduce::add, true);
  }
  // Where an update is the last one of its place, over the positions.
  Tensor winners(const Tensor& space) const {
    int64_t first = 0, last = 0;
    family_.items(b_.call, space.dim(), first, last);
    const Tensor position = positions_like(space, first, last);
    const Tensor none = full_like(x(), -1, DType::int64);
    const Tensor winner = scatter(none, expand_like(position, space), Reduce::assign, true);
    return eq(gather(winner), position);
  }

 private:
  bool is_corner() const { return !b_.call.attrs.broadcast; }

  Call with_index(const OpDef& op, const Tensor& first) const {
    Call call;
    call.op = &op;
    call.attrs = b_.call.attrs;
    call.attrs.scalar.reset();
    call.attrs.reduce = Reduce::assign;
    call.attrs.accumulate = false;
    call.inputs.push_back(first);
    for (size_t i = 1; i < source_at(b_.call); ++i) call.inputs.push_back(b_.input(i));
    return call;
  }

  const Backward& b_;
  const IndexedFamily& family_;
};

struct Pair {
  Tensor x, source;
};

Pair assign_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (b.needs(0)) out.x = call.cleared();
  if (!wants_source) return out;
  const Tensor grad = call.gather(b.grad);
  out.source = call.to_source(where(call.winners(grad), grad, 0));
  return out;
}

Pair add_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (b.needs(0)) out.x = call.include_self() ? b.grad : call.cleared();
  if (wants_source) out.source = call.to_source(call.gather(b.grad));
  return out;
}

Pair mean_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (!wants_source && !call.include_self()) return {call.cleared(), {}};
  const Tensor part = share(b.grad, call.counts());
  if (b.needs(0)) out.x = call.include_self() ? part : call.cleared();
  if (wants_source) out.source = call.to_source(call.gather(part));
  return out;
}

Pair extreme_rule(const Backward& b, const Indexed& call, bool wants_source) {
  Pair out;
  if (!wants_source && !call.include_self()) return {call.cleared(), {}};
  const Tensor best = call.gather(b.result);
  const Tensor attains = same(call.source_over(best), best);
  Tensor self_attains;
  Tensor self = full_like(call.x(), 0, DType::int64);
  if (call.include_self()) {
    self_attains = same(call.x(), b.result);
    self = to(self_attains, DType::int64);
  }
  const Tensor ties = call.scatter(self, to(attains, DType::int64), Reduce::add, true);
  const Tensor part = share(b.grad, ties);
  if (b.needs(0)) out.x = call.include_self() ? where(self_attains, part, 0) : call.cleared();
  if (wants_source) out.source = call.to_source(where(attains, call.gather(part), 0));
  return out;
}

// -- products
// ------------------------------------------------------------------------------------------

// What the factors of a destination come to, with zeros set aside: the product of the others, how
// many zeros there are, and their sum (zero, but with derivatives).
struct Factors {
  Tensor zeros;    // int64
  Tensor product;  // of the factors that are not zero
  Tensor vanishing;
};

// The derivative by factors f, given zeros, g * product and the vanishing sum of their places:
// with no zero among the others (g * P) / f; else zero, which one more derivative may not find so.
Tensor others(const Tensor& f, const Tensor& zeros, const Tensor& weighted,
              const Tensor& vanishing) {
  const Tensor is_zero = eq(f, 0);
  const Tensor quotient = div(weighted, where(is_zero, 1, f));
  const Tensor alone = eq(zeros, to(is_zero, DType::int64));
  if (!grad_enabled()) return where(alone, quotient, 0);
  // One zero elsewhere: the product of the rest has it as a factor.
  const Tensor elsewhere = eq(zeros, add(to(is_zero, DType::int64), 1));
  const Tensor rest = mul(quotient, sub(vanishing, where(is_zero, f, 0)));
  return where(alone, quotient, where(elsewhere, vanish(rest), 0));
}

Pair product_rule(const Backward& b, const Indexed& call, bool wants_source) {
  if (!wants_source && !call.include_self()) return {call.cleared(), {}};
  const DType dtype = call.x().dtype(), wide = wide_dtype(dtype);
  const Tensor space = call.gather(b.grad);
  const Tensor over = call.source_over(space);
  const bool self = call.include_self();

  Tensor self_zero = full_like(call.x(), 0, DType::int64);
  if (self) self_zero = to(eq(call.x(), 0), DType::int64);
  const Tensor source_zero = eq(over, 0);
  Factors factors;
  factors.zeros = call.scatter(self_zero, to(source_zero, DType::int64), Reduce::add, true);

  // Third derivatives are refused where they would be wrong: at the gate.
  const auto widened = [&](const Tensor& t) {
    return conj(to(grad_enabled() ? product_gate(t, factors.zeros) : t, wide));
  };
  const Tensor f = widened(over);
  const Tensor f_self = self ? widened(call.x()) : full_like(call.x(), 1, wide);
  const Tensor ones = where(eq(f_self, 0), 1, f_self);
  factors.product = call.scatter(ones, where(source_zero, 1, f), Reduce::mul, self);
  if (grad_enabled()) {
    const Tensor from_self = where(eq(f_self, 0), f_self, 0);
    factors.vanishing = call.scatter(from_self, where(source_zero, f, 0), Reduce::add, true);
  }

  const Tensor weighted = mul(to(b.grad, wide), factors.product);
  Pair out;
  if (wants_source) {
    const Tensor vanishing = grad_enabled() ? call.gather(factors.vanishing) : Tensor();
    Tensor part = others(f, call.gather(factors.zeros), call.gather(weighted), vanishing);
    if (b.call.attrs.bounds == Bounds::drop) {
      part = where(call.gather(full_like(call.x(), true, DType::bool_)), part, 0);
    }
    out.source = call.to_source(to(part, dtype));
  }
  if (b.needs(0) && !self) out.x = call.cleared();
  if (b.needs(0) && self) {
    const Tensor touched =
        call.scatter(full_like(call.x(), false, DType::bool_), true, Reduce::assign, true);
    const Tensor part = others(f_self, factors.zeros, weighted, factors.vanishing);
    out.x = where(touched, to(part, dtype), b.grad);
  }
  return out;
}

Pair composed_rule(const Backward& b, const Indexed& call, bool wants_source) {
  switch (call.reduce()) {
    case Reduce::assign:
      return assign_rule(b, call, wants_source);
    case Reduce::add:
      return add_rule(b, call, wants_source);
    case Reduce::mean:
      return mean_rule(b, call, wants_source);
    case Reduce::mul:
      return product_rule(b, call, wants_source);
    default:
      return extreme_rule(b, call, wants_source);
  }
}

// -- all in one walk
// -----------------------------------------------------------------------------------

bool may_fuse(const Backward& b, const Indexed& call) {
  if (grad_enabled() || call.reduce() == Reduce::add) return false;  // a gather is all there is
  for (const Tensor& input : b.call.inputs) {
    if (input.impl()->symbolic != nullptr) return false;
  }
  return b.grad.impl()->symbolic == nullptr && b.grad.device().type == DeviceType::cpu;
}

// What the destination's gradient is where no update came.
Tensor untouched(const Backward& b, const Indexed& call) {
  const bool shares = call.reduce() != Reduce::assign && call.reduce() != Reduce::mul;
  if (call.include_self() && shares) return share(b.grad, Tensor::ones({}, DType::int64));
  return b.grad.clone();
}

char* data_of(const Tensor& t) { return t.defined() ? static_cast<char*>(t.data()) : nullptr; }

// Every update of a destination gets the same share: it is worked out once, and gathered.
Pair run_mean(const Backward& b, const Indexed& call, bool wants_source, IndexedBackward& work) {
  const bool self = call.include_self();
  const bool whole = self && b.needs(0);
  const Tensor part = whole ? untouched(b, call) : Tensor::empty(call.x().shape(), work.dtype);
  work.x_grad = data_of(part);
  run_indexed_backward(work);
  Pair out;
  if (b.needs(0)) out.x = self ? part : call.cleared();
  if (wants_source) out.source = call.to_source(call.gather(part));
  return out;
}

Pair run_walk(const Backward& b, const Indexed& call, bool wants_source, const Dims& space,
              IndexedBackward& work) {
  const bool reads_values = call.reduce() != Reduce::assign;
  Tensor x, result, source, source_grad;
  if (reads_values && call.include_self()) x = call.x().contiguous();
  if (reads_values && call.reduce() != Reduce::mul) result = b.result.contiguous();
  if (reads_values) source = call.source_over(Indexed::shape_of_space(b.grad, space)).contiguous();
  Pair out;
  if (b.needs(0)) out.x = untouched(b, call);
  if (wants_source) source_grad = Tensor::empty(space, work.dtype);
  if (wants_source && b.call.attrs.bounds == Bounds::drop) source_grad.fill_(0);
  work.result = data_of(result);
  work.x = data_of(x);
  work.source = data_of(source);
  work.x_grad = data_of(out.x);
  work.source_grad = data_of(source_grad);
  run_indexed_backward(work);
  source = Tensor();  // a copy of it, if it is one, need not live while the gradient is summed
  if (wants_source) out.source = call.to_source(source_grad);
  return out;
}

// The same bits as the rules above, without their intermediate tensors.
bool fused_rule(const Backward& b, const Indexed& call, bool wants_source, Pair& out) {
  if (!may_fuse(b, call) || (!wants_source && !call.include_self())) return false;
  const Dims space = call.space();
  for (const int64_t extent : space) {
    if (extent <= 0) return false;
  }
  const Tensor grad = b.grad.contiguous();
  IndexedBackward work;
  work.places = call.places(grad, Indexed::shape_of_space(grad, space));
  if (work.places.dst.data == nullptr || !can_run_indexed_backward(work.places)) return false;
  if (std::string* text = current_explanation()) {
    *text +=
        sow::detail::text("{}: gradient of {} over {}, each destination's updates in one walk\n",
                          b.call.op->name, name_of(call.reduce()), space);
    *text += work.places.order != nullptr ? "  index        held: ordered once, used again\n"
                                          : "  index        ordered here\n";
  }
  work.reduce = call.reduce();
  work.include_self = call.include_self();
  work.dtype = call.x().dtype();
  work.grad = data_of(grad);
  out = call.reduce() == Reduce::mean ? run_mean(b, call, wants_source, work)
                                      : run_walk(b, call, wants_source, space, work);
  return true;
}

}  // namespace

TensorList indexed_gradient(const Backward& b, const IndexedFamily& family) {
  const Indexed call(b, family);
  const size_t at = source_at(b.call);
  const bool wants_source = call.has_source() && b.needs(at);
  Pair pair;
  if (!fused_rule(b, call, wants_source, pair)) pair = composed_rule(b, call, wants_source);
  TensorList out(b.call.inputs.size());
  out[0] = pair.x;
  if (wants_source) out[at] = pair.source;
  return out;
}
uint64_t indexed_saves(const Call& call, uint64_t needs) {
  const Attrs& attrs = call.attrs;
  const size_t at = source_at(call);
  const uint64_t source = uint64_t{1} << at;
  const uint64_t indices = (source - 1) & ~uint64_t{1};
  const bool wants_source = !attrs.scalar && (needs & source) != 0;
  if (!wants_source && (attrs.reduce == Reduce::add && attrs.include_self)) return 0;
  if (!wants_source && !attrs.include_self) return indices;
  const bool reads_values =
      attrs.reduce == Reduce::mul || attrs.reduce == Reduce::amax || attrs.reduce == Reduce::amin;
  if (!reads_values) return indices;
  uint64_t saves = indices;
  if (!attrs.scalar) saves |= source;
  if (attrs.include_self) saves |= 1;
  if (attrs.reduce != Reduce::mul) saves |= kSaveResult;
  return saves;
}

}  // namespace sow::detail
