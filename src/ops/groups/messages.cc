// SPDX-License-Identifier: Apache-2.0
// Messages along edges: what a place receives from the places its edges come from. Sums, means and
// extremes of plain messages are one Transfer that indexes both sides, so no message is written.
#include "core/tensor/layout.h"
#include "core/tensor/tensor_impl.h"
#include "ops/defs.h"
#include "ops/groups/grouping.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/groups.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

// Which message (attrs.offset).
enum class Message : int64_t { add, sub, mul, div };

Message parse_message(const char* op, std::string_view name) {
  static constexpr std::string_view kNames[] = {"add", "sub", "mul", "div"};
  for (int64_t i = 0; i < 4; ++i) {
    if (kNames[i] == name) return static_cast<Message>(i);
  }
  fail(ErrorKind::argument, "{}: unknown message \"{}\"; the names are add, sub, mul, div", op,
       name);
}

Reduce parse_received(const char* op, std::string_view name) {
  const Reduce reduce = [&] {
    try {
      return ReduceName(name).value();
    } catch (const Error&) {
      return Reduce::assign;
    }
  }();
  if (reduce != Reduce::assign && reduce != Reduce::mul && !is_bitwise(reduce)) return reduce;
  fail(ErrorKind::argument, "{}: unknown reduction \"{}\"; the names are sum, mean, max, min", op,
       name);
}

// Inputs are x, in send_ue_recv and send_uv y, then where edges come from and where they go.
size_t from_at(const Call& call) { return call.inputs.size() - 2; }
const Tensor& from_of(const Call& call) { return call.inputs[from_at(call)]; }
const Tensor& goal_of(const Call& call) { return call.inputs.back(); }

void expect_edges(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  const Meta &from = inputs[inputs.size() - 2], &goal = inputs.back();
  expect_index_dtype(op, from.dtype);
  expect_index_dtype(op, goal.dtype);
  if (from.shape.size() != 1 || !may_equal(from.shape, goal.shape)) {
    fail(ErrorKind::shape,
         "{}: src_index has shape {}, dst_index {}; both have one key for each edge", op,
         from.shape, goal.shape);
  }
  for (size_t i = 0; i + 2 < inputs.size(); ++i) {
    if (inputs[i].shape.empty()) {
      fail(ErrorKind::shape, "{}: {} has no dimension; its first is that of places", op,
           i == 0 ? "x" : "y");
    }
  }
}

Dims with_first(const Dims& shape, int64_t first) {
  Dims out = shape;
  out[0] = first;
  return out;
}

// How many places receive: as many as x has where the call does not say (-1).
int64_t places_of(const Call& call, const Meta& x) {
  if (call.attrs.shape.size() == 1 && call.attrs.shape[0] >= -1) {
    return call.attrs.shape[0] < 0 ? x.shape[0] : call.attrs.shape[0];
  }
  fail(ErrorKind::argument, "{}: the size must be 0 or more", op_name(call));
}

// -- send_u_recv
// ------------------------------------------------------------------------------------------

Meta infer_u_recv(const Call& call, const Metas& inputs) {
  expect_edges(call, inputs);
  expect_reducible(op_name(call), call.attrs.reduce, inputs[0].dtype);
  const int64_t places = places_of(call, inputs[0]);
  return {inputs[0].dtype, with_first(inputs[0].shape, places), inputs[0].device};
}

void lower_u_recv(const Call& call, const Tensor& out) {
  const Tensor& x = call.inputs[0];
  const Tensor &from = from_of(call), &goal = goal_of(call);
  fill_with(out, false);
  Transfer transfer = transfer_for(call, out, with_first(out.shape(), from.shape()[0]));
  transfer.include_self = false;
  const auto indexed = [&](const Tensor& tensor, const Tensor& index, Operand& side,
                           IndexOperands& indices) {
    side = operand(tensor, tensor.strides());
    side.strides[0] = 0;
    Dims strides(transfer.shape.size(), 0);
    strides[0] = index.strides()[0];
    indices.push_back(index_operand(index, strides, 0, tensor.shape()[0], tensor.strides()[0]));
  };
  indexed(out, goal, transfer.dst, transfer.dst_index);
  indexed(x, from, transfer.src, transfer.src_index);
  execute(transfer, out.device());
}

// The call with its edges turned round, for as many places as x has.
Tensor sent_back(const Backward& b, int64_t places) {
  Call call{&kSendURecv, {b.grad, goal_of(b.call), from_of(b.call)}, b.call.attrs, false};
  call.attrs.reduce = Reduce::add;
  call.attrs.order = nullptr;
  call.attrs.held_size = -1;
  call.attrs.shape = {places};
  return apply(std::move(call));
}

