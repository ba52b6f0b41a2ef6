// SPDX-License-Identifier: Apache-2.0
// The table of operations: each C++ function with the names and defaults of its Python arguments.
#include "sow/ops.h"
#include "calls/bind.h"

namespace sow::python {
namespace {

using namespace nb::literals;

using OneAxis = Tensor (*)(const Tensor&, const Tensor&, int64_t, int64_t, int64_t, int64_t);
using SeveralAxes = Tensor (*)(const Tensor&, const Tensor&, const Dims&, const Dims&, const Dims&,
                               const Dims&);

// Along one axis src has the part's shape, as in torch; along several, which Paddle's takes, it
// broadcasts. What is left out is the whole of each axis.
template <OneAxis one, SeveralAxes several>
constexpr auto sliced_out = [](const Tensor& input, const Tensor& src,
                               const std::optional<Dims>& axes, const std::optional<Dims>& starts,
                               const std::optional<Dims>& stops, const std::optional<Dims>& steps) {
  const size_t count = axes ? axes->size() : 0;
  const Dims from = starts.value_or(Dims(count, 0)), to = stops.value_or(Dims(count, kEnd));
  Dims by = steps.value_or(Dims(count, 1));
  if (by.size() == 1) by = Dims(count, by[0]);
  if (count == 1 && from.size() == 1 && to.size() == 1 && by.size() == 1) {
    return one(input, src, (*axes)[0], from[0], to[0], by[0]);
  }
  return several(input, src, axes.value_or(Dims()), from, to, by);
};

// A column of nonzero for each axis; through the module's own functions, so of any kind of array.
nb::object columns_of(nb::handle module, nb::handle x) {
  nb::object given = nb::borrow(x);
  const nb::object shape = nb::getattr(x, "shape", nb::none());
  // Without dimensions it counts as [1], as in torch.
  if (!shape.is_none() && nb::len(shape) == 0) given = module.attr("unsqueeze")(x, 0);
  const nb::object places = module.attr("nonzero")(given);
  const int64_t axes = nb::cast<int64_t>(nb::object(places.attr("shape"))[1]);
  nb::list out;
  for (int64_t axis = 0; axis < axes; ++axis) out.append(module.attr("select")(places, 1, axis));
  return nb::steal(PyList_AsTuple(out.ptr()));
}

void bind_masks(Binder& bind) {
  bind.pair<masked_scatter, masked_scatter_, ArrayArg, ArrayArg, NameArg>(  //
      "masked_scatter", "x", "mask"_a, "value"_a, "name"_a = nb::none());
  bind.pair<masked_fill, masked_fill_, ArrayArg, ValuesArg>("masked_fill", "x", "mask"_a,
                                                            "value"_a);
  bind.single<masked_select, ArrayArg>("masked_select", "x", "mask"_a);
  bind.single<nonzero>("nonzero", "x");
}

void bind_along_axis(Binder& bind) {
  bind.pair<put_along_axis, put_along_axis_, KeysArg, ValuesArg, AxisArg, ReduceArg, bool, bool,
            NameArg, BoundsArg>("put_along_axis", "arr", "indices"_a, "values"_a, "axis"_a.none(),
                                "reduce"_a = "add", "include_self"_a = true, "broadcast"_a = true,
                                "name"_a = nb::none(), nb::kw_only(), "bounds"_a = "error");
  bind.pair<scatter, scatter_, int64_t, KeysArg, ValuesArg, ReduceArg, BoundsArg>(
      "scatter", "input", "dim"_a, "index"_a, "src"_a, nb::kw_only(), "reduce"_a = nb::none(),
      "bounds"_a = "error");
  bind.pair<scatter_add, scatter_add_, int64_t, KeysArg, ValuesArg, BoundsArg>(
      "scatter_add", "input", "dim"_a, "index"_a, "src"_a, nb::kw_only(), "bounds"_a = "error");
  bind.pair<scatter_reduce, scatter_reduce_, int64_t, KeysArg, ValuesArg, ReduceArg, bool,
            BoundsArg>("scatter_reduce", "input", "dim"_a, "index"_a, "src"_a, "reduce"_a,
                       "include_self"_a = true, nb::kw_only(), "bounds"_a = "error");
  bind.single<take_along_axis, KeysArg, AxisArg, bool, BoundsArg>(
      "take_along_axis", "arr", "indices"_a, "axis"_a.none(), "broadcast"_a = true, nb::kw_only(),
      "bounds"_a = "error");
  bind.single<gather, int64_t, KeysArg, BoundsArg>("gather", "input", "dim"_a, "index"_a,
                                                   nb::kw_only(), "bounds"_a = "error");
}

void bind_rows(Binder& bind) {
  bind.pair<index_add, index_add_, int64_t, KeysArg, ValuesArg, NumberArg, BoundsArg>(
      "index_add", "x", "axis"_a, "index"_a, "source"_a, nb::kw_only(), "alpha"_a = 1,
      "bounds"_a = "error");
  bind.pair<index_copy, index_copy_, int64_t, KeysArg, ValuesArg, BoundsArg>(
      "index_copy", "x", "axis"_a, "index"_a, "source"_a, nb::kw_only(), "bounds"_a = "error");
  bind.pair<index_fill, index_fill_, int64_t, KeysArg, ValuesArg, BoundsArg>(
      "index_fill", "x", "axis"_a, "index"_a, "value"_a, nb::kw_only(), "bounds"_a = "error");
  bind.pair<index_reduce, index_reduce_, int64_t, KeysArg, ValuesArg, ReduceArg, bool, BoundsArg>(
      "index_reduce", "x", "axis"_a, "index"_a, "source"_a, "reduce"_a, "include_self"_a = true,
      nb::kw_only(), "bounds"_a = "error");
  bind.single<index_select, int64_t, KeysArg, BoundsArg>("index_select", "x", "axis"_a, "index"_a,
                                                         nb::kw_only(), "bounds"_a = "error");
}

void bind_coordinates(Binder& bind) {
  bind.pair<index_put, index_put_, KeysListArg, ValuesArg, bool, MaybeReduceArg, bool, BoundsArg>(
      "index_put", "x", "indices"_a, "value"_a, "accumulate"_a = false, nb::kw_only(),
      "reduce"_a = nb::none(), "include_self"_a = true, "bounds"_a = "error");
  bind.single<index_get, KeysListArg, BoundsArg>("index_get", "x", "indices"_a, nb::kw_only(),
                                                 "bounds"_a = "error");
  auto nd = [&]<auto Out, auto In>(const char* name) {
    bind.pair<Out, In, KeysArg, ValuesArg, BoundsArg>(name, "x", "indices"_a, "updates"_a,
                                                      nb::kw_only(), "bounds"_a = "error");
  };
  nd.operator()<tensor_scatter_nd_update, tensor_scatter_nd_update_>("tensor_scatter_nd_update");
  nd.operator()<tensor_scatter_nd_add, tensor_scatter_nd_add_>("tensor_scatter_nd_add");
  nd.operator()<tensor_scatter_nd_sub, tensor_scatter_nd_sub_>("tensor_scatter_nd_sub");
  nd.operator()<tensor_scatter_nd_max, tensor_scatter_nd_max_>("tensor_scatter_nd_max");
  nd.operator()<tensor_scatter_nd_min, tensor_scatter_nd_min_>("tensor_scatter_nd_min");
  nd.operator()<tensor_scatter_nd_mul, tensor_scatter_nd_mul_>("tensor_scatter_nd_mul");
  bind.single<gather_nd, KeysArg, int64_t, BoundsArg>(
      "gather_nd", "x", "indices"_a, "batch_dims"_a = 0, nb::kw_only(), "bounds"_a = "error");
}

// The one scatter without a destination: the updates, which it sums into zeros, say the kind.
void bind_scatter_nd(nb::module_& module) {
  static const char* const names[] = {"updates", "indices", "shape", "bounds"};
  list_operation("scatter_nd", "scatter_nd", "out",
                 {{"updates", "destination", {}},
                  {"indices", "keys", {}},
                  {"shape", "shape", {}},
                  {"bounds", "bounds", nb::str("error")},
                  {"stream", "stream", nb::none()}});
  module.def(
      "scatter_nd",
      [](KeysArg indices, Destination updates, ShapeArg shape, BoundsArg bounds, StreamArg stream,
         OutArg out) {
        constexpr auto scatter = [](const Tensor& updates, const Index& indices,
                                    const Dims& shape) {
          return scatter_nd(indices, updates, shape);
        };
        return SameKind{call<scatter>({"scatter_nd", names}, Access::read, updates.object, stream,
                                      out, indices, shape, bounds)};
      },
      "indices"_a, "updates"_a, "shape"_a, nb::kw_only(), "bounds"_a = "error",
      "stream"_a = nb::none(), "out"_a = nb::none(), doc_of("scatter_nd", "scatter_nd").c_str());
}

void bind_regular_places(Binder& bind) {
  bind.pair<diagonal_scatter, diagonal_scatter_, ArrayArg, int64_t, int64_t, int64_t, NameArg>(
      "diagonal_scatter", "input", "src"_a, "offset"_a = 0, "axis1"_a = 0, "axis2"_a = 1,
      "name"_a = nb::none());
  bind.pair<select_scatter, select_scatter_, ArrayArg, int64_t, int64_t>(  //
      "select_scatter", "input", "src"_a, "dim"_a, "index"_a);
  bind.pair<sliced_out<slice_scatter, slice_scatter>, sliced_out<slice_scatter_, slice_scatter_>,
            ArrayArg, IntsArg, IntsArg, IntsArg, IntsArg>("slice_scatter", "input", "src"_a,
                                                          "dim"_a = 0, "start"_a = nb::none(),
                                                          "end"_a = nb::none(), "step"_a = 1);
  bind.pair<fill_diagonal, fill_diagonal_, ValuesArg, bool, int64_t>(
      "fill_diagonal", "x", "value"_a, "wrap"_a = false, nb::kw_only(), "offset"_a = 0);
}

void bind_views(Binder& bind) {
  bind.view<diagonal, int64_t, int64_t, int64_t>("diagonal", "x", "offset"_a = 0, "axis1"_a = 0,
                                                 "axis2"_a = 1);
  bind.view<select, int64_t, int64_t>("select", "x", "axis"_a, "position"_a);
  bind.view<slice, int64_t, SliceStart, SliceEnd, int64_t>(  //
      "slice", "x", "axis"_a, "start"_a = nb::none(), "stop"_a = nb::none(), "step"_a = 1);
  bind.view<broadcast_to, ShapeArg>("broadcast_to", "x", "shape"_a);
  bind.view<unsqueeze, int64_t>("unsqueeze", "x", "axis"_a);
  bind.view<flatten, int64_t, int64_t>("flatten", "x", "first"_a = 0, "last"_a = -1);
  bind.view<reshape, ShapeArg>("reshape", "x", "shape"_a);
  bind.view<transpose, int64_t, int64_t>("transpose", "x", "axis1"_a, "axis2"_a);
}

// x.reshape(2, 3) as well as x.reshape([2, 3]).
void bind_reshape(nb::class_<Tensor>& tensor) {
  nb::delattr(tensor, "reshape");
  tensor.def(
      "reshape",
      [](const Tensor& x, nb::args shape) {
        const bool one = shape.size() == 1;
        return reshape(x, parse_shape(one ? nb::handle(shape[0]) : nb::handle(shape), "reshape"));
      },
      nb::arg("shape"),
      nb::sig("def reshape(self, *shape: typing.SupportsIndex | "
              "collections.abc.Sequence[typing.SupportsIndex]) -> Tensor"),
      doc_of("reshape", "reshape").c_str());
}

}  // namespace

// torch's as_tuple. Its own False is the plain call.
void bind_nonzero(nb::module_& module, nb::class_<Tensor>& tensor) {
  const auto as_tuple = [module = nb::handle(module)](ArrayArg x, bool as_tuple) {
    return as_tuple ? columns_of(module, x.object) : module.attr("nonzero")(x.object);
  };
  const char* doc = "With as_tuple, an array of positions for each axis.";
  module.def("nonzero", as_tuple, "x"_a, nb::kw_only(), "as_tuple"_a,
             nb::sig("def nonzero(x: sow._types.A, *, as_tuple: bool) -> typing.Any"), doc);
  tensor.def("nonzero", as_tuple, nb::kw_only(), "as_tuple"_a,
             nb::sig("def nonzero(self, *, as_tuple: bool) -> typing.Any"), doc);
}

void bind_operations(nb::module_& module, nb::class_<Tensor>& tensor) {
  Binder bind(module, tensor);
  bind_masks(bind);
  bind_nonzero(module, tensor);
  bind_along_axis(bind);
  bind_rows(bind);
  bind_coordinates(bind);
  bind_scatter_nd(module);
  bind_regular_places(bind);
  bind_views(bind);
  bind_reshape(tensor);
}

}  // namespace sow::python
