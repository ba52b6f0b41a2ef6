// SPDX-License-Identifier: Apache-2.0
// Tensors from nothing: zeros, ranges, random numbers; and from any array.
#include <algorithm>
#include <cmath>

#include "arrays/dtype.h"
#include "arrays/elements.h"
#include "calls/bind.h"
#include "sow/dlpack.h"
#include "tensor/random.h"

namespace sow::python {
namespace {

using namespace nb::literals;

// An extent of -1 or less means nothing here.
Dims parse_extents(nb::handle object, const char* op) {
  Dims shape = parse_shape(object, op);
  for (const int64_t extent : shape) {
    if (extent < 0)
      raise(PyExc_ValueError,
            std::string(op) + ": shape " + to_string(shape) + " has a negative extent");
  }
  return shape;
}

Tensor wanting(Tensor tensor, bool gradient) {
  return gradient ? tensor.set_requires_grad(true) : tensor;
}

Scalar parse_number(nb::handle object, const char* op, const char* argument) {
  if (std::optional<Scalar> number = number_of(object)) return *number;
  raise(PyExc_TypeError,
        std::string(op) + ": " + argument + " is " + describe(object) + ", which is no number");
}

Tensor make_tensor(nb::handle data, nb::handle dtype, nb::handle device, bool requires_grad) {
  const std::optional<DType> wanted =
      dtype.is_none() ? std::nullopt : std::optional<DType>(parse_dtype(dtype, "tensor"));
  const Site site{"tensor", "data"};
  const auto make = [&] {
    if (wanted && info_of(data).kind == Kind::sequence) return list_as(data, site, *wanted);
    const Tensor source = to_tensor(data, site, Access::read, wanted);
    return wanted ? converted(source, *wanted, "tensor") : source.clone();
  };
  const Tensor host = make();
  const Device place = parse_device(device, "tensor");
  const Tensor made =
      place == host.device() ? host : Tensor::empty(host.shape(), host.dtype(), place).copy_(host);
  return wanting(made, requires_grad);
}

// A tensor on the object's memory. A library that counts the writes into its arrays, which its
// backward pass relies on, is told of every one through sow.
Tensor shared_with(nb::handle object, Site site) {
  const Tensor tensor = to_tensor(object, site, Access::read);
  const TypeInfo info = info_of(object);
  if (info.kind != Kind::torch && info.kind != Kind::paddle) return tensor;
  Py_INCREF(object.ptr());
  const std::shared_ptr<PyObject> owner(object.ptr(), release_object);
  on_write(tensor, [owner, info] { note_written(owner.get(), info); });
  return tensor;
}

template <class T>
T as(const Scalar& value) {
  T out;
  value.write_as(sow::dtype_of<T>(), &out, "arange");
  return out;
}

template <class F>
Tensor range(int64_t count, DType dtype, F number) {
  Tensor out = Tensor::empty({count}, dtype);
  auto* at = static_cast<char*>(out.data());
  for (int64_t i = 0; i < count; ++i, at += size_of(dtype))
    Scalar(number(i)).write_as(dtype, at, "arange");
  return out;
}

Tensor integer_range(int64_t from, int64_t to, int64_t step, DType dtype) {
  if (step == 0) raise(PyExc_ValueError, "arange: step must not be zero");
  // Unsigned: the distance of two int64 may be too far for one.
  const uint64_t distance = step > 0 ? (to > from ? uint64_t(to) - uint64_t(from) : 0)
                                     : (to < from ? uint64_t(from) - uint64_t(to) : 0);
  const uint64_t stride = step > 0 ? uint64_t(step) : uint64_t{0} - uint64_t(step);
  const uint64_t count = distance == 0 ? 0 : (distance - 1) / stride + 1;
  if (count > uint64_t{INT64_MAX})
    raise(PyExc_ValueError, "arange: so many elements do not fit 64 bits");
  return range(static_cast<int64_t>(count), dtype, [&](int64_t i) { return from + i * step; });
}

Tensor real_range(double from, double to, double step, DType dtype) {
  if (step == 0 || !std::isfinite(from) || !std::isfinite(to) || !std::isfinite(step)) {
    raise(PyExc_ValueError, "arange: start and stop must be finite, and step finite and not zero");
  }
  const double count = std::max(std::ceil((to - from) / step), 0.0);
  if (count > 9e18) raise(PyExc_ValueError, "arange: so many elements do not fit 64 bits");
  return range(static_cast<int64_t>(count), dtype,
               [&](int64_t i) { return from + static_cast<double>(i) * step; });
}

Tensor arange_of(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype,
                 bool requires_grad) {
  const bool short_form = stop.is_none();
  const Scalar first = short_form ? Scalar(0) : parse_number(start, "arange", "start");
  const Scalar last = parse_number(short_form ? start : stop, "arange", "stop");
  const Scalar by = parse_number(step, "arange", "step");
  const bool integral = first.kind() <= Scalar::Kind::integer &&
                        last.kind() <= Scalar::Kind::integer && by.kind() <= Scalar::Kind::integer;
  const DType type = parse_dtype(dtype, "arange", integral ? DType::int64 : DType::float32);
  return wanting(integral
                     ? integer_range(as<int64_t>(first), as<int64_t>(last), as<int64_t>(by), type)
                     : real_range(as<double>(first), as<double>(last), as<double>(by), type),
                 requires_grad);
}

std::optional<uint64_t> parse_seed(nb::handle seed, const char* op) {
  if (seed.is_none()) return {};
  return static_cast<uint64_t>(parse_integer(seed, op, "seed"));
}

void bind_random(nb::module_& module) {
  module.def(
      "rand",
      [](nb::handle shape, nb::handle dtype, nb::handle seed, bool requires_grad) {
        return wanting(uniform(parse_extents(shape, "rand"), parse_dtype(dtype, "rand"),
                               parse_seed(seed, "rand")),
                       requires_grad);
      },
      "shape"_a, "dtype"_a = nb::none(), nb::kw_only(), "seed"_a = nb::none(),
      "requires_grad"_a = false,
      nb::sig("def rand(shape: sow._types.Shape, dtype: sow._types.DTypeLike | None = None, *, "
              "seed: int | None = None, requires_grad: bool = False) -> Tensor"),
      "Random numbers, uniform in [0, 1). The same seed gives the same numbers.\n\n"
      ">>> sow.rand([2, 2], seed=1).shape\n(2, 2)");
  module.def(
      "randn",
      [](nb::handle shape, nb::handle dtype, nb::handle seed, bool requires_grad) {
        return wanting(normal(parse_extents(shape, "randn"), parse_dtype(dtype, "randn"),
                              parse_seed(seed, "randn")),
                       requires_grad);
      },
      "shape"_a, "dtype"_a = nb::none(), nb::kw_only(), "seed"_a = nb::none(),
      "requires_grad"_a = false,
      nb::sig("def randn(shape: sow._types.Shape, dtype: sow._types.DTypeLike | None = None, *, "
              "seed: int | None = None, requires_grad: bool = False) -> Tensor"),
      "Random numbers, normal with mean 0 and deviation 1. The same seed gives the same "
      "numbers.\n\n"
      ">>> sow.randn([3], seed=1).tolist() == sow.randn([3], seed=1).tolist()\nTrue");
  module.def(
      "seed",
      [](nb::handle seed) { set_seed(static_cast<uint64_t>(parse_integer(seed, "seed", "seed"))); },
      "seed"_a, nb::sig("def seed(seed: int) -> None"),
      "Begins the random numbers of rand and randn anew.\n\n>>> sow.seed(1)");
}

void bind_filled(nb::module_& module) {
  module.def(
      "zeros",
      [](nb::handle shape, nb::handle dtype, nb::handle device, bool requires_grad) {
        return wanting(Tensor::zeros(parse_extents(shape, "zeros"), parse_dtype(dtype, "zeros"),
                                     parse_device(device, "zeros")),
                       requires_grad);
      },
      "shape"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), nb::kw_only(),
      "requires_grad"_a = false,
      nb::sig("def zeros(shape: sow._types.Shape, dtype: sow._types.DTypeLike | None = None, "
              "device: str | None = None, *, requires_grad: bool = False) -> Tensor"),
      "A tensor of zeros.\n\n>>> sow.zeros([2])\nTensor([0., 0.], dtype=float32)");
  module.def(
      "ones",
      [](nb::handle shape, nb::handle dtype, nb::handle device, bool requires_grad) {
        return wanting(Tensor::ones(parse_extents(shape, "ones"), parse_dtype(dtype, "ones"),
                                    parse_device(device, "ones")),
                       requires_grad);
      },
      "shape"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), nb::kw_only(),
      "requires_grad"_a = false,
      nb::sig("def ones(shape: sow._types.Shape, dtype: sow._types.DTypeLike | None = None, "
              "device: str | None = None, *, requires_grad: bool = False) -> Tensor"),
      "A tensor of ones.\n\n>>> sow.ones([2], \"int32\")\nTensor([1, 1], dtype=int32)");
  module.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype, nb::handle device,
         bool requires_grad) {
        const Scalar number = parse_number(value, "full", "value");
        return wanting(Tensor::full(parse_extents(shape, "full"), number,
                                    parse_dtype(dtype, "full", natural_type(number)),
                                    parse_device(device, "full")),
                       requires_grad);
      },
      "shape"_a, "value"_a, "dtype"_a = nb::none(), "device"_a = nb::none(), nb::kw_only(),
      "requires_grad"_a = false,
      nb::sig("def full(shape: sow._types.Shape, value: complex, dtype: sow._types.DTypeLike | "
              "None = None, device: str | None = None, *, requires_grad: bool = False) "
              "-> Tensor"),
      "A tensor filled with one number.\n\n>>> sow.full([2], 7)\nTensor([7, 7], dtype=int64)");
  module.def("arange", arange_of, "start"_a, "stop"_a = nb::none(), "step"_a = 1,
             "dtype"_a = nb::none(), nb::kw_only(), "requires_grad"_a = false,
             nb::sig("def arange(start: float, stop: float | None = None, step: float = 1, "
                     "dtype: sow._types.DTypeLike | None = None, *, requires_grad: bool = False) "
                     "-> Tensor"),
             "The numbers start, start + step, ... before stop; from 0 when only one is given.\n\n"
             ">>> sow.arange(1, 7, 2)\nTensor([1, 3, 5], dtype=int64)");
}

}  // namespace