Tensor taken(const Call& call, const Tensor& x, const Tensor& index) {
  Call select{&kIndexSelect, {x, index}, {}, false};
  select.attrs.bounds = call.attrs.bounds;
  return apply(std::move(select));
}

// Gradients added up at the places that messages came from.
Tensor returned(const Call& call, const Tensor& grad, const Tensor& like, const Tensor& index) {
  Call add{&kIndexAdd, {zeros_like(like), index, grad}, {}, false};
  add.attrs.bounds = call.attrs.bounds;
  add.attrs.reduce = Reduce::add;
  return apply(std::move(add));
}

// The fold of messages as a call by group, whose gradient is known.
Call as_groups(const Call& call, const Tensor& messages) {
  Call groups{&kGroupReduce, {messages, goal_of(call)}, call.attrs, false};
  groups.attrs.offset = static_cast<int64_t>(GroupKind::plain);
  return groups;
}

Tensor message_gradient(const Backward& b, const Tensor& messages) {
  const Call groups = as_groups(b.call, messages);
  return group_gradient({groups, b.result, b.grad, 1}, Grouping(groups));
}

TensorList grad_u_recv(const Backward& b) {
  const Reduce reduce = b.call.attrs.reduce;
  TensorList out(b.call.inputs.size());
  const int64_t places = b.input(0).shape()[0];
  if (reduce == Reduce::add && known(places)) {
    out[0] = sent_back(b, places);
  } else {
    const Tensor messages = taken(b.call, b.input(0), from_of(b.call));
    out[0] = returned(b.call, message_gradient(b, messages), b.input(0), from_of(b.call));
  }
  return out;
}

uint64_t saves_u_recv(const Call& call, uint64_t) {
  const Reduce reduce = call.attrs.reduce;
  const bool extreme = reduce == Reduce::amax || reduce == Reduce::amin;
  return reduce == Reduce::add ? 6 : extreme ? 7 | kSaveResult : 7;
}

// -- messages of two parts
// ------------------------------------------------------------------------------------------

Tensor combined(const Call& call, const Tensor& a, const Tensor& b) {
  switch (static_cast<Message>(call.attrs.offset)) {
    case Message::add:
      return add(a, b);
    case Message::sub:
      return sub(a, b);
    case Message::mul:
      return mul(a, b);
    default:
      return div(a, b);
  }
}

Meta infer_message(const Call& call, const Metas& inputs, const Dims& a, const Dims& b) {
  const char* op = op_name(call);
  expect_same_dtype(op, "x", inputs[0].dtype, "y", inputs[1].dtype);
  Meta out = inputs[0];
  if (!broadcast_shapes(a, b, out.shape)) {
    fail(ErrorKind::shape,
         "{}: messages of shape {} and values of shape {} do not broadcast together", op, a, b);
  }
  const auto message = static_cast<Message>(call.attrs.offset);
  if (message < Message::add || message > Message::div) {
    fail(ErrorKind::argument, "{}: unknown message {}", op, call.attrs.offset);
  }
  if (message == Message::div && !is_differentiable(out.dtype)) {
    fail(ErrorKind::type, "{}: {} has no division", op, out.dtype);
  }
  if (message == Message::sub && out.dtype == DType::bool_) {
    fail(ErrorKind::type, "{}: bool has no subtraction", op);
  }
  return out;
}

struct Parts {
  Tensor a, b;
};
// Gradients of a message's two parts, summed to their shapes.
Parts part_gradients(const Call& call, const Tensor& grad, const Tensor& a, const Tensor& b) {
  const auto both = [&](const Tensor& for_a, const Tensor& for_b) {
    return Parts{sum_to(for_a, a), sum_to(for_b, b)};
  };
  switch (static_cast<Message>(call.attrs.offset)) {
    case Message::add:
      return both(grad, grad);
    case Message::sub:
      return both(grad, neg(grad));
    case Message::mul:
      return both(mul(grad, conj(b)), mul(grad, conj(a)));
    default:
      return both(div(grad, conj(b)), neg(mul(grad, conj(div(div(a, b), b)))));
  }
}

Meta infer_ue_recv(const Call& call, const Metas& inputs) {
  expect_edges(call, inputs);
  const int64_t edges = inputs[2].shape[0];
  if (!may_equal(inputs[1].shape[0], edges)) {
    fail(ErrorKind::shape, "{}: y {} has no slice for each of the {} edges", op_name(call),
         inputs[1].shape, edges);
  }
  Meta out = infer_message(call, inputs, with_first(inputs[0].shape, edges), inputs[1].shape);
  expect_reducible(op_name(call), call.attrs.reduce, out.dtype);
  out.shape[0] = places_of(call, inputs[0]);
  return out;
}

