// SPDX-License-Identifier: Apache-2.0
// sow.Index: keys that are checked and ordered once and used many times.
#include "calls/bind.h"

namespace sow::python {
namespace {

using namespace nb::literals;

const char* bounds_name(Bounds bounds) {
  switch (bounds) {
    case Bounds::error:
      return "error";
    case Bounds::drop:
      return "drop";
    case Bounds::clip:
      return "clip";
    case Bounds::promise:
      return "promise";
  }
  return "error";
}

}  // namespace

void bind_index(nb::module_& module) {
  nb::class_<Index>(module, "Index",
                    "An index to hold and reuse: its keys are copied, checked against an axis of "
                    "`size` and ordered\n"
                    "once. sorted and unique are facts the caller knows; they are verified.\n\n"
                    ">>> edges = sow.Index([0, 2, 0], size=3)\n"
                    ">>> sow.index_add(np.zeros(3, \"f4\"), 0, edges, [1.0, 2.0, 3.0])\n"
                    "array([4., 0., 2.], dtype=float32)")
      .def(
          "__init__",
          [](Index* self, nb::handle keys, nb::handle size, nb::handle bounds, bool sorted,
             bool unique) {
            expect_index(keys, "Index", "keys");
            const Tensor tensor = to_tensor(keys, {"Index", "keys"}, Access::read, DType::int64);
            const BoundsPolicy policy = parse_policy(bounds, "Index");
            const int64_t extent = parse_integer(size, "Index", "size");
            const IndexFacts facts{sorted, unique};
            const OwnersStream stream(tensor, keys, info_of(keys));
            const Unlocked unlocked;
            const Tensor keys_of = signed_keys(tensor);
            const bool narrow = is_integer(keys_of.dtype()) && size_of(keys_of.dtype()) < 4;
            const Tensor wide = narrow ? sow::to(keys_of, DType::int32) : keys_of;
            new (self)
                Index(Index::hold(policy.wraps ? wide : unwrapped(wide, policy.bounds, "Index"),
                                  extent, policy.bounds, facts));
          },
          "keys"_a, "size"_a, nb::kw_only(), "bounds"_a = "error", "sorted"_a = false,
          "unique"_a = false,
          nb::sig("def __init__(self, keys: sow._types.ArrayLike, size: int, *, bounds: "
                  "sow._types.Policy = \"error\", sorted: bool = False, "
                  "unique: bool = False) -> None"))
      .def_prop_ro(
          "keys", [](const Index& self) { return self.keys(); },
          "The keys, read-only by agreement.")
      .def_prop_ro("size", &Index::size, "The extent of the axis it was checked against.")
      .def_prop_ro(
          "bounds", [](const Index& self) { return nb::str(bounds_name(self.bounds())); },
          "What happens to a key outside of the axis.")
      .def_prop_ro(
          "sorted", [](const Index& self) { return self.facts().sorted; },
          "Whether the keys ascend.")
      .def_prop_ro(
          "unique", [](const Index& self) { return self.facts().unique; },
          "Whether no key appears twice.")
      .def(
          "__reduce__",
          [](const Index& self) {
            const nb::object restore = nb::module_::import_("sow._pickle").attr("restore_index");
            return nb::make_tuple(
                restore, nb::make_tuple(self.keys(), self.size(), bounds_name(self.bounds()),
                                        self.facts().sorted, self.facts().unique));
          },
          nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"))
      .def("__len__", [](const Index& self) { return self.keys().numel(); })
      .def("__repr__", [](const Index& self) {
        return nb::str(("Index(" + std::to_string(self.keys().numel()) +
                        " keys, size=" + std::to_string(self.size()) + ", bounds='" +
                        bounds_name(self.bounds()) + "')")
                           .c_str());
      });
}

}  // namespace sow::python
