// SPDX-License-Identifier: Apache-2.0
// Reads arguments that are neither plain numbers nor plain arrays: indices, names, shapes.
#include "calls/arguments.h"

#include <algorithm>

#include "arrays/elements.h"
#include "sow/math.h"

namespace sow::python {
namespace {

std::string prefix(const char* op) { return std::string(op) + ": "; }

// A tuple holds one index an axis, and so does a list that holds anything but numbers.
bool is_one_an_axis(nb::handle object) {
  if (PyTuple_Check(object.ptr())) return true;
  if (!PyList_Check(object.ptr())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object.ptr()); ++i) {
    const nb::object item = nb::borrow(PyList_GET_ITEM(object.ptr(), i));
    if (!number_of(item)) return true;
  }
  return false;
}

// Which NumPy and PyTorch do not read alike.
void refuse_bare_numbers(nb::handle object, const char* op, const char* name) {
  if (!PyList_Check(object.ptr()) || PyList_GET_SIZE(object.ptr()) == 0) return;
  raise(PyExc_TypeError, prefix(op) + name +
                             " is a list of numbers: one index, or one for each axis? Write ([0, "
                             "1],) or (0, 1)");
}

// A str in UTF-8, which lone surrogates have no form in.
std::string_view text_in(nb::handle object, const char* op, const char* name, const char* wanted) {
  if (!PyUnicode_Check(object.ptr())) {
    raise(PyExc_TypeError,
          prefix(op) + name + " is " + describe(object) + "; it must be " + wanted);
  }
  if (const char* text = PyUnicode_AsUTF8(object.ptr())) return text;
  PyErr_Clear();
  raise(PyExc_ValueError, prefix(op) + name + " holds surrogates, which are no text");
}

}  // namespace

BoundsPolicy parse_policy(nb::handle object, const char* op) {
  const std::string_view name = text_in(object, op, "bounds", "a name");
  if (name == "error") return {Bounds::error};
  if (name == "drop") return {Bounds::drop};
  if (name == "clip") return {Bounds::clip};
  if (name == "promise") return {Bounds::promise};
  if (name == "error_unwrapped") return {Bounds::error, false};
  if (name == "drop_unwrapped") return {Bounds::drop, false};
  if (name == "clip_unwrapped") return {Bounds::clip, false};
  raise(PyExc_ValueError, prefix(op) + "bounds '" + std::string(name) +
                              "' is unknown (known: error, drop, clip, promise, error_unwrapped, "
                              "drop_unwrapped, clip_unwrapped)");
}

Bounds parse_bounds(nb::handle object, const char* op) {
  const BoundsPolicy policy = parse_policy(object, op);
  if (policy.wraps) return policy.bounds;
  raise(PyExc_ValueError, prefix(op) +
                              "negative indices wrap here; take error, drop, clip or "
                              "promise for bounds");
}

Reduce parse_reduce(nb::handle object, const char* op) {
  if (object.is_none()) return Reduce::assign;
  const std::string_view text = text_in(object, op, "reduce", "a name");
  try {
    return ReduceName(text).value();
  } catch (const Error& error) {
    throw Error(error.kind(), prefix(op) + error.what());
  }
}

Device parse_device(nb::handle object, const char* op) {
  if (object.is_none()) return {};
  const std::string text = std::string(nb::str(object).c_str());
  if (text == "cpu" || text == "cpu:0") return {};
  if (text == "cuda") return {DeviceType::cuda, 0};
  if (text.rfind("cuda:", 0) == 0 && text.size() > 5 && text.size() < 9 &&
      text.find_first_not_of("0123456789", 5) == std::string::npos) {
    return {DeviceType::cuda, std::stoi(text.substr(5))};
  }
  raise(PyExc_ValueError,
        std::string(op) + ": device '" + text + "' is unknown (known: cpu, cuda, cuda:0)");
}

std::string parse_name(nb::handle object, const char* op) {
  return std::string(text_in(object, op, "name", "a str"));
}

