// The few elementwise operations and sums, as functions, methods and operators.
#include "sow/math.h"

#include "bind.h"
#include "dtype.h"

namespace sow::python {
namespace {

using namespace nb::literals;
using Binary = Tensor (*)(const Source&, const Source&);

template <Binary function>
constexpr auto with_tensor = [](const Tensor& a, const Source& b) { return function(a, b); };

// x + other, other + x: None of Python's other types gets in here, so NotImplemented lets them try.
template <Binary function>
nb::object operate(const Tensor& x, nb::handle other, bool reversed) {
  std::optional<Source> source;
  const Kind kind = info_of(other).kind;
  if (kind == Kind::number) {
    source.emplace(*number_of(other));
  } else if (kind != Kind::other && kind != Kind::sequence) {
    source.emplace(to_tensor(other, {"operator", "operand"}, Access::read, x.dtype()));
  } else {
    return nb::borrow(Py_NotImplemented);
  }
  return nb::cast(reversed ? function(*source, x) : function(x, *source));
}

template <Binary function>
void bind_operator(nb::class_<Tensor>& tensor, const char* name, const char* reversed = nullptr) {
  const auto define = [&](const char* method, bool swap) {
    const std::string signature =
        "def " + std::string(method) + "(self, other: typing.Any) -> Tensor";
    tensor.def(
        method,
        [swap](const Tensor& x, nb::handle other) { return operate<function>(x, other, swap); },
        nb::sig((new std::string(signature))->c_str()));
  };
  define(name, false);
  if (reversed != nullptr) define(reversed, true);
}

void bind_operators(nb::class_<Tensor>& tensor) {
  bind_operator<add>(tensor, "__add__", "__radd__");
  bind_operator<sub>(tensor, "__sub__", "__rsub__");
  bind_operator<mul>(tensor, "__mul__", "__rmul__");
  bind_operator<div>(tensor, "__truediv__", "__rtruediv__");
  bind_operator<lt>(tensor, "__lt__");
  bind_operator<le>(tensor, "__le__");
  bind_operator<gt>(tensor, "__gt__");
  bind_operator<ge>(tensor, "__ge__");
  tensor.def("__neg__", [](const Tensor& x) { return neg(x); })
      .def("__pow__", [](const Tensor& x, double exponent) { return pow(x, exponent); });
}

Source source_of(nb::handle object, const char* argument, std::optional<DType> dtype) {
  if (info_of(object).kind == Kind::number) return Source(*number_of(object));
  return Source(to_tensor(object, {"where", argument}, Access::read, dtype));
}

// The result is of the condition's kind, as everywhere of the first argument's.
nb::object where_call(nb::handle condition, nb::handle a, nb::handle b) {
  const Tensor mask = to_tensor(condition, {"where", "condition"}, Access::read, DType::bool_);
  const OwnersStream stream(mask, condition, info_of(condition));
  const Source left = source_of(a, "a", {});
  const Source right = source_of(
      b, "b", left.is_tensor() ? std::optional(left.tensor().dtype()) : std::optional<DType>());
  return from_tensor(where(mask, left, right), condition, info_of(condition));
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
  bind.single<neg>("neg", "x");
  bind.single<conj>("conj", "x");
  bind.single<pow, double>("pow", "x", "exponent"_a);
  bind.single<sum, AxesArg, bool>("sum", "x", "axis"_a = nb::none(), "keepdim"_a = false);
  bind.single<mean, AxesArg, bool>("mean", "x", "axis"_a = nb::none(), "keepdim"_a = false);
  module.def(
      "where",
      [](ArrayArg condition, ValuesArg a, ValuesArg b) {
        return where_call(condition.object, a.object, b.object);
      },
      "condition"_a, "a"_a, "b"_a,
      nb::sig(
          "def where(condition: sow._types.A, a: sow._types.ArrayLike, b: sow._types.ArrayLike) "
          "-> sow._types.A"),
      doc_of("where", "where").c_str());
  tensor.def(
      "cast", [](const Tensor& x, nb::handle dtype) { return to(x, parse_dtype(dtype, "cast")); },
      "dtype"_a, nb::sig("def cast(self, dtype: sow._types.DTypeLike) -> Tensor"),
      "The same values in another type, each rounded once; gradients come back in this one.\n\n"
      ">>> sow.arange(2).cast(\"float32\")\nTensor([0., 1.], dtype=float32)");
  bind_operators(tensor);
}

}  // namespace sow::python
