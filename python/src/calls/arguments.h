// SPDX-License-Identifier: Apache-2.0
// The arguments of operations: how each Python object becomes what the C++ function takes.
#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "arrays/arrays.h"

namespace sow::python {

// One type for each role an argument plays, and the name signatures and stubs give it. Python's
// objects pass through unchanged; `Arguments` converts them, since it knows the operation, the
// destination's type and the policy for indices.
template <class Tag>
struct Role {
  nb::handle object;
};
using Destination = Role<struct DestinationTag>;     // the first argument: its kind is the result's
using ArrayArg = Role<struct ArrayTag>;              // read
using ValuesArg = Role<struct ValuesTag>;            // an array, or one number for every place
using KeysArg = Role<struct KeysTag>;                // an array of indices, or an Index
using KeysListArg = Role<struct KeysListTag>;        // one KeysArg, or several
using ShapeArg = Role<struct ShapeTag>;              // an int or a sequence of ints
using AxisArg = Role<struct AxisTag>;                // an int, or None: the flattened array
using AxesArg = Role<struct AxesTag>;                // the same, or None: every axis
using ReduceArg = Role<struct ReduceTag>;            // a name; None is "assign"
using MaybeReduceArg = Role<struct MaybeReduceTag>;  // the same; None is none
using NumberArg = Role<struct NumberTag>;            // a number, of any kind
using IntsArg = Role<struct IntsTag>;                // an int, several, or None
using OutArg = Role<struct OutTag>;                  // an array that takes the result, or None
using BoundsArg = Role<struct BoundsTag>;            // "error", "drop", "clip", "promise", ...
using PolicyArg = Role<struct PolicyTag>;            // the same, handed to the function
using GroupReduceArg = Role<struct GroupReduceTag>;  // the name of a reduction by group
using TextArg = Role<struct TextTag>;                // the name of a reduction that is no scatter's
using MaybeArrayArg = Role<struct MaybeArrayTag>;    // an array of a type of its own, or None
using NameArg = Role<struct NameTag>;                // for programs; eager calls do not look at it
using StreamArg = Role<struct StreamTag>;       // a CUDA stream; None: the arrays' library's own
using SliceStart = Role<struct SliceStartTag>;  // an int, or None: from the beginning
using SliceEnd = Role<struct SliceEndTag>;      // an int, or None: to the end

template <class Tag>
struct Outcome {
  nb::object object;
};
using SameKind = Outcome<struct SameKindTag>;  // a result of the destination's kind
using OwnKind = Outcome<struct OwnKindTag>;    // the same, of a method: a Tensor

// What happens to an index outside of its axis, and whether negative ones count from its end.
struct BoundsPolicy {
  Bounds bounds = Bounds::error;
  bool wraps = true;
};
BoundsPolicy parse_policy(nb::handle object, const char* op);
Bounds parse_bounds(nb::handle object, const char* op);  // where negative indices always wrap
Reduce parse_reduce(nb::handle object, const char* op);
Dims parse_shape(nb::handle object, const char* op, const char* argument = "shape");
// One int, or a sequence of them in which None counts as the last number there is (slices' ends).
Dims parse_ints(nb::handle object, const char* op, const char* argument);
Device parse_device(nb::handle object, const char* op);  // None is the CPU
std::string parse_name(nb::handle object, const char* op);
// A number may be an index, but True and 1.0 are none.
void expect_index(nb::handle object, const char* op, const char* argument);
int64_t parse_integer(nb::handle object, const char* op, const char* argument);
// A tuple of two ints: a version, a device.
std::pair<int64_t, int64_t> parse_pair(nb::handle object, const char* op, const char* argument);

// A result goes into the array that the caller gave for it, which has its type and shape.
nb::object put_out(const char* op, const Tensor& result, const std::string& carried,
                   nb::handle out);
// Unsigned keys as int64; those beyond it are out of range whatever the axis.
Tensor signed_keys(const Tensor& keys);
// Where a graph is recorded there is nothing yet to put anywhere.
[[noreturn]] void refuse_out(const char* op);

// Reads the arguments of one call, left to right.
class Arguments {
 public:
  // `names` has one name an argument, the destination's first.
  Arguments(const char* op, std::span<const char* const> names) : op_(op), names_(names) {}