void expect_index(nb::handle object, const char* op, const char* argument) {
  const std::optional<Scalar> number = number_of(object);
  if (!number || number->kind() == Scalar::Kind::integer) return;
  raise(PyExc_TypeError, prefix(op) + argument + " is " + describe(object) +
                             "; an index is an int or an array of integers");
}

int64_t parse_integer(nb::handle object, const char* op, const char* argument) {
  if (!PyIndex_Check(object.ptr())) {
    raise(PyExc_TypeError,
          prefix(op) + argument + " is " + describe(object) + "; it must be an int");
  }
  nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number) throw nb::python_error();
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) raise(PyExc_ValueError, prefix(op) + argument + " does not fit 64 bits");
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

std::pair<int64_t, int64_t> parse_pair(nb::handle object, const char* op, const char* argument) {
  if (!PyTuple_Check(object.ptr()) || PyTuple_GET_SIZE(object.ptr()) != 2) {
    raise(PyExc_TypeError,
          prefix(op) + argument + " is " + describe(object) + "; it must be a tuple of two ints");
  }
  return {parse_integer(PyTuple_GET_ITEM(object.ptr(), 0), op, argument),
          parse_integer(PyTuple_GET_ITEM(object.ptr(), 1), op, argument)};
}

Dims parse_shape(nb::handle object, const char* op, const char* argument) {
  if (PyIndex_Check(object.ptr()) && !nb::isinstance<Tensor>(object))
    return {parse_integer(object, op, argument)};
  if (PyUnicode_Check(object.ptr()) || !PySequence_Check(object.ptr())) {
    raise(PyExc_TypeError, prefix(op) + argument + " is " + describe(object) + "; it must be ints");
  }
  Dims shape;
  const Py_ssize_t size = PySequence_Size(object.ptr());
  if (size < 0) throw nb::python_error();
  for (Py_ssize_t i = 0; i < size; ++i) {
    nb::object item = nb::steal(PySequence_GetItem(object.ptr(), i));
    if (!item) throw nb::python_error();
    shape.push_back(parse_integer(item, op, argument));
  }
  return shape;
}

Dims parse_ints(nb::handle object, const char* op, const char* argument) {
  if (PyIndex_Check(object.ptr())) return {parse_integer(object, op, argument)};
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) {
    raise(PyExc_TypeError, prefix(op) + argument + " is " + describe(object) +
                               "; it must be an int, or a list of them");
  }
  Dims out;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object.ptr()); ++i) {
    const nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(object.ptr(), i));
    out.push_back(item.is_none() ? kEnd : parse_integer(item, op, argument));
  }
  return out;
}

void refuse_out(const char* op) {
  raise(PyExc_ValueError,
        prefix(op) +
            "out= is for arrays at hand: it takes no part in programs, graphs and "
            "gradients; leave it out");
}

nb::object put_out(const char* op, const Tensor& result, const std::string& carried,
                   nb::handle out) {
  if (is_symbolic(result) || result.requires_grad()) refuse_out(op);
  std::string own;
  const Tensor tensor = to_tensor(out, {op, "out"}, Access::write, {}, &own);
  if (is_symbolic(tensor) || tensor.requires_grad()) refuse_out(op);
  if (tensor.dtype() != result.dtype() || own != carried) {
    const auto name = [](const Tensor& one, const std::string& moved) {
      return moved.empty() ? std::string(name_of(one.dtype())) : moved;
    };
    raise(PyExc_TypeError, prefix(op) + "out is " + name(tensor, own) + ", the result is " +
                               name(result, carried) + "; they must have the same type");
  }
  if (!(tensor.shape() == result.shape())) {
    raise(PyExc_ValueError, prefix(op) + "out has shape " + to_string(tensor.shape()) +
                                ", the result " + to_string(result.shape()) +
                                "; they must be equal");
  }
  tensor.copy_(result);
  const TypeInfo info = info_of(out);
  if (info.kind != Kind::tensor) mark_written(out, info);
  return nb::borrow(out);
}

