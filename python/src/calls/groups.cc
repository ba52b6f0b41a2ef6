// SPDX-License-Identifier: Apache-2.0
// The table of operations by group, by segment and along edges.
#include "sow/groups.h"
#include "calls/bind.h"

namespace sow::python {
namespace {

using namespace nb::literals;

constexpr auto by_group = [](const Tensor& src, const Index& index, const std::string& reduce,
                             int64_t axis, std::optional<int64_t> size, int64_t correction,
                             bool last_of_ties) {
  return group_reduce(src, index, reduce, axis, size, correction, last_of_ties);
};

constexpr auto by_segment = [](const Tensor& src, const Index& pointers, const std::string& reduce,
                               int64_t axis, int64_t correction, bool last_of_ties) {
  return segment_reduce(src, pointers.keys(), reduce, axis, correction, last_of_ties);
};

constexpr auto gathered = [](const Tensor& src, const Index& pointers, int64_t axis,
                             std::optional<int64_t> size) {
  return gather_csr(src, pointers.keys(), axis, size);
};

constexpr auto running = [](const Tensor& src, const Index& pointers, int64_t axis,
                            bool exclusive) {
  return segment_cumsum(src, pointers.keys(), axis, exclusive);
};

constexpr auto counted = [](const Tensor& index, const std::optional<Tensor>& weights,
                            std::optional<int64_t> size, BoundsPolicy policy) {
  return bincount(Index(index, policy.bounds), weights, size);
};

constexpr auto received = [](const Tensor& x, const Index& from, const Index& goal,
                             const std::string& reduce, std::optional<int64_t> size) {
  return send_u_recv(x, from, goal, reduce, size);
};

constexpr auto combined = [](const Tensor& x, const Tensor& y, const Index& from, const Index& goal,
                             const std::string& message, const std::string& reduce,
                             std::optional<int64_t> size) {
  return send_ue_recv(x, y, from, goal, message, reduce, size);
};

constexpr auto met = [](const Tensor& x, const Tensor& y, const Index& from, const Index& goal,
                        const std::string& message) { return send_uv(x, y, from, goal, message); };

// Three tensors, of the keys' kind.
nb::tuple unique_of(nb::handle keys) {
  const Tensor tensor = to_tensor(keys, {"unique", "keys"}, Access::read, DType::int64);
  const TypeInfo info = info_of(keys);
  const OwnersStream stream(tensor, keys, info);
  const UniqueKeys found = unique(tensor);
  return nb::make_tuple(from_tensor(found.keys, keys, info), from_tensor(found.inverse, keys, info),
                        from_tensor(found.counts, keys, info));
}

}  // namespace

void bind_groups(nb::module_& module, nb::class_<Tensor>& tensor) {
  Binder bind(module, tensor);
  bind.single<by_group, KeysArg, GroupReduceArg, int64_t, AxisArg, int64_t, bool, BoundsArg>(
      "group_reduce", "src", "index"_a, "reduce"_a, "axis"_a = 0, "size"_a = nb::none(),
      nb::kw_only(), "correction"_a = 1, "last_of_ties"_a = false, "bounds"_a = "error");
  bind.single<group_softmax, KeysArg, int64_t, AxisArg, BoundsArg>(
      "group_softmax", "src", "index"_a, "axis"_a = 0, "size"_a = nb::none(), nb::kw_only(),
      "bounds"_a = "error");
  bind.single<group_log_softmax, KeysArg, int64_t, AxisArg, BoundsArg>(
      "group_log_softmax", "src", "index"_a, "axis"_a = 0, "size"_a = nb::none(), nb::kw_only(),
      "bounds"_a = "error");
  bind.single<by_segment, KeysArg, GroupReduceArg, int64_t, int64_t, bool>(
      "segment_reduce", "src", "pointers"_a, "reduce"_a, "axis"_a = 0, nb::kw_only(),
      "correction"_a = 1, "last_of_ties"_a = false);
  bind.single<gathered, KeysArg, int64_t, AxisArg>("gather_csr", "src", "pointers"_a, "axis"_a = 0,
                                                   "size"_a = nb::none());
  bind.single<running, KeysArg, int64_t, bool>("segment_cumsum", "src", "pointers"_a, "axis"_a = 0,
                                               nb::kw_only(), "exclusive"_a = false);
  bind.single<counted, MaybeArrayArg, AxisArg, PolicyArg>(
      "bincount", "index", "weights"_a = nb::none(), "size"_a = nb::none(), nb::kw_only(),
      "bounds"_a = "error");
  bind.single<bin_index, ArrayArg>("bin_index", "x", "edges"_a);
  bind.single<received, KeysArg, KeysArg, TextArg, AxisArg, NameArg, BoundsArg>(
      "send_u_recv", "x", "src_index"_a, "dst_index"_a, "reduce_op"_a = "sum",
      "out_size"_a = nb::none(), "name"_a = nb::none(), nb::kw_only(), "bounds"_a = "error");
  bind.single<combined, ArrayArg, KeysArg, KeysArg, TextArg, TextArg, AxisArg, NameArg, BoundsArg>(
      "send_ue_recv", "x", "y"_a, "src_index"_a, "dst_index"_a, "message_op"_a = "add",
      "reduce_op"_a = "sum", "out_size"_a = nb::none(), "name"_a = nb::none(), nb::kw_only(),
      "bounds"_a = "error");
  bind.single<met, ArrayArg, KeysArg, KeysArg, TextArg, NameArg, BoundsArg>(
      "send_uv", "x", "y"_a, "src_index"_a, "dst_index"_a, "message_op"_a = "add",
      "name"_a = nb::none(), nb::kw_only(), "bounds"_a = "error");
  module.def(
      "_unique", [](ArrayArg keys) { return unique_of(keys.object); }, "keys"_a,
      "Distinct keys in order, which of them each key is, and how often each is there.",
      nb::sig("def _unique(keys: typing.Any) -> tuple[typing.Any, typing.Any, typing.Any]"));
}

}  // namespace sow::python
