// SPDX-License-Identifier: Apache-2.0
// Element by element: arithmetic, comparisons, where and casts. Check, lowering to a Map, gradient.
#include "ops/families/elementwise.h"
#include "core/tensor/layout.h"
#include "ops/defs.h"
#include "ops/gradients/rules.h"
#include "ops/like.h"
#include "ops/shapes.h"
#include "sow/math.h"

namespace sow {
namespace detail {
namespace {

// -- shapes and types

Dims common_shape(const Call& call, const Metas& inputs) {
  Dims shape = inputs[0].shape;
  for (size_t i = 1; i < inputs.size(); ++i) {
    const Dims before = shape;
    if (broadcast_shapes(before, inputs[i].shape, shape)) continue;
    fail(ErrorKind::shape, "{}: shapes {} and {} do not broadcast together", op_name(call), before,
         inputs[i].shape);
  }
  return shape;
}

Meta infer_binary(const Call& call, const Metas& inputs) {
  const char* op = op_name(call);
  const DType dtype = inputs[0].dtype;
  expect_source_dtype(call, "the first operand", "the second", inputs, 1);
  const MapOp what = map_op(call);
  if (what == MapOp::sub && dtype == DType::bool_) {
    fail(ErrorKind::type, "{}: bool has no subtraction", op);
  }
  if (what == MapOp::div && !is_differentiable(dtype)) {
    fail(ErrorKind::type, "{}: {} has no division; take a floating or complex type", op, dtype);
  }
  const bool bits = what >= MapOp::bit_and;
  if (bits && is_differentiable(dtype)) {
    fail(ErrorKind::type, "{}: {} has no bitwise operations; take an integer type or bool", op,
         dtype);
  }
  if (what == MapOp::rest && (dtype == DType::bool_ || is_complex(dtype))) {
    fail(ErrorKind::type, "{}: {} has no remainder", op, dtype);
  }
  const bool ordered = what >= MapOp::lt && what <= MapOp::ge;
  if (ordered && is_complex(dtype)) fail(ErrorKind::type, "{}: {} has no order", op, dtype);
  const bool compares = what >= MapOp::eq && what <= MapOp::same;
  return {compares ? DType::bool_ : dtype, common_shape(call, inputs), inputs[0].device};
}

Meta infer_neg(const Call& call, const Metas& inputs) {
  if (inputs[0].dtype == DType::bool_) {
    fail(ErrorKind::type, "{}: bool has no negative", op_name(call));
  }
  return inputs[0];
}

Meta infer_abs(const Call& call, const Metas& inputs) {
  if (is_complex(inputs[0].dtype)) {
    fail(ErrorKind::type, "{}: x is {}; only real numbers have one here", op_name(call),
         inputs[0].dtype);
  }
  return inputs[0];
}

Meta infer_conj(const Call&, const Metas& inputs) { return inputs[0]; }

Meta infer_pow(const Call& call, const Metas& inputs) {
  const DType dtype = inputs[0].dtype;
  if (!is_differentiable(dtype)) {
    fail(ErrorKind::type, "{}: x is {}; powers need a floating or complex type", op_name(call),
         dtype);
  }
  const double exponent = exponent_of(call);
  if (is_complex(dtype) && !(exponent == std::trunc(exponent) && std::abs(exponent) < 0x1p53)) {
    fail(ErrorKind::argument, "{}: the exponent {} of a complex number must be whole",
         op_name(call), call.attrs.scalar->to_string());
  }
  return inputs[0];
}

Meta infer_exp(const Call& call, const Metas& inputs) {
  if (!is_floating(inputs[0].dtype)) {
    fail(ErrorKind::type, "{}: x is {}; it must be of a floating type", op_name(call),
         inputs[0].dtype);
  }
  return inputs[0];
}

Meta infer_where(const Call& call, const Metas& inputs) {
  expect_mask_dtype(op_name(call), inputs[0].dtype);
  const DType dtype = inputs[1].dtype;
  if (call.attrs.scalar) {
    alignas(16) std::byte unused[16];
    call.attrs.scalar->write_as(dtype, unused, op_name(call));
  } else {
    expect_same_dtype(op_name(call), "a", dtype, "b", inputs[2].dtype);
  }
  return {dtype, common_shape(call, inputs), inputs[0].device};
}

Meta infer_to(const Call& call, const Metas& inputs) {
  const DType from = inputs[0].dtype, to = call.attrs.dtype;
  const bool whole = from == DType::bool_ || is_integer(from);
  const bool fits =
      whole ? !is_complex(to)
            : (is_floating(from) && is_floating(to)) || (is_complex(from) && is_complex(to));
  if (!fits) fail(ErrorKind::type, "{}: there is no cast from {} to {}", op_name(call), from, to);
  return {to, inputs[0].shape, inputs[0].device};
}

// -- lowering

void set_operand(Map& map, int at, const Tensor& tensor) {
  map.in[at] = {static_cast<const char*>(tensor.data()), tensor.dtype(),
                broadcast_strides(tensor.shape(), tensor.strides(), map.shape)};
}

Map map_for(const Call& call, const Tensor& out, int arity) {
  Map map;
  map.op = map_op(call);
  map.shape = out.shape();
  map.out = static_cast<char*>(out.data());
  map.out_dtype = out.dtype();
  map.arity = arity;
  return map;
}

void set_scalar(Map& map, int at, const Call& call, DType dtype) {
  map.in[at].dtype = dtype;
  map.in[at].strides = Dims(map.shape.size(), 0);
  call.attrs.scalar->write_as(dtype, map.scalar, op_name(call));
}

void lower_binary(const Call& call, const Tensor& out) {
  Map map = map_for(call, out, 2);
  const bool scalar = call.attrs.scalar.has_value();
  const int first = scalar && call.attrs.scalar_first ? 1 : 0;
  set_operand(map, first, call.inputs[0]);
  if (scalar) {
    set_scalar(map, 1 - first, call, call.inputs[0].dtype());
  } else {
    set_operand(map, 1, call.inputs[1]);
  }
  execute(map, out.device());
}

void lower_unary(const Call& call, const Tensor& out) {
  Map map = map_for(call, out, 1);
  set_operand(map, 0, call.inputs[0]);
  if (map.op == MapOp::pow) map.exponent = exponent_of(call);
  execute(map, out.device());
}

void lower_where(const Call& call, const Tensor& out) {
  Map map = map_for(call, out, 3);
  set_operand(map, 0, call.inputs[0]);
  const int first = call.attrs.scalar && call.attrs.scalar_first ? 2 : 1;
  set_operand(map, first, call.inputs[1]);
  if (call.attrs.scalar) {
    set_scalar(map, 3 - first, call, call.inputs[1].dtype());
  } else {
    set_operand(map, 2, call.inputs[2]);
  }
  execute(map, out.device());
}

}  // namespace

const OpDef kAdd{.name = "add",
                 .in_place_name = nullptr,
                 .infer = infer_binary,
                 .lower = lower_binary,
                 .gradient = grad_add};
const OpDef kSub{.name = "sub",
                 .in_place_name = nullptr,
                 .infer = infer_binary,
                 .lower = lower_binary,
                 .gradient = grad_sub};
const OpDef kMul{.name = "mul",
                 .in_place_name = nullptr,
                 .infer = infer_binary,
                 .lower = lower_binary,
                 .gradient = grad_mul,
                 .saves = saves_mul};
const OpDef kDiv{.name = "div",
                 .in_place_name = nullptr,
                 .infer = infer_binary,
                 .lower = lower_binary,
                 .gradient = grad_div,
                 .saves = saves_div};
const OpDef kEq{"eq", nullptr, infer_binary, lower_binary};
const OpDef kNe{"ne", nullptr, infer_binary, lower_binary};
const OpDef kLt{"lt", nullptr, infer_binary, lower_binary};
const OpDef kLe{"le", nullptr, infer_binary, lower_binary};
const OpDef kGt{"gt", nullptr, infer_binary, lower_binary};
const OpDef kGe{"ge", nullptr, infer_binary, lower_binary};
const OpDef kSame{"same", nullptr, infer_binary, lower_binary};
const OpDef kNeg{.name = "neg",
                 .in_place_name = nullptr,
                 .infer = infer_neg,
                 .lower = lower_unary,
                 .gradient = grad_neg};
const OpDef kConj{.name = "conj",
                  .in_place_name = nullptr,
                  .infer = infer_conj,
                  .lower = lower_unary,
                  .gradient = grad_conj};
const OpDef kAbs{.name = "abs",
                 .in_place_name = nullptr,
                 .infer = infer_abs,
                 .lower = lower_unary,
                 .gradient = grad_abs,
                 .saves = saves_first};
const OpDef kRemainder{.name = "remainder",
                       .in_place_name = nullptr,
                       .infer = infer_binary,
                       .lower = lower_binary,
                       .gradient = grad_remainder,
                       .saves = saves_remainder};
const OpDef kBitwiseAnd{"bitwise_and", nullptr, infer_binary, lower_binary};
const OpDef kBitwiseOr{"bitwise_or", nullptr, infer_binary, lower_binary};
const OpDef kBitwiseXor{"bitwise_xor", nullptr, infer_binary, lower_binary};
const OpDef kPow{.name = "pow",
                 .in_place_name = nullptr,
                 .infer = infer_pow,
                 .lower = lower_unary,
                 .gradient = grad_pow,
                 .saves = saves_first};
const OpDef kExp{.name = "exp",
                 .in_place_name = nullptr,
                 .infer = infer_exp,
                 .lower = lower_unary,
                 .gradient = grad_exp,
                 .saves = saves_both};
const OpDef kLog{.name = "log",
                 .in_place_name = nullptr,
                 .infer = infer_exp,
                 .lower = lower_unary,
                 .gradient = grad_log,
                 .saves = saves_first};
const OpDef kWhere{.name = "where",
                   .in_place_name = nullptr,
                   .infer = infer_where,
                   .lower = lower_where,
                   .gradient = grad_where,
                   .saves = saves_first};
const OpDef kTo{.name = "to",
                .in_place_name = nullptr,
                .infer = infer_to,
                .lower = lower_unary,
                .gradient = grad_to};

MapOp map_op(const Call& call) {
  static const std::pair<const OpDef*, MapOp> kOps[] = {{&kAdd, MapOp::add},
                                                        {&kSub, MapOp::sub},
                                                        {&kMul, MapOp::mul},
                                                        {&kDiv, MapOp::div},
                                                        {&kEq, MapOp::eq},
                                                        {&kNe, MapOp::ne},
                                                        {&kLt, MapOp::lt},
                                                        {&kLe, MapOp::le},
                                                        {&kGt, MapOp::gt},
                                                        {&kGe, MapOp::ge},
                                                        {&kSame, MapOp::same},
                                                        {&kNeg, MapOp::neg},
                                                        {&kConj, MapOp::conj},
                                                        {&kPow, MapOp::pow},
                                                        {&kWhere, MapOp::where},
                                                        {&kTo, MapOp::cast},
                                                        {&kAbs, MapOp::abs},
                                                        {&kExp, MapOp::exp},
                                                        {&kLog, MapOp::log},
                                                        {&kRemainder, MapOp::rest},
                                                        {&kBitwiseAnd, MapOp::bit_and},
                                                        {&kBitwiseOr, MapOp::bit_or},
                                                        {&kBitwiseXor, MapOp::bit_xor}};
  for (const auto& one : kOps) {
    if (one.first == call.op) return one.second;
  }
  return MapOp::cast;
}

bool is_elementwise(const OpDef& op) {
  return op.lower == lower_binary || op.lower == lower_unary || op.lower == lower_where;
}

double exponent_of(const Call& call) {
  double exponent = 0;
  call.attrs.scalar->write_as(DType::float64, &exponent, op_name(call));
  return exponent;
}

namespace {

Tensor binary_call(const OpDef& op, const Source& a, const Source& b) {
  Call call;
  call.op = &op;
  if (!a.is_tensor() && !b.is_tensor()) {
    fail(ErrorKind::argument, "{}: both operands are scalars; one must be a tensor", op.name);
  }
  if (a.is_tensor()) call.inputs.push_back(a.tensor());
  if (b.is_tensor()) call.inputs.push_back(b.tensor());
  if (!a.is_tensor()) call.attrs.scalar = a.scalar();
  if (!b.is_tensor()) call.attrs.scalar = b.scalar();
  call.attrs.scalar_first = !a.is_tensor();
  return apply(std::move(call));
}

}  // namespace

namespace {

// The narrowest type that has every value of both; none for integers of 64 bits and
// a floating type.
std::optional<DType> common_type(DType a, DType b) {
  for (const DType dtype :
       {DType::bool_, DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint32,
        DType::int32, DType::uint64, DType::int64, DType::float16, DType::bfloat16, DType::float32,
        DType::float64, DType::complex64, DType::complex128}) {
    if (widens(a, dtype) && widens(b, dtype)) return dtype;
  }
  return {};
}

// What two numbers become where no tensor says.
DType type_of_scalars(const Scalar& a, const Scalar& b) {
  static constexpr DType kTypes[] = {DType::bool_, DType::int64, DType::float32, DType::complex64};
  return kTypes[std::max(static_cast<int>(a.kind()), static_cast<int>(b.kind()))];
}

}  // namespace

Tensor same(const Tensor& a, const Tensor& b) { return binary_call(kSame, a, b); }

}  // namespace detail

Tensor add(const Source& a, const Source& b) { return detail::binary_call(detail::kAdd, a, b); }
Tensor sub(const Source& a, const Source& b) { return detail::binary_call(detail::kSub, a, b); }
Tensor mul(const Source& a, const Source& b) { return detail::binary_call(detail::kMul, a, b); }
Tensor div(const Source& a, const Source& b) { return detail::binary_call(detail::kDiv, a, b); }
Tensor eq(const Source& a, const Source& b) { return detail::binary_call(detail::kEq, a, b); }
Tensor ne(const Source& a, const Source& b) { return detail::binary_call(detail::kNe, a, b); }
Tensor lt(const Source& a, const Source& b) { return detail::binary_call(detail::kLt, a, b); }
Tensor le(const Source& a, const Source& b) { return detail::binary_call(detail::kLe, a, b); }
Tensor gt(const Source& a, const Source& b) { return detail::binary_call(detail::kGt, a, b); }
Tensor ge(const Source& a, const Source& b) { return detail::binary_call(detail::kGe, a, b); }

Tensor remainder(const Source& a, const Source& b) {
  return detail::binary_call(detail::kRemainder, a, b);
}
Tensor bitwise_and(const Source& a, const Source& b) {
  return detail::binary_call(detail::kBitwiseAnd, a, b);
}
Tensor bitwise_or(const Source& a, const Source& b) {
  return detail::binary_call(detail::kBitwiseOr, a, b);
}
Tensor bitwise_xor(const Source& a, const Source& b) {
  return detail::binary_call(detail::kBitwiseXor, a, b);
}

Tensor bitwise_not(const Tensor& x) {
  if (x.dtype() == DType::bool_) return bitwise_xor(x, true);
  if (!is_unsigned(x.dtype())) return bitwise_xor(x, -1);
  return bitwise_xor(x, UINT64_MAX >> (64 - 8 * size_of(x.dtype())));
}

Tensor abs(const Tensor& x) { return detail::apply(detail::make_call(detail::kAbs, false, x)); }

Tensor exp(const Tensor& x) { return detail::apply(detail::make_call(detail::kExp, false, x)); }

Tensor log(const Tensor& x) { return detail::apply(detail::make_call(detail::kLog, false, x)); }

Tensor sqrt(const Tensor& x) { return pow(x, 0.5); }

Tensor neg(const Tensor& x) { return detail::apply(detail::make_call(detail::kNeg, false, x)); }

Tensor conj(const Tensor& x) {
  if (!is_complex(x.dtype())) return x;
  return detail::apply(detail::make_call(detail::kConj, false, x));
}

Tensor pow(const Tensor& x, double exponent) {
  detail::Call call = detail::make_call(detail::kPow, false, x);
  call.attrs.scalar = exponent;
  return detail::apply(std::move(call));
}

Tensor where(const Tensor& condition, const Source& a, const Source& b) {
  if (!a.is_tensor() && !b.is_tensor()) {
    const DType dtype = detail::type_of_scalars(a.scalar(), b.scalar());
    return where(condition, detail::full_like(condition, a.scalar(), dtype), b);
  }
  if (a.is_tensor() && b.is_tensor() && a.tensor().defined() && b.tensor().defined()) {
    const std::optional<DType> dtype = detail::common_type(a.tensor().dtype(), b.tensor().dtype());
    if (dtype && a.tensor().dtype() != b.tensor().dtype()) {
      return where(condition, to(a.tensor(), *dtype), to(b.tensor(), *dtype));
    }
  }
  detail::Call call = detail::make_call(detail::kWhere, false, condition);
  for (const Source* source : {&a, &b}) detail::add_source(call, *source);
  call.attrs.scalar_first = !a.is_tensor();
  return detail::apply(std::move(call));
}

TensorList where(const Tensor& condition) {
  const Tensor at_least_1d = condition.dim() == 0 ? unsqueeze(condition, 0) : condition;
  const Tensor places = nonzero(at_least_1d);
  TensorList out;
  for (int axis = 0; axis < at_least_1d.dim(); ++axis) out.push_back(select(places, 1, axis));
  return out;
}

Tensor to(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  detail::Call call = detail::make_call(detail::kTo, false, x);
  call.attrs.dtype = dtype;
  return detail::apply(std::move(call));
}

}  // namespace sow
