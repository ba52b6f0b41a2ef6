// SPDX-License-Identifier: Apache-2.0
// The functions that other libraries' modules registered, and the table of operations.
#include "calls/dispatch.h"

#include "calls/bind.h"

namespace sow::python {
namespace {

using namespace nb::literals;

// What sow.<library> registered. Guarded by the GIL; stays until the process ends.
struct Framework {
  const char* name;
  nb::handle call = {};       // call(op, arguments)
  nb::handle recording = {};  // recording() -> bool: whether gradients are wanted on this thread
  bool looked_for = false;
};

Framework* framework_of(Kind kind) {
  static Framework torch{"torch"}, jax{"jax"}, paddle{"paddle"};
  switch (kind) {
    case Kind::torch:
      return &torch;
    case Kind::jax:
      return &jax;
    case Kind::paddle:
      return &paddle;
    default:
      return nullptr;
  }
}

// Importing sow.<library> registers it. A library too old for it leaves plain arrays as they were.
Framework* ready(Kind kind) {
  Framework* framework = framework_of(kind);
  if (framework == nullptr || framework->looked_for) return framework;
  framework->looked_for = true;
  nb::object module =
      nb::steal(PyImport_ImportModule((std::string("sow.") + framework->name).c_str()));
  if (module) return framework;
  if (!PyErr_ExceptionMatches(PyExc_ImportError)) {
    framework->looked_for = false;
    throw nb::python_error();
  }
  PyErr_Clear();
  return framework;
}

struct Listed {
  const char* op;
  const char* stem;
  const char* form;
  std::vector<Parameter> parameters;
};

std::vector<Listed>& listed() {
  static auto* table = new std::vector<Listed>();
  return *table;
}

nb::dict op_table() {
  nb::dict table;
  for (const Listed& entry : listed()) {
    nb::list parameters;
    for (const Parameter& parameter : entry.parameters) {
      nb::object fallback = parameter.fallback.is_valid() ? nb::make_tuple(parameter.fallback)
                                                          : nb::object(nb::make_tuple());
      parameters.append(nb::make_tuple(parameter.name, parameter.role, fallback));
    }
    table[entry.op] = nb::make_tuple(entry.stem, entry.form, nb::tuple(parameters));
  }
  return table;
}

}  // namespace

void list_operation(const char* op, const char* stem, const char* form,
                    std::vector<Parameter> parameters) {
  listed().push_back({op, stem, form, std::move(parameters)});
}

bool is_recording(Kind kind) {
  Framework* framework = ready(kind);
  if (framework == nullptr) return true;
  if (framework->recording.is_valid()) {
    nb::object answer = nb::steal(PyObject_CallNoArgs(framework->recording.ptr()));
    if (!answer) throw nb::python_error();
    return answer.ptr() == Py_True;
  }
  // Nothing was registered: the library itself is asked.
  nb::object library = nb::steal(PyImport_ImportModule(framework->name));
  nb::object answer =
      nb::steal(library ? PyObject_CallMethod(library.ptr(), "is_grad_enabled", nullptr) : nullptr);
  if (!answer) forget_error();
  return answer.ptr() != Py_False;
}

nb::object hand_over(Kind kind, const char* op, nb::object arguments) {
  Framework* framework = ready(kind);
  if (framework == nullptr || !framework->call.is_valid()) return {};
  nb::str name(op);
  PyObject* given[] = {name.ptr(), arguments.ptr()};
  nb::object result = nb::steal(PyObject_Vectorcall(framework->call.ptr(), given, 2, nullptr));
  if (!result) throw nb::python_error();
  return result.ptr() == Py_NotImplemented ? nb::object() : result;
}

void bind_dispatch(nb::module_& module) {
  module.def(
      "_set_dispatch",
      [](const char* library, nb::object call, nb::object recording) -> nb::object {
        for (const Kind kind : {Kind::torch, Kind::jax, Kind::paddle}) {
          Framework* framework = framework_of(kind);
          if (std::string_view(framework->name) != library) continue;
          const auto held = [](nb::handle& place, nb::object next) {
            nb::object before = place.is_valid() ? nb::steal(place) : nb::none();
            place = next.is_none() ? nb::handle() : next.release();
            return before;
          };
          const bool registered = framework->looked_for;
          framework->looked_for = true;
          nb::object before = held(framework->call, std::move(call));
          nb::object asked = held(framework->recording, std::move(recording));
          return registered ? nb::object(nb::make_tuple(before, asked)) : nb::none();
        }
        raise(PyExc_ValueError, std::string("_set_dispatch: '") + library +
                                    "' is no library whose graphs sow knows (known: torch, jax, "
                                    "paddle)");
      },
      "library"_a, "call"_a.none(), "recording"_a.none() = nb::none(),
      "Calls on arrays that this library must see go to call(op, arguments), arguments in the "
      "order "
      "of\n_op_table(); NotImplemented sends them back. recording() says whether gradients are "
      "wanted now. Returns what was registered before, (call, recording), or None.",
      nb::sig("def _set_dispatch(library: str, call: typing.Any, recording: typing.Any = None) -> "
              "typing.Any"));
  module.def("_op_table", op_table,
             "name -> (out-of-place name, \"out\" | \"in_place\" | \"view\", ((parameter, role, "
             "(default,) or ()), ...)).",
             nb::sig("def _op_table() -> dict[str, typing.Any]"));
}

}  // namespace sow::python