Tensor Arguments::count(Tensor tensor) {
  work_ += tensor.numel();
  return tensor;
}

Tensor signed_keys(const Tensor& keys) {
  if (!is_unsigned(keys.dtype())) return keys;
  if (keys.dtype() != DType::uint64) return to(keys, DType::int64);
  return to(where(gt(keys, INT64_MAX), INT64_MAX, keys), DType::int64);
}

// Whether the call only moves elements, so that it takes any type.
bool Arguments::only_moves() const {
  static constexpr std::string_view kMoves[] = {"masked_scatter",
                                                "masked_fill",
                                                "masked_select",
                                                "take_along_axis",
                                                "gather",
                                                "index_copy",
                                                "index_fill",
                                                "index_select",
                                                "index_get",
                                                "gather_nd",
                                                "tensor_scatter_nd_update",
                                                "diagonal_scatter",
                                                "select_scatter",
                                                "slice_scatter",
                                                "fill_diagonal",
                                                "diagonal",
                                                "select",
                                                "slice",
                                                "broadcast_to",
                                                "unsqueeze",
                                                "flatten",
                                                "reshape",
                                                "transpose"};
  static constexpr std::string_view kReduces[] = {"scatter", "put_along_axis", "scatter_reduce",
                                                  "index_reduce"};
  std::string_view stem(op_);
  if (stem.back() == '_') stem.remove_suffix(1);
  if (stem == "index_put") return !flag_.value_or(false) && reduce_ == Reduce::assign;
  if (std::find(std::begin(kReduces), std::end(kReduces), stem) != std::end(kReduces)) {
    return reduce_ == Reduce::assign;
  }
  return std::find(std::begin(kMoves), std::end(kMoves), stem) != std::end(kMoves);
}

Tensor Arguments::destination(nb::handle object, Access access) {
  const char* name = next();
  Tensor tensor = to_tensor(object, {op_, name}, access, {}, &carried_);
  if (!carried_.empty() && info_of(object).kind == Kind::other) {
    raise(PyExc_TypeError,
          prefix(op_) + name + " is " + describe(object) + " of " + carried_ +
              ", whose results only a NumPy array can hold; take np.asarray of it");
  }
  const bool fits = carried_.empty() || only_moves();
  if (!fits) {
    raise(PyExc_TypeError, prefix(op_) + name + " is " + describe(object) + " of " + carried_ +
                               ", whose elements sow moves but does not compute with");
  }
  dtype_ = tensor.dtype();
  device_ = tensor.device();
  return count(std::move(tensor));
}

// Any reduction by group computes, whatever its name.
Reduce Arguments::reduce_by_group(nb::handle object) {
  const char* text = PyUnicode_Check(object.ptr()) ? PyUnicode_AsUTF8(object.ptr()) : nullptr;
  if (!text) PyErr_Clear();
  try {
    return text ? ReduceName(std::string_view(text)).value() : Reduce::mean;
  } catch (const Error&) {
    return Reduce::mean;
  }
}

// Lists and numbers have no device of their own: they follow the destination.
Tensor Arguments::read_array(nb::handle object, const char* name, std::optional<DType> hint) {
  Tensor tensor = to_tensor(object, {op_, name}, Access::read, hint);
  if (!(device_ == Device{})) {
    const Kind kind = info_of(object).kind;
    if (kind == Kind::sequence || kind == Kind::number) tensor = on_device(tensor, device_);
  }
  return count(std::move(tensor));
}

Tensor Arguments::array(nb::handle object) {
  const char* name = next();
  // A bool where a mask should be is what comparing whole objects gives.
  if (std::string_view(name) == "mask" && info_of(object).kind == Kind::number) {
    raise(PyExc_TypeError,
          prefix(op_) + "mask is " + describe(object) + "; it must be an array of bool");
  }
  if (std::string_view(name) == "mask") return read_array(object, name, DType::bool_);
  return read_values(object, name);
}