  // Two passes: the policy comes last in the signature, but the indices need it.
  void prepare(BoundsArg bounds) { bounds_ = parse_policy(bounds.object, op_); }
  void prepare(ReduceArg reduce) { reduce_ = parse_reduce(reduce.object, op_); }
  void prepare(MaybeReduceArg reduce) { reduce_ = parse_reduce(reduce.object, op_); }
  void prepare(GroupReduceArg reduce) { reduce_ = reduce_by_group(reduce.object); }
  void prepare(bool flag) {
    if (!flag_) flag_ = flag;
  }
  template <class T>
  void prepare(const T&) {}

  Tensor destination(nb::handle object, Access access);

  auto read(ArrayArg a) { return std::tuple(array(a.object)); }
  auto read(ValuesArg a) { return std::tuple(values(a.object)); }
  auto read(KeysArg a) { return std::tuple(keys(a.object, next())); }
  auto read(KeysListArg a) { return std::tuple(keys_list(a.object)); }
  auto read(ShapeArg a) { return next(), std::tuple(parse_shape(a.object, op_)); }
  auto read(AxesArg a) {
    const char* name = next();
    std::optional<Dims> axes;  // None: all of them, which is not the same as ()
    if (!a.object.is_none()) axes = parse_shape(a.object, op_, name);
    return std::tuple(axes);
  }
  auto read(AxisArg a) {
    const char* name = next();
    std::optional<int64_t> axis;
    if (!a.object.is_none()) axis = parse_integer(a.object, op_, name);
    return std::tuple(axis);
  }
  auto read(double a) { return next(), std::tuple(a); }
  auto read(PolicyArg a) { return next(), std::tuple(parse_policy(a.object, op_)); }
  auto read(GroupReduceArg a) { return std::tuple(text(a.object, next())); }
  auto read(TextArg a) { return std::tuple(text(a.object, next())); }
  auto read(MaybeArrayArg a) {
    const char* name = next();
    std::optional<Tensor> array;
    if (!a.object.is_none()) array = read_array(a.object, name, {});
    return std::tuple(array);
  }
  auto read(ReduceArg a) { return next(), std::tuple(ReduceName(parse_reduce(a.object, op_))); }
  auto read(MaybeReduceArg a) {
    next();
    std::optional<ReduceName> reduce;
    if (!a.object.is_none()) reduce = ReduceName(parse_reduce(a.object, op_));
    return std::tuple(reduce);
  }
  auto read(NumberArg a) { return std::tuple(number(a.object, next())); }
  auto read(IntsArg a) {
    const char* name = next();
    std::optional<Dims> ints;
    if (!a.object.is_none()) ints = parse_ints(a.object, op_, name);
    return std::tuple(ints);
  }
  auto read(SliceStart a) {
    const char* name = next();
    return std::tuple(a.object.is_none() ? int64_t{0} : parse_integer(a.object, op_, name));
  }
  auto read(SliceEnd a) {
    const char* name = next();
    return std::tuple(a.object.is_none() ? kEnd : parse_integer(a.object, op_, name));
  }
  auto read(int64_t a) { return next(), std::tuple(a); }
  auto read(bool a) { return next(), std::tuple(a); }
  auto read(BoundsArg) { return next(), std::tuple(); }
  auto read(NameArg a) {
    if (!a.object.is_none()) name_ = parse_name(a.object, op_);
    return next(), std::tuple();
  }

  // What a program calls the result.
  const std::optional<std::string>& name() const { return name_; }

  // The type of a destination that sow only moves, by its name; empty for its own types.
  const std::string& carried() const { return carried_; }

  // Elements looked at so far: what decides whether letting other threads run is worth its price.
  int64_t work() const { return work_; }

