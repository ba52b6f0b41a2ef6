// SPDX-License-Identifier: Apache-2.0
// Calls that belong to another library's graph: who takes them, and the table of operations that
// sow.torch, sow.jax and sow.paddle are derived from.
#pragma once

#include <string>
#include <vector>

#include "calls/arguments.h"

namespace sow::python {

// The arguments of one call, in the order of its entry in the table, defaults filled in.
template <class T>
nb::object as_object(const T& value) {
  if constexpr (requires { value.object; }) {
    return nb::borrow(value.object);
  } else if constexpr (std::is_same_v<T, bool>) {
    return nb::bool_(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return nb::float_(value);
  } else {
    return nb::int_(value);
  }
}

// Hands a call to the function registered for this library, which is imported for it if need be.
// Null where there is none or it returned NotImplemented: then the call is made as on plain arrays.
nb::object hand_over(Kind framework, const char* op, nb::object arguments);

template <class... P>
nb::object hand_over(Kind framework, const char* op, const P&... p) {
  nb::object values = nb::steal(PyTuple_New(sizeof...(P)));
  Py_ssize_t at = 0;
  (PyTuple_SET_ITEM(values.ptr(), at++, as_object(p).release().ptr()), ...);
  return hand_over(framework, op, std::move(values));
}

// Whether a library must see what is done to this array: it belongs to a graph that is being
// recorded, or stands for an array that does not exist yet. Errors are cleared.
bool is_recorded(nb::handle object, const TypeInfo& info);

// Whether this library wants gradients on this thread; true where it cannot be asked.
bool is_recording(Kind framework);

// One argument of an operation, as Python's signature has it.
struct Parameter {
  const char* name;
  const char* role;
  nb::object fallback;  // the default; not valid where there is none
};

template <class T>
constexpr const char* role_of() {
  if constexpr (std::is_same_v<T, Destination>)
    return "destination";
  else if constexpr (std::is_same_v<T, ArrayArg> || std::is_same_v<T, MaybeArrayArg>)
    return "array";
  else if constexpr (std::is_same_v<T, ValuesArg>)
    return "values";
  else if constexpr (std::is_same_v<T, KeysArg>)
    return "keys";
  else if constexpr (std::is_same_v<T, KeysListArg>)
    return "keys_list";
  else if constexpr (std::is_same_v<T, ShapeArg>)
    return "shape";
  else if constexpr (std::is_same_v<T, AxesArg>)
    return "axes";
  else if constexpr (std::is_same_v<T, IntsArg>)
    return "ints";
  else if constexpr (std::is_same_v<T, NumberArg>)
    return "number";
  else if constexpr (std::is_same_v<T, ReduceArg> || std::is_same_v<T, MaybeReduceArg> ||
                     std::is_same_v<T, GroupReduceArg> || std::is_same_v<T, TextArg>)
    return "reduce";
  else if constexpr (std::is_same_v<T, BoundsArg> || std::is_same_v<T, PolicyArg>)
    return "bounds";
  else if constexpr (std::is_same_v<T, NameArg>)
    return "name";
  else if constexpr (std::is_same_v<T, StreamArg>)
    return "stream";
  else if constexpr (std::is_same_v<T, SliceStart>)
    return "start";
  else if constexpr (std::is_same_v<T, SliceEnd>)
    return "end";
  else if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else if constexpr (std::is_same_v<T, double>)
    return "float";
  else
    return "int";
}

// Adds an operation to the table.
void list_operation(const char* op, const char* stem, const char* form,
                    std::vector<Parameter> parameters);

}  // namespace sow::python