// Values for the destination: a list takes its type, and a type that is only moved must be its own.
Tensor Arguments::read_values(nb::handle object, const char* name) {
  const Kind kind = info_of(object).kind;
  if (carried_.empty()) {
    if (kind != Kind::sequence || !dtype_) return read_array(object, name, dtype_);
    Tensor tensor = list_as(object, {op_, name}, *dtype_);
    return count(device_ == Device{} ? std::move(tensor) : on_device(tensor, device_));
  }
  std::string carried;
  Tensor tensor = to_tensor(object, {op_, name}, Access::read, dtype_, &carried);
  if (carried != carried_) {
    raise(PyExc_TypeError, prefix(op_) + name + " is " + describe(object) + " of " +
                               (carried.empty() ? name_of(tensor.dtype()) : carried.c_str()) +
                               "; it must be " + carried_ + ", as the destination is");
  }
  return count(std::move(tensor));
}

// Zero is zero in every type; what other numbers are there, only their library knows.
Source Arguments::carried_number(nb::handle object, const char* name) const {
  if (PyObject_IsTrue(object.ptr()) == 0) return Source(Scalar(0));
  raise(PyExc_TypeError, prefix(op_) + name + " is " + describe(object) + ", which is no " +
                             carried_ + "; give an array of that type");
}

Source Arguments::values(nb::handle object) {
  const char* name = next();
  if (info_of(object).kind == Kind::number) {
    return carried_.empty() ? Source(*number_of(object)) : carried_number(object, name);
  }
  return Source(read_values(object, name));
}

Scalar Arguments::number(nb::handle object, const char* name) const {
  if (info_of(object).kind == Kind::number) return *number_of(object);
  raise(PyExc_TypeError, prefix(op_) + name + " is " + describe(object) + "; it must be a number");
}

std::string Arguments::text(nb::handle object, const char* name) const {
  return std::string(text_in(object, op_, name, "a name"));
}

// Unsigned keys as int64; those beyond it are out of range whatever the axis.
Tensor Arguments::read_keys(nb::handle object, const char* name) {
  const Kind kind = info_of(object).kind;
  if (kind == Kind::sequence || kind == Kind::number) return read_array(object, name, DType::int64);
  std::string carried;
  const Tensor tensor = to_tensor(object, {op_, name}, Access::read, DType::int64, &carried);
  count(tensor);
  if (carried.empty()) return signed_keys(tensor);
  raise(PyExc_TypeError, prefix(op_) + name + " is " + describe(object) + " of " + carried +
                             "; an index must be of an integer type");
}

Index Arguments::keys(nb::handle object, const char* name) {
  // Arrays first: asking for an Index costs a look into a table of types.
  if (info_of(object).kind != Kind::other || !nb::isinstance<Index>(object)) {
    if (info_of(object).kind == Kind::number) expect_index(object, op_, name);
    Tensor found = read_keys(object, name);
    if (!bounds_.wraps && found.dtype() != DType::bool_) {
      found = unwrapped(found, bounds_.bounds, op_);
    }
    return Index(std::move(found), bounds_.bounds);
  }
  const Index& index = instance<Index>(object);
  if (!bounds_.wraps || (bounds_.bounds != Bounds::error && bounds_.bounds != index.bounds())) {
    raise(PyExc_ValueError,
          prefix(op_) + name + " is an Index with bounds of its own; leave bounds= out");
  }
  work_ += index.keys().numel();
  return index;
}

std::vector<Index> Arguments::keys_list(nb::handle object) {
  const char* name = next();
  std::vector<Index> all;
  if (!is_one_an_axis(object)) {
    refuse_bare_numbers(object, op_, name);
    all.push_back(keys(object, name));
    return all;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object.ptr()); ++i) {
    nb::object item = nb::borrow(PySequence_Fast_GET_ITEM(object.ptr(), i));
    all.push_back(item.is_none() ? Index::whole_axis() : keys(item, name));
  }
  return all;
}

}  // namespace sow::python