// The messages of a few columns at a time: those of one do not count in another's sum, and what is
// in memory at once is a part of all of them. As many parts as cost no time (2 cores of a Sapphire
// Rapids class Xeon, 2026-11-18): docs/lab-notebook.md.
constexpr int64_t kMessageBytes = int64_t{1} << 24;  // fewer are written at once
constexpr int64_t kMessageParts = 4;
constexpr int64_t kLineBytes = 64;

int64_t columns_at_once(int64_t edges, const Tensor& out) {
  const int64_t columns = out.shape().back(), size = static_cast<int64_t>(size_of(out.dtype()));
  int64_t row = size;
  for (int d = 1; d < out.dim(); ++d) row *= out.shape()[d];
  if (row == 0 || edges < kMessageBytes / row) return columns;
  const int64_t part = (columns + kMessageParts - 1) / kMessageParts, line = kLineBytes / size;
  return (part + line - 1) / line * line;
}

// Columns of a tensor whose last extent is 1 are all the same.
Tensor columns_of(const Tensor& tensor, int64_t first, int64_t count) {
  if (tensor.shape().back() == 1) return tensor;
  Dims shape = tensor.shape();
  shape[shape.size() - 1] = count;
  return make_view(tensor, first * tensor.strides().back(), shape, tensor.strides());
}

void lower_ue_recv(const Call& call, const Tensor& out) {
  const Tensor &x = call.inputs[0], &y = call.inputs[1];
  fill_with(out, false);
  const auto receive = [&](const Tensor& into, const Tensor& sent, const Tensor& values) {
    const Tensor messages = combined(call, taken(call, sent, from_of(call)), values);
    Call groups = as_groups(call, messages);
    groups.op = call.op;
    Grouping(groups).fold_into(into, messages, call.attrs.reduce);
  };
  // Only where every part has columns of its own; the first axis is that of places and edges.
  const int64_t columns = out.dim() > 1 ? out.shape().back() : 0;
  const bool whole = columns == 0 || x.dim() != out.dim() || y.dim() != out.dim();
  const int64_t step = whole ? columns : columns_at_once(from_of(call).numel(), out);
  if (step >= columns) return receive(out, x, y);
  for (int64_t first = 0; first < columns; first += step) {
    const int64_t count = std::min(step, columns - first);
    receive(columns_of(out, first, count), columns_of(x, first, count),
            columns_of(y, first, count));
  }
}

// The gradients of a sum are messages along the edges turned round, and are never written either;
// those of y, one for each edge, have to be. False where the rules have to be composed.
bool grad_of_sums(const Backward& b, TensorList& out) {
  const Tensor &x = b.input(0), &y = b.input(1);
  const auto message = static_cast<Message>(b.call.attrs.offset);
  const bool same_rows = x.dim() == b.grad.dim() && tail(x.shape(), 1) == tail(b.grad.shape(), 1);
  if (b.call.attrs.reduce != Reduce::add || b.call.attrs.bounds == Bounds::drop) return false;
  if (!same_rows || !known(x.shape()[0]) || (message == Message::div && b.needs(1))) return false;
  const bool product = message == Message::mul || message == Message::div;
  if (b.needs(0) && product) {
    Call back{&kSendUeRecv, {b.grad, conj(y), goal_of(b.call), from_of(b.call)}, b.call.attrs};
    back.attrs.shape = {x.shape()[0]};
    out[0] = apply(std::move(back));
  } else if (b.needs(0)) {
    out[0] = sent_back(b, x.shape()[0]);
  }
  if (b.needs(1) && product) {
    Call along{&kSendUv, {conj(x), b.grad, from_of(b.call), goal_of(b.call)}, {}};
    along.attrs.bounds = b.call.attrs.bounds;
    along.attrs.offset = static_cast<int64_t>(Message::mul);
    out[1] = sum_to(apply(std::move(along)), y);
  } else if (b.needs(1)) {
    const Tensor arrived = sum_to(taken(b.call, b.grad, goal_of(b.call)), y);
    out[1] = message == Message::sub ? neg(arrived) : arrived;
  }
  return true;
}

TensorList grad_ue_recv(const Backward& b) {
  TensorList out(b.call.inputs.size());
  if (grad_of_sums(b, out)) return out;
  const Tensor sent = taken(b.call, b.input(0), from_of(b.call));
  const Tensor messages = combined(b.call, sent, b.input(1));
  const Parts parts = part_gradients(b.call, message_gradient(b, messages), sent, b.input(1));
  if (b.needs(0)) out[0] = returned(b.call, parts.a, b.input(0), from_of(b.call));
  if (b.needs(1)) out[1] = parts.b;
  return out;
}