void bind_factories(nb::module_& module) {
  module.def(
      "tensor", make_tensor, "data"_a, "dtype"_a = nb::none(), "device"_a = nb::none(),
      nb::kw_only(), "requires_grad"_a = false,
      nb::sig("def tensor(data: sow._types.ArrayLike, dtype: sow._types.DTypeLike | None = None, "
              "device: str | None = None, *, requires_grad: bool = False) "
              "-> Tensor"),
      "A copy of any array, nested list or number. Lists of floats become float32, of ints int64, "
      "of bools "
      "bool.\n\n>>> sow.tensor([[1, 2], [3, 4]])\nTensor([[1, 2],\n        [3, 4]], dtype=int64)");
  module.def(
      "asarray",
      [](nb::handle data) {
        return shared_with(data, {"asarray", "data"});
      },
      "data"_a, nb::sig("def asarray(data: sow._types.ArrayLike) -> Tensor"),
      "A tensor on the memory of any array, without a copy where that is possible.\n\n"
      ">>> x = np.zeros(2)\n>>> t = sow.asarray(x)\n>>> x[0] = 1\n>>> t\nTensor([1., 0.], "
      "dtype=float64)");
  module.def(
      "from_dlpack",
      [](nb::handle x) {
        if (!has_attribute(x, "__dlpack__")) {
          raise(PyExc_TypeError, "from_dlpack: x is " + describe(x) + ", which has no __dlpack__");
        }
        return shared_with(x, {"from_dlpack", "x"});
      },
      "x"_a, nb::sig("def from_dlpack(x: typing.Any) -> Tensor"),
      "A tensor on the memory of any array that speaks DLPack.\n\n"
      ">>> sow.from_dlpack(np.arange(2))\nTensor([0, 1], dtype=int64)");
  bind_filled(module);
  bind_random(module);
}

}  // namespace sow::python
