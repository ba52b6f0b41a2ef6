// Threads, explanations, and what the library knows about the machine.
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bind.h"
#include "sow/ops.h"
#include "sow/runtime.h"
#include "sow/version.h"

namespace sow::python {
namespace {

using namespace nb::literals;

std::string explain_call(nb::handle name, nb::args args, nb::kwargs kwargs) {
  if (!PyUnicode_Check(name.ptr()))
    raise(PyExc_TypeError, "explain: op is " + describe(name) + "; it must be a name");
  nb::object module = nb::module_::import_("sow");
  nb::object function = nb::getattr(module, nb::borrow<nb::str>(name), nb::none());
  nb::object methods = module.attr("Tensor");
  const bool known =
      PyCallable_Check(function.ptr()) && (nb::hasattr(methods, nb::borrow<nb::str>(name)) ||
                                           nb::cast<std::string>(name) == "scatter_nd");
  if (!known) {
    raise(PyExc_ValueError,
          "explain: '" + nb::cast<std::string>(name) + "' is no operation of sow");
  }
  std::string text = explain([&] { function(*args, **kwargs); });
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

}  // namespace

void bind_runtime(nb::module_& module) {
  module.def("_version", [] { return nb::str(version()); });
  module.def("_instruction_set", [] { return nb::str(instruction_set()); });
  module.def("get_num_threads", get_num_threads,
             "How many threads an operation may use.\n\n>>> sow.get_num_threads() >= 1\nTrue");
  module.def(
      "set_num_threads",
      [](nb::handle count) {
        const int64_t wanted = parse_integer(count, "set_num_threads", "count");
        set_num_threads(static_cast<int>(std::clamp<int64_t>(wanted, -1, INT32_MAX)));
      },
      "count"_a, nb::sig("def set_num_threads(count: int) -> None"),
      "Sets how many threads an operation may use. No result depends on it, and no other library "
      "notices.\n\n"
      ">>> sow.set_num_threads(sow.get_num_threads())");
  module.def("explain", explain_call, "op"_a, "args"_a, "kwargs"_a,
             nb::sig("def explain(op: str, *args: typing.Any, **kwargs: typing.Any) -> str"),
             "How an operation would be done, step by step, in words. Nothing is written.\n\n"
             ">>> print(sow.explain(\"scatter_add\", np.zeros(3), 0, [1, 1], np.ones(2)))  # "
             "doctest: +ELLIPSIS\n"
             "scatter_add...");
}

}  // namespace sow::python
