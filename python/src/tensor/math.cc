// SPDX-License-Identifier: Apache-2.0
// The few elementwise operations and sums, as functions, methods and operators.
#include "sow/math.h"

#include "arrays/dtype.h"
#include "arrays/elements.h"
#include "calls/bind.h"

namespace sow::python {
namespace {

using namespace nb::literals;
using Binary = Tensor (*)(const Source&, const Source&);

template <Binary function>
constexpr auto with_tensor = [](const Tensor& a, const Source& b) { return function(a, b); };

constexpr auto absolute = [](const Tensor& x) { return sow::abs(x); };
constexpr auto exponential = [](const Tensor& x) { return sow::exp(x); };
constexpr auto logarithm = [](const Tensor& x) { return sow::log(x); };
constexpr auto square_root = [](const Tensor& x) { return sow::sqrt(x); };

// None: over all axes. As in NumPy, () is no axis at all: each element is summed by itself.
template <Tensor (*function)(const Tensor&, const Dims&, bool)>
constexpr auto over_axes = [](const Tensor& x, const std::optional<Dims>& axes, bool keepdim) {
  if (axes && axes->empty()) return function(unsqueeze(x, 0), {0}, false);
  return function(x, axes.value_or(Dims()), keepdim);
};

// x + other, other + x: None of Python's other types gets in here, so NotImplemented lets them try.
// Lists are compared: what Python would do instead is to compare identities.
template <Binary function>
nb::object operate(const Tensor& x, nb::handle other, bool reversed) {
  constexpr bool compares =
      function == static_cast<Binary>(eq) || function == static_cast<Binary>(ne);
  std::optional<Source> source;
  const Kind kind = info_of(other).kind;
  if (kind == Kind::number) {
    source.emplace(*number_of(other));
  } else if (kind != Kind::other && (compares || kind != Kind::sequence)) {
    const Site site{"operator", "operand"};
    source.emplace(kind == Kind::sequence ? list_as(other, site, x.dtype())
                                          : to_tensor(other, site, Access::read, x.dtype()));
  } else {
    return nb::borrow(Py_NotImplemented);
  }
  return nb::cast(reversed ? function(*source, x) : function(x, *source));
}

template <Binary function>
void bind_operator(nb::class_<Tensor>& tensor, const char* name, const char* reversed = nullptr) {
  // Whoever is compared with what is no array gets a bool, and object's own signature says so.
  constexpr bool compares =
      function == static_cast<Binary>(eq) || function == static_cast<Binary>(ne);
  const std::string result = compares ? "typing.Any" : "Tensor";
  const auto define = [&](const char* method, bool swap) {
    const std::string signature =
        "def " + std::string(method) + "(self, other: typing.Any) -> " + result;
    tensor.def(
        method,
        [swap](const Tensor& x, nb::handle other) { return operate<function>(x, other, swap); },
        nb::arg("other").none(), nb::sig((new std::string(signature))->c_str()));
  };
  define(name, false);
  if (reversed != nullptr) define(reversed, true);
}

void bind_operators(nb::class_<Tensor>& tensor) {
  bind_operator<add>(tensor, "__add__", "__radd__");
  bind_operator<sub>(tensor, "__sub__", "__rsub__");
  bind_operator<mul>(tensor, "__mul__", "__rmul__");
  bind_operator<div>(tensor, "__truediv__", "__rtruediv__");
  bind_operator<remainder>(tensor, "__mod__", "__rmod__");
  bind_operator<bitwise_and>(tensor, "__and__", "__rand__");
  bind_operator<bitwise_or>(tensor, "__or__", "__ror__");
  bind_operator<bitwise_xor>(tensor, "__xor__", "__rxor__");
  bind_operator<eq>(tensor, "__eq__");
  bind_operator<ne>(tensor, "__ne__");
  bind_operator<lt>(tensor, "__lt__");
  bind_operator<le>(tensor, "__le__");
  bind_operator<gt>(tensor, "__gt__");
  bind_operator<ge>(tensor, "__ge__");
  // Equality is elementwise, so that a tensor is found again by what it is, not by what it holds.
  tensor
      .def(
          "__hash__", [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()) >> 4; },
          nb::sig("def __hash__(self) -> int"))
      .def("__neg__", [](const Tensor& x) { return neg(x); })
      .def("__abs__", [](const Tensor& x) { return sow::abs(x); })
      .def("__invert__", [](const Tensor& x) { return bitwise_not(x); })
      .def("__pow__", [](const Tensor& x, double exponent) { return pow(x, exponent); });
}

Source source_of(nb::handle object, const char* argument, std::optional<DType> dtype) {
  if (info_of(object).kind == Kind::number) return Source(*number_of(object));
  const Site site{"where", argument};
  if (dtype && info_of(object).kind == Kind::sequence) return list_as(object, site, *dtype);
  return Source(to_tensor(object, site, Access::read, dtype));
}

void expect_mask(nb::handle condition) {
  if (info_of(condition).kind != Kind::number) return;
  raise(PyExc_TypeError,
        "where: condition is " + describe(condition) + "; it must be an array of bool");
}

// where(condition): as many arrays as there are axes.
nb::object places_of(nb::handle condition) {
  expect_mask(condition);
  const Tensor mask = to_tensor(condition, {"where", "condition"}, Access::read, DType::bool_);
  const TypeInfo info = info_of(condition);
  const OwnersStream stream(mask, condition, info);
  nb::list out;
  for (const Tensor& column : where(mask)) out.append(from_tensor(column, condition, info));
  return nb::steal(PyList_AsTuple(out.ptr()));
}

// The result is of the condition's kind, as everywhere of the first argument's.
nb::object where_call(nb::handle condition, nb::handle a, nb::handle b, nb::handle out) {
  expect_mask(condition);
  for (const nb::handle object : {condition, a, b}) {
    const TypeInfo info = info_of(object);
    if (!is_recorded(object, info)) continue;
    if (!out.is_none()) refuse_out("where");
    nb::object done =
        hand_over(info.kind, "where", ArrayArg{condition}, ValuesArg{a}, ValuesArg{b});
    if (done.is_valid()) return done;
    break;
  }
  const Tensor mask = to_tensor(condition, {"where", "condition"}, Access::read, DType::bool_);
  const OwnersStream stream(mask, condition, info_of(condition));
  const Source left = source_of(a, "a", {});
  const Source right = source_of(
      b, "b", left.is_tensor() ? std::optional(left.tensor().dtype()) : std::optional<DType>());
  const Tensor result = where(mask, left, right);
  if (!out.is_none()) return put_out("where", result, "", out);
  return from_tensor(result, condition, info_of(condition));
}

}  // namespace