 private:
  const char* next() { return names_[position_++]; }
  Tensor array(nb::handle object);
  Tensor read_array(nb::handle object, const char* name, std::optional<DType> hint);
  Tensor read_values(nb::handle object, const char* name);
  Tensor read_keys(nb::handle object, const char* name);
  Source carried_number(nb::handle object, const char* name) const;
  static Reduce reduce_by_group(nb::handle object);
  bool only_moves() const;
  std::string text(nb::handle object, const char* name) const;
  Source values(nb::handle object);
  Scalar number(nb::handle object, const char* name) const;
  Index keys(nb::handle object, const char* name);
  std::vector<Index> keys_list(nb::handle object);
  Tensor count(Tensor tensor);

  const char* op_;
  std::span<const char* const> names_;
  size_t position_ = 0;
  std::optional<DType> dtype_;
  Device device_;
  BoundsPolicy bounds_;
  Reduce reduce_ = Reduce::assign;
  std::optional<bool> flag_;  // the first of its switches: index_put's accumulate
  std::string carried_;
  int64_t work_ = 0;
  std::optional<std::string> name_;
};

}  // namespace sow::python

namespace nanobind::detail {

template <class Tag>
constexpr auto role_name() {
  using namespace sow::python;
  if constexpr (std::is_same_v<Tag, DestinationTag>)
    return const_name("sow._types.A");
  else if constexpr (std::is_same_v<Tag, KeysTag>)
    return const_name("sow._types.IndexLike");
  else if constexpr (std::is_same_v<Tag, KeysListTag>)
    return const_name(
        "sow._types.IndexLike | collections.abc.Sequence[sow._types.IndexLike | None]");
  else if constexpr (std::is_same_v<Tag, ShapeTag>)
    return const_name("sow._types.Shape");
  else if constexpr (std::is_same_v<Tag, AxisTag>)
    return const_name("int | None");
  else if constexpr (std::is_same_v<Tag, AxesTag> || std::is_same_v<Tag, IntsTag>)
    return const_name("sow._types.Shape | None");
  else if constexpr (std::is_same_v<Tag, NumberTag>)
    return const_name("sow._types.Number");
  else if constexpr (std::is_same_v<Tag, OutTag>)
    return const_name("sow._types.Out");
  else if constexpr (std::is_same_v<Tag, ReduceTag>)
    return const_name("sow._types.Reduction | None");
  else if constexpr (std::is_same_v<Tag, GroupReduceTag>)
    return const_name("sow._types.GroupReduction");
  else if constexpr (std::is_same_v<Tag, MaybeReduceTag>)
    return const_name("sow._types.Reduction | None");
  else if constexpr (std::is_same_v<Tag, BoundsTag> || std::is_same_v<Tag, PolicyTag>)
    return const_name("sow._types.Policy");
  else if constexpr (std::is_same_v<Tag, ArrayTag> || std::is_same_v<Tag, ValuesTag>)
    return const_name("sow._types.ArrayLike");
  else if constexpr (std::is_same_v<Tag, MaybeArrayTag>)
    return const_name("sow._types.ArrayLike | None");
  else if constexpr (std::is_same_v<Tag, StreamTag>)
    return const_name("sow._types.StreamLike | None");
  else if constexpr (std::is_same_v<Tag, SliceStartTag> || std::is_same_v<Tag, SliceEndTag>)
    return const_name("int");
  else
    return const_name("str");
}

template <class Tag>
struct type_caster<sow::python::Role<Tag>> {
  using Value = sow::python::Role<Tag>;
  static constexpr auto Name = role_name<Tag>();
  template <class>
  using Cast = Value;
  template <class>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value.object = source;
    return true;
  }
  explicit operator Value() { return value; }
  Value value;
};

template <class Tag>
struct type_caster<sow::python::Outcome<Tag>> {
  using Value = sow::python::Outcome<Tag>;
  static constexpr auto Name = const_name<std::is_same_v<Tag, sow::python::OwnKindTag>>(
      const_name("sow._core.Tensor"), const_name("sow._types.A"));
  template <class>
  using Cast = Value;
  template <class>
  static constexpr bool can_cast() {
    return true;
  }
  static handle from_cpp(Value&& result, rv_policy, cleanup_list*) noexcept {
    return result.object.release();
  }
};

}  // namespace nanobind::detail