uint64_t saves_ue_recv(const Call& call, uint64_t) {
  const bool extreme = call.attrs.reduce == Reduce::amax || call.attrs.reduce == Reduce::amin;
  return extreme ? 15 | kSaveResult : 15;
}

Meta infer_uv(const Call& call, const Metas& inputs) {
  expect_edges(call, inputs);
  const int64_t edges = inputs[2].shape[0];
  return infer_message(call, inputs, with_first(inputs[0].shape, edges),
                       with_first(inputs[1].shape, edges));
}

void lower_uv(const Call& call, const Tensor& out) {
  const Tensor a = taken(call, call.inputs[0], from_of(call));
  const Tensor b = taken(call, call.inputs[1], goal_of(call));
  static const OpDef* const kOps[] = {&kAdd, &kSub, &kMul, &kDiv};
  const OpDef* op = kOps[call.attrs.offset];
  op->lower(Call{op, {a, b}, {}, false}, out);
}

TensorList grad_uv(const Backward& b) {
  const Tensor x = taken(b.call, b.input(0), from_of(b.call));
  const Tensor y = taken(b.call, b.input(1), goal_of(b.call));
  const Parts parts = part_gradients(b.call, b.grad, x, y);
  TensorList out(b.call.inputs.size());
  if (b.needs(0)) out[0] = returned(b.call, parts.a, b.input(0), from_of(b.call));
  if (b.needs(1)) out[1] = returned(b.call, parts.b, b.input(1), goal_of(b.call));
  return out;
}

uint64_t saves_uv(const Call&, uint64_t) { return 15; }

// Both indices under one policy. Each is checked against the array that it addresses, held or not:
// the size that an index was held for says nothing of the other's array.
void add_edges(Call& call, const Index& from, const Index& goal) {
  if (from.bounds() != goal.bounds()) {
    fail(ErrorKind::argument, "{}: the indices have different bounds policies; they must agree",
         op_name(call));
  }
  call.inputs.push_back(index_keys(from.keys()));
  call.inputs.push_back(index_keys(goal.keys()));
  call.attrs.bounds = from.bounds();
}

}  // namespace

const OpDef kSendURecv{.name = "send_u_recv",
                       .in_place_name = nullptr,
                       .infer = infer_u_recv,
                       .lower = lower_u_recv,
                       .gradient = grad_u_recv,
                       .saves = saves_u_recv};
const OpDef kSendUeRecv{.name = "send_ue_recv",
                        .in_place_name = nullptr,
                        .infer = infer_ue_recv,
                        .lower = lower_ue_recv,
                        .gradient = grad_ue_recv,
                        .saves = saves_ue_recv};
const OpDef kSendUv{.name = "send_uv",
                    .in_place_name = nullptr,
                    .infer = infer_uv,
                    .lower = lower_uv,
                    .gradient = grad_uv,
                    .saves = saves_uv};

}  // namespace detail

Tensor send_u_recv(const Tensor& x, const Index& src_index, const Index& dst_index,
                   std::string_view reduce, std::optional<int64_t> size) {
  const char* op = detail::kSendURecv.name;
  detail::Call call = detail::make_call(detail::kSendURecv, false, x);
  detail::add_edges(call, src_index, dst_index);
  call.attrs.reduce = detail::parse_received(op, reduce);
  if (size && *size < 0) detail::fail(ErrorKind::argument, "{}: the size is {}", op, *size);
  call.attrs.shape = {size.value_or(-1)};
  return detail::apply(std::move(call));
}

Tensor send_ue_recv(const Tensor& x, const Tensor& y, const Index& src_index,
                    const Index& dst_index, std::string_view message, std::string_view reduce,
                    std::optional<int64_t> size) {
  const char* op = detail::kSendUeRecv.name;
  detail::Call call = detail::make_call(detail::kSendUeRecv, false, x);
  call.inputs.push_back(y);
  detail::add_edges(call, src_index, dst_index);
  call.attrs.offset = static_cast<int64_t>(detail::parse_message(op, message));
  call.attrs.reduce = detail::parse_received(op, reduce);
  if (size && *size < 0) detail::fail(ErrorKind::argument, "{}: the size is {}", op, *size);
  call.attrs.shape = {size.value_or(-1)};
  return detail::apply(std::move(call));
}

Tensor send_uv(const Tensor& x, const Tensor& y, const Index& src_index, const Index& dst_index,
               std::string_view message) {
  detail::Call call = detail::make_call(detail::kSendUv, false, x);
  call.inputs.push_back(y);
  detail::add_edges(call, src_index, dst_index);
  call.attrs.offset = static_cast<int64_t>(detail::parse_message("send_uv", message));
  return detail::apply(std::move(call));
}

}  // namespace sow