void bind_math(nb::module_& module, nb::class_<Tensor>& tensor) {
  Binder bind(module, tensor);
  bind.single<with_tensor<add>, ValuesArg>("add", "a", "b"_a);
  bind.single<with_tensor<sub>, ValuesArg>("sub", "a", "b"_a);
  bind.single<with_tensor<mul>, ValuesArg>("mul", "a", "b"_a);
  bind.single<with_tensor<div>, ValuesArg>("div", "a", "b"_a);
  bind.single<with_tensor<eq>, ValuesArg>("eq", "a", "b"_a);
  bind.single<with_tensor<ne>, ValuesArg>("ne", "a", "b"_a);
  bind.single<with_tensor<lt>, ValuesArg>("lt", "a", "b"_a);
  bind.single<with_tensor<le>, ValuesArg>("le", "a", "b"_a);
  bind.single<with_tensor<gt>, ValuesArg>("gt", "a", "b"_a);
  bind.single<with_tensor<ge>, ValuesArg>("ge", "a", "b"_a);
  bind.single<with_tensor<remainder>, ValuesArg>("remainder", "a", "b"_a);
  bind.single<with_tensor<bitwise_and>, ValuesArg>("bitwise_and", "a", "b"_a);
  bind.single<with_tensor<bitwise_or>, ValuesArg>("bitwise_or", "a", "b"_a);
  bind.single<with_tensor<bitwise_xor>, ValuesArg>("bitwise_xor", "a", "b"_a);
  bind.single<bitwise_not>("bitwise_not", "x");
  bind.single<absolute>("abs", "x");
  bind.single<exponential>("exp", "x");
  bind.single<logarithm>("log", "x");
  bind.single<square_root>("sqrt", "x");
  bind.single<neg>("neg", "x");
  bind.single<conj>("conj", "x");
  bind.single<pow, double>("pow", "x", "exponent"_a);
  bind.single<over_axes<sum>, AxesArg, bool>("sum", "x", "axis"_a = nb::none(),
                                             "keepdim"_a = false);
  bind.single<over_axes<mean>, AxesArg, bool>("mean", "x", "axis"_a = nb::none(),
                                              "keepdim"_a = false);
  list_operation("where", "where", "out",
                 {{"condition", "destination", {}}, {"a", "values", {}}, {"b", "values", {}}});
  module.def(
      "where",
      [](ArrayArg condition, ValuesArg a, ValuesArg b, OutArg out) {
        return where_call(condition.object, a.object, b.object, out.object);
      },
      "condition"_a, "a"_a, "b"_a, nb::kw_only(), "out"_a = nb::none(),
      nb::sig(
          "def where(condition: sow._types.A, a: sow._types.ArrayLike, b: sow._types.ArrayLike, *, "
          "out: sow._types.Out = None) -> sow._types.A"),
      doc_of("where", "where").c_str());
  module.def(
      "where", [](ArrayArg condition) { return places_of(condition.object); }, "condition"_a,
      nb::sig("def where(condition: sow._types.A) -> tuple[sow._types.A, ...]"));
  tensor.def(
      "cast", [](const Tensor& x, nb::handle dtype) { return to(x, parse_dtype(dtype, "cast")); },
      "dtype"_a, nb::sig("def cast(self, dtype: sow._types.DTypeLike) -> Tensor"),
      "The same values in another type, each rounded once; gradients come back in this one.\n\n"
      ">>> sow.arange(2).cast(\"float32\")\nTensor([0., 1.], dtype=float32)");
  bind_operators(tensor);
}

}  // namespace sow::python
